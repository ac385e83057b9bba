//! Tools, manifests, versions and agents.

use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{App, get_tool};

#[tokio::test]
async fn a_tool_is_live_when_the_write_returns() {
    let app = App::new().await;
    app.agent("support", json!({})).await;
    let written = app.put("/v1/tools/ping", get_tool("ping", "https://api.example.com/ping")).await;
    assert_eq!(written.status, StatusCode::CREATED);
    assert_eq!(written.json()["result"], "created");
    let tools = app.get("/v1/agents/support/tools?format=anthropic").await.json();
    assert_eq!(
        tools["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect::<Vec<_>>(),
        ["ping", "read_clock"]
    );
    assert_eq!(app.as_admin(Method::DELETE, "/v1/tools/ping", Body::empty()).await.status, StatusCode::NO_CONTENT);
    assert_eq!(app.get("/v1/tools/ping").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn revisions_guard_writes() {
    let app = App::new().await;
    let put = |header: &'static str, value: String, description: &'static str| {
        let mut tool = get_tool("ping", "https://api.example.com/ping");
        tool["description"] = description.into();
        let mut request = app.request(Method::PUT, "/v1/tools/ping", Some(&app.admin), tool.to_string());
        request.headers_mut().insert(header, value.parse().unwrap());
        app.send(request)
    };
    let first = put("if-none-match", "*".into(), "one").await;
    assert_eq!(first.status, StatusCode::CREATED);
    let etag = first.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(put("if-none-match", "*".into(), "two").await.code(), "store.stale_revision");
    assert_eq!(put("if-match", etag.clone(), "two").await.status, StatusCode::OK);
    let stale = put("if-match", etag, "three").await;
    assert_eq!((stale.status, stale.code().as_str()), (StatusCode::PRECONDITION_FAILED, "store.stale_revision"));
    assert_eq!(put("if-match", "abc".into(), "three").await.code(), "http.if_match");
    let stored = app.get("/v1/tools/ping").await;
    assert_eq!(stored.json()["definition"]["description"], "two");
}

#[tokio::test]
async fn one_of_two_writers_wins() {
    let app = App::new().await;
    app.tool(get_tool("ping", "https://api.example.com/0")).await;
    let etag = app.get("/v1/tools/ping").await.headers["etag"].clone();
    let write = |i: usize| {
        let tool = get_tool("ping", &format!("https://api.example.com/{i}"));
        let mut request = app.request(Method::PUT, "/v1/tools/ping", Some(&app.admin), tool.to_string());
        request.headers_mut().insert("if-match", etag.clone());
        app.send(request)
    };
    let statuses = futures_util::future::join_all((1..=8).map(write)).await;
    let won = statuses.iter().filter(|answer| answer.status == StatusCode::OK).count();
    let lost = statuses.iter().filter(|answer| answer.status == StatusCode::PRECONDITION_FAILED).count();
    assert_eq!((won, lost), (1, 7));
}

#[tokio::test]
async fn versions_are_kept_and_restored_also_after_a_delete() {
    let app = App::new().await;
    for i in 1..=25 {
        app.tool(get_tool("ping", &format!("https://api.example.com/{i}"))).await;
    }
    let versions = app.get("/v1/tools/ping/versions").await.json();
    let numbers: Vec<i64> =
        versions["versions"].as_array().unwrap().iter().map(|v| v["version"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (6..=25).rev().collect::<Vec<_>>());
    assert_eq!(versions["versions"][0]["actor"], "root");
    app.as_admin(Method::DELETE, "/v1/tools/ping", Body::empty()).await;
    let restored = app.post("/v1/tools/ping/versions/10/restore", Value::Null).await;
    assert_eq!(restored.status, StatusCode::OK, "{}", restored.text);
    let tool = app.get("/v1/tools/ping").await.json();
    assert_eq!(tool["definition"]["request"]["url"], "https://api.example.com/10");
    assert_eq!(tool["version"], 26);
    assert_eq!(app.post("/v1/tools/ping/versions/2/restore", Value::Null).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn importing_twice_changes_nothing() {
    let app = App::new().await;
    let manifest = json!({
        "defaults": { "base_url": "https://{{env.REGION}}.example.com/", "path_template": "/t/{endpoint}" },
        "tools": [
            { "name": "one", "description": "One", "endpoint": "one" },
            { "name": "two", "description": "Two", "endpoint": "two" },
            { "name": "read_clock", "description": "Shadow", "endpoint": "x" },
            { "name": "bad", "description": "Bad", "endpoint": "x", "method": "SEND" },
        ],
    });
    let first = app.post("/v1/tools/manifest", manifest.clone()).await.json();
    assert_eq!(first["created"], json!(["one", "two"]));
    let tools: Vec<&str> = first["errors"].as_array().unwrap().iter().map(|e| e["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["bad", "read_clock"]);
    let revision = app.store.revision().await.unwrap();
    let second = app.post("/v1/tools/manifest", manifest).await.json();
    assert_eq!((&second["unchanged"], &second["created"]), (&json!(["one", "two"]), &json!([])));
    assert_eq!(app.store.revision().await.unwrap(), revision);
    let url = &app.get("/v1/tools/one").await.json()["definition"]["request"]["url"];
    assert_eq!(url, "https://south.example.com/t/one");
}

#[tokio::test]
async fn warnings_say_what_will_fail_later() {
    let app = App::with_policy(toolcrib_egress::Policy::default()).await;
    let mut tool = get_tool("inner", "http://10.0.0.5/x");
    tool["request"]["headers"] = json!({ "Authorization": "Bearer {{secret.unknown}}" });
    tool["secret_headers"] = json!(["Authorization"]);
    let answer = app.put("/v1/tools/inner", tool).await.json();
    let warnings = answer["warnings"].to_string();
    for part in ["egress.scheme", "unknown"] {
        assert!(warnings.contains(part), "{warnings}");
    }
    app.agent("lost", json!({ "tools_allow": ["nowhere"], "tools_deferred": ["inner"] })).await;
    let doctor = app.get("/v1/doctor").await.json().to_string();
    for part in ["nowhere", "tools_deferred names", "egress.scheme"] {
        assert!(doctor.contains(part), "{doctor}");
    }
}

#[tokio::test]
async fn allowlists_have_three_states() {
    let app = App::new().await;
    for (name, group) in [("a_one", "a"), ("a_two", "a"), ("b_one", "b"), ("loose", "")] {
        let mut tool = get_tool(name, "https://api.example.com/");
        tool["group"] = group.into();
        app.tool(tool).await;
    }
    let all = ["a_one", "a_two", "b_one", "loose", "read_clock"];
    let check = async |profile: Value, expected: &[&str]| {
        app.agent("x", profile.clone()).await;
        let answer = app.get("/v1/agents/x/tools?format=mcp").await.json();
        let names: Vec<&str> =
            answer["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{profile}");
    };
    check(json!({}), &all).await;
    check(json!({ "tools_allow": [] }), &[]).await;
    check(json!({ "tools_allow": ["loose", "unknown"] }), &["loose"]).await;
    check(json!({ "tools_allow_groups": ["a"] }), &["a_one", "a_two"]).await;
    check(json!({ "tools_allow": ["b_one"], "tools_allow_groups": ["a"] }), &["a_one", "a_two", "b_one"]).await;
    check(json!({ "tools_allow": [], "tools_allow_groups": ["b"] }), &["b_one"]).await;
    check(json!({ "tools_deny": ["a_one", "read_clock"] }), &["a_two", "b_one", "loose"]).await;
    check(json!({ "tools_allow": ["a_one"], "tools_deny": ["a_one"] }), &[]).await;
    check(json!({ "tools_deferred": ["loose"] }), &["a_one", "a_two", "b_one", "read_clock"]).await;
}

#[tokio::test]
async fn a_stored_row_that_no_longer_validates_is_left_out_and_never_lost() {
    let app = App::new().await;
    app.tool(get_tool("ping", "https://api.example.com/")).await;
    // A foreign hand writes a definition that is none, and one that is no text.
    let mut other = crate::storage::other_process(&app).await;
    let bump = "UPDATE catalog SET revision = revision + 1";
    sqlx::query(bump).execute(&mut other).await.unwrap();
    let change = "UPDATE tools SET definition = '{\"name\": \"ping\"}', revision = (SELECT revision FROM catalog)";
    sqlx::query(change).execute(&mut other).await.unwrap();
    sqlx::query(bump).execute(&mut other).await.unwrap();
    let insert = "INSERT INTO tools (name, definition, version, revision, created_at, updated_at) \
                  VALUES ('bytes', X'FFFE', 1, (SELECT revision FROM catalog), 0, 0)";
    sqlx::query(insert).execute(&mut other).await.unwrap();
    app.executor.registry().refresh().await.unwrap();
    assert_eq!(app.get("/v1/tools/ping").await.status, StatusCode::NOT_FOUND);
    let doctor = app.get("/v1/doctor").await.json();
    assert_eq!(doctor["healthy"], false);
    assert!(doctor.to_string().contains("tool.broken_row"), "{doctor}");
    assert_eq!(app.get("/v1/tools/ping/versions").await.json()["versions"][0]["version"], 1);
    let restored = app.post("/v1/tools/ping/versions/1/restore", Value::Null).await;
    assert_eq!(restored.status, StatusCode::OK, "{}", restored.text);
    let versions = app.get("/v1/tools/ping/versions").await.json();
    assert_eq!(versions["versions"][1]["actor"], "unknown", "the foreign text is kept: {versions}");
    app.tool(get_tool("bytes", "https://api.example.com/")).await;
    assert_eq!(app.get("/v1/doctor").await.json()["healthy"], true);
}

#[tokio::test]
async fn search_and_pages() {
    let app = App::new().await;
    for i in 0..7 {
        app.tool(get_tool(&format!("tool_{i}"), "https://api.example.com/")).await;
    }
    app.tool(json!({ "name": "cancel_order", "description": "Cancel an order", "request": { "url": "https://api.example.com" } })).await;
    let found = app.get("/v1/tools?q=cancelling%20orders").await.json();
    assert_eq!(found["tools"][0]["name"], "cancel_order");
    let mut names = Vec::new();
    let mut after = String::new();
    loop {
        let page = app.get(&format!("/v1/tools?limit=3&after={after}")).await.json();
        names.extend(page["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(names.len(), 9);
    assert!(names.is_sorted());
}

#[tokio::test]
async fn a_tool_may_be_called_like_an_address() {
    let app = App::new().await;
    for name in ["manifest", "validate"] {
        app.tool(get_tool(name, "https://api.example.com/")).await;
        assert_eq!(app.get(&format!("/v1/tools/{name}")).await.json()["name"], name);
    }
}

#[tokio::test]
async fn a_manifest_lands_before_its_secrets() {
    let app = App::new().await;
    let mut tool = get_tool("pay", "https://api.example.com");
    tool["request"]["headers"] = json!({"Authorization": "Bearer {{secret.not_there}}"});
    tool["secret_headers"] = json!(["Authorization"]);
    let manifest = json!({ "tools": [tool] });
    let now = app.post("/v1/tools/manifest", manifest.clone()).await.json();
    assert_eq!((&now["created"], now["errors"].as_array().unwrap().len()), (&json!([]), 1), "{now}");
    let later = app.post("/v1/tools/manifest?secrets=later", manifest.clone()).await.json();
    assert_eq!((&later["created"], &later["errors"]), (&json!(["pay"]), &json!([])), "{later}");
    assert!(later["warnings"].to_string().contains("not_there"), "{later}");
    let odd = app.post("/v1/tools/manifest?secrets=never", manifest).await;
    assert_eq!(odd.status, StatusCode::BAD_REQUEST);
}
