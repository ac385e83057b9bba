//! A database that is full, locked, or opened anew.

use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::json;
use sqlx::Connection;

use crate::app::{App, get_tool};

pub async fn other_process(app: &App) -> sqlx::SqliteConnection {
    let path = app.folder.path().join("test.db");
    sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap()
}

#[tokio::test]
async fn a_locked_database_is_said_and_nothing_is_lost() {
    let app = App::new().await;
    app.agent("a", json!({})).await;
    let mut other = other_process(&app).await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let refused = app.put("/v1/tools/ping", get_tool("ping", "https://api.example.com")).await;
    assert_eq!((refused.status, refused.code().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "store.busy"));
    assert_eq!(refused.json()["retryable"], true);
    assert_eq!(app.get("/v1/tools").await.json()["total"], 1, "reading goes on");
    let outcome = app.call("a", "read_clock", json!({})).await;
    assert_eq!(outcome["status"], "ok", "calls go on");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    app.tool(get_tool("ping", "https://api.example.com")).await;
    assert!(app.executor.recorder().flush(std::time::Duration::from_secs(10)).await);
    assert_eq!(app.trace(&outcome).await["status"], "ok", "the trace waited");
    assert_eq!(app.executor.metrics().traces_lost(), 0);
}

#[tokio::test]
async fn a_full_disk_is_said_and_nothing_is_lost() {
    let app = App::new().await;
    app.tool(get_tool("ping", "https://api.example.com/0")).await;
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut other_process(&app).await).await.unwrap();
    app.store.limit_pages(pages).await.unwrap();
    let mut tool = get_tool("ping", "https://api.example.com/1");
    tool["description"] = "x".repeat(200_000).into();
    let refused = app.put("/v1/tools/ping", tool.clone()).await;
    assert_eq!((refused.status, refused.code().as_str()), (StatusCode::INSUFFICIENT_STORAGE, "store.full"));
    let kept = app.get("/v1/tools/ping").await.json();
    assert_eq!(kept["definition"]["request"]["url"], "https://api.example.com/0");
    app.store.limit_pages(i64::from(i32::MAX)).await.unwrap();
    app.tool(tool).await;
    app.store.check_integrity().await.unwrap();
}

#[tokio::test]
async fn what_another_process_writes_is_taken_over() {
    let app = App::new().await;
    let location = toolcrib_store::Location::File(app.folder.path().join("test.db"));
    let (clock, randomness) = (app.store.clock().clone(), app.store.randomness().clone());
    let other = toolcrib_store::Store::open(&location, clock, randomness).await.unwrap();
    let other = toolcrib_registry::Registry::builder(other).open().await.unwrap();
    let tool = toolcrib_definition::Definition::from_value(&get_tool("ping", "https://api.example.com")).unwrap();
    other.put_tool(&tool, toolcrib_store::Expect::Anything, "other").await.unwrap();
    assert_eq!(app.get("/v1/tools/ping").await.status, StatusCode::NOT_FOUND);
    app.executor.registry().refresh().await.unwrap();
    assert_eq!(app.get("/v1/tools/ping").await.status, StatusCode::OK);
    app.as_admin(Method::DELETE, "/v1/tools/ping", Body::empty()).await;
    other.refresh().await.unwrap();
    assert!(other.snapshot().tool("ping").is_none());
}

#[tokio::test]
async fn rows_that_cannot_be_read_hide_no_others() {
    let app = App::new().await;
    let mut other = other_process(&app).await;
    for sql in [
        "UPDATE catalog SET revision = revision + 5",
        "INSERT INTO agents (id, profile, revision, created_at, updated_at) \
         VALUES ('g1', X'ff', (SELECT revision FROM catalog), 0, 0)",
        "INSERT INTO tools (name, definition, version, revision, created_at, updated_at) \
         VALUES ('odd', '{}', 'abc', (SELECT revision FROM catalog), 0, 0)",
        "INSERT INTO tokens (id, name, role, hash, revision, created_at) \
         VALUES ('t1', 'emperor', 'emperor', 'h', (SELECT revision FROM catalog), 0)",
        "INSERT INTO tokens (id, name, role, hash, revision, created_at) \
         VALUES ('t2', X'ff', 'admin', 'i', (SELECT revision FROM catalog), 0)",
        "INSERT INTO skills (scope, name, document, version, revision, actor, created_at, updated_at) \
         VALUES ('', 'nameless', 'no frontmatter', 1, (SELECT revision FROM catalog), 'x', 0, 0)",
    ] {
        sqlx::query(sql).execute(&mut other).await.unwrap();
    }
    app.tool(get_tool("after", "https://api.example.com/")).await;
    assert_eq!(app.get("/v1/tools/after").await.status, StatusCode::OK);
    let document = serde_json::json!({"document": "---\nname: after\ndescription: d\n---\ntext"});
    app.put("/v1/skills/after", document).await;
    assert_eq!(app.get("/v1/skills/after").await.status, StatusCode::OK);
    let token = app.token("auditor", None).await;
    assert_eq!(
        app.send(app.request(Method::GET, "/v1/tools", Some(&token), Body::empty())).await.status,
        StatusCode::OK
    );
    let doctor = app.get("/v1/doctor").await.json();
    let found = doctor["findings"].as_array().unwrap().iter().filter(|f| f["code"] == "store.bad_row").count();
    assert_eq!((found, &doctor["healthy"]), (4, &false.into()), "{doctor}");
    let broken = |finding: &&serde_json::Value| finding["code"] == "skill.broken_row";
    let broken = doctor["findings"].as_array().unwrap().iter().find(broken).expect("the skill is named");
    assert_eq!(broken["subject"], "nameless");
    let location = toolcrib_store::Location::File(app.folder.path().join("test.db"));
    let again = toolcrib_store::Store::open(&location, app.store.clock().clone(), app.store.randomness().clone()).await;
    let again = toolcrib_registry::Registry::builder(again.unwrap()).open().await.unwrap();
    assert!(again.snapshot().tool("after").is_some(), "and a restart comes up");
}

#[tokio::test]
async fn a_version_that_cannot_be_read_says_so_beside_the_others() {
    let app = App::new().await;
    app.tool(get_tool("ping", "https://api.example.com/1")).await;
    app.tool(get_tool("ping", "https://api.example.com/2")).await;
    let damage = "UPDATE tool_versions SET definition = '{' WHERE name = 'ping' AND version = 1";
    sqlx::query(damage).execute(&mut other_process(&app).await).await.unwrap();
    let listed = app.get("/v1/tools/ping/versions").await.json();
    let versions = listed["versions"].as_array().unwrap();
    let of = |version: i64| versions.iter().find(|v| v["version"] == version).unwrap();
    assert!(of(1)["definition"].is_null() && of(1)["problem"].is_string(), "{listed}");
    assert!(of(2)["definition"].is_object() && of(2).get("problem").is_none(), "{listed}");
}
