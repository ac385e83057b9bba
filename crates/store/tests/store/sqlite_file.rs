//! What is so of a SQLite file only.

use std::sync::Arc;

use sqlx::Connection;
use toolcrib_definition::Definition;
use toolcrib_store::{Expect, Location, OsRandomness, Store, StoreError, SystemClock};

use crate::databases::sqlite;
use crate::{tool, trace};

#[tokio::test]
async fn many_tools_land_together_or_not_at_all() {
    let opened = sqlite().await;
    let tools: Vec<Definition> = (0..50).map(|i| tool(&format!("t_{i}"), 1)).collect();
    opened.store.put_tools(&tools, "t").await.unwrap();
    let path = opened.folder.path().join("test.db");
    let mut other = sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut other).await.unwrap();
    opened.store.limit_pages(pages).await.unwrap();
    let more: Vec<Definition> = (0..500).map(|i| tool(&format!("u_{i}"), 1)).collect();
    assert!(matches!(opened.store.put_tools(&more, "t").await, Err(StoreError::Full)));
    assert!(opened.store.tool("u_0").await.unwrap().is_none());
    opened.store.put_tool(&tool("t_0", 1), Expect::Anything, "t").await.unwrap();
    opened.store.check_integrity().await.unwrap();
}

#[tokio::test]
async fn a_database_of_the_first_version_is_brought_up_to_date() {
    let opened = sqlite().await;
    opened.store.put_tool(&tool("ping", 1), Expect::Anything, "t").await.unwrap();
    opened.store.close().await;
    // Back to the first migration, as a program of that time left it.
    let path = opened.folder.path().join("test.db");
    let mut old = sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    for sql in [
        "DROP TABLE traces",
        "DROP TABLE evidence",
        "DROP TABLE mcp_servers",
        "DROP TABLE ledger",
        "DROP TABLE ledger_events",
        "DROP TABLE approvals",
        "DROP TABLE approval_notices",
        "DROP TABLE skills",
        "DROP TABLE skill_versions",
        "DROP TABLE turns",
        "DROP TABLE turn_waits",
        "DELETE FROM _sqlx_migrations WHERE version > 1",
    ] {
        sqlx::query(sql).execute(&mut old).await.unwrap();
    }
    old.close().await.unwrap();
    let again = Store::open(&opened.location, Arc::new(SystemClock), Arc::new(OsRandomness)).await.unwrap();
    assert!(again.tool("ping").await.unwrap().is_some());
    again.insert_traces(&[trace(1, "s", "a", 1)]).await.unwrap();
    again.close().await;

    let mut newer = sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    let sql = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
               VALUES (999, 'later', 1, X'00', 0)";
    sqlx::query(sql).execute(&mut newer).await.unwrap();
    newer.close().await.unwrap();
    let refused = Store::open(&opened.location, Arc::new(SystemClock), Arc::new(OsRandomness)).await;
    assert_eq!(refused.err().unwrap().code(), "store.migration");
}

/// SQLite does not wait by itself here: it says at once that the file is locked.
#[tokio::test]
async fn a_new_file_that_another_process_sets_up_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut other = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let location = Location::File(path);
    let opening = Store::open(&location, Arc::new(SystemClock), Arc::new(OsRandomness));
    let ended = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    };
    let (store, ()) = tokio::join!(opening, ended);
    store.unwrap().check_integrity().await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_database_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("not.db");
    std::fs::write(&path, "this is a text, and a long enough one to be no header of a database at all, at all")
        .unwrap();
    let location = Location::File(path);
    let refused = Store::open(&location, Arc::new(SystemClock), Arc::new(OsRandomness)).await;
    assert_eq!(refused.err().unwrap().code(), "store.corrupt");
}
