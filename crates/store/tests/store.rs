//! The rows over a real SQLite file.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sqlx::Connection;
use tempfile::TempDir;
use toolcrib_definition::Definition;
use toolcrib_store::{
    Clock, Expect, Location, MAX_EVIDENCE, OsRandomness, Retention, Revision, Store, StoreError, SystemClock,
    TraceFilter, TraceRow, WriteKind, time_ordered_id,
};

/// A clock that stands still until it is set.
struct Stopped(AtomicI64);

impl Clock for Stopped {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

struct Opened {
    store: Store,
    clock: Arc<Stopped>,
    folder: TempDir,
}

impl Opened {
    fn location(&self) -> Location {
        Location::File(self.folder.path().join("test.db"))
    }
}

async fn open() -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Stopped(AtomicI64::new(1_000_000)));
    let location = Location::File(folder.path().join("test.db"));
    let store = Store::open(&location, Arc::<Stopped>::clone(&clock), Arc::new(OsRandomness)).await.unwrap();
    Opened { store, clock, folder }
}

fn tool(name: &str, path: u32) -> Definition {
    let json = format!(r#"{{"name": "{name}", "description": "d", "request": {{"url": "https://a.example/{path}"}}}}"#);
    Definition::from_json(json.as_bytes()).unwrap()
}

fn trace(id: u32, session: &str, agent: &str, started_at: i64) -> TraceRow {
    TraceRow {
        id: format!("{id:032x}"),
        session: session.to_owned(),
        agent: agent.to_owned(),
        tool: "ping".to_owned(),
        call_id: format!("call_{id}"),
        status: if id.is_multiple_of(2) { "ok" } else { "error" }.to_owned(),
        blocked: (id % 10 == 1).then(|| "egress.private_address".to_owned()),
        started_at,
        duration_ms: 1,
        document: format!("{{\"n\": {id}}}"),
    }
}

#[tokio::test]
async fn writes_raise_the_revision_and_say_what_they_did() {
    let Opened { store, folder: _folder, .. } = open().await;
    let first = store.put_tool(&tool("ping", 1), Expect::Absent, "t").await.unwrap();
    assert_eq!((first.kind, first.revision), (WriteKind::Created, Revision(1)));
    let same = store.put_tool(&tool("ping", 1), Expect::Anything, "t").await.unwrap();
    assert_eq!((same.kind, same.revision), (WriteKind::Unchanged, Revision(1)));
    let second = store.put_tool(&tool("ping", 2), Expect::Revision(Revision(1)), "t").await.unwrap();
    assert_eq!((second.kind, second.revision), (WriteKind::Updated, Revision(2)));
    let stale = store.put_tool(&tool("ping", 3), Expect::Revision(Revision(1)), "t").await.unwrap_err();
    assert_eq!(stale.code(), "store.stale_revision");
    let missing = store.put_tool(&tool("pong", 1), Expect::Present, "t").await.unwrap_err();
    assert!(matches!(missing, StoreError::Missing { .. }));
    assert_eq!(store.delete_tool("ping", Expect::Anything).await.unwrap(), Some(Revision(3)));
    assert_eq!(store.delete_tool("ping", Expect::Anything).await.unwrap(), None);
    let changed = store.tools_changed(Revision(0), Revision(3), 10).await.unwrap();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].as_ref().unwrap().definition, None, "a deleted tool is told of");
    assert!(store.tools_changed(Revision(0), Revision(2), 10).await.unwrap().is_empty(), "and not before its time");
}

#[tokio::test]
async fn many_tools_land_together_or_not_at_all() {
    let opened = open().await;
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
async fn traces_are_paged_filtered_and_retained() {
    let Opened { store, clock, folder: _folder } = open().await;
    let rows: Vec<TraceRow> = (0..300)
        .map(|i| trace(i, if i < 200 { "a" } else { "b" }, if i < 100 { "x" } else { "y" }, i64::from(i)))
        .collect();
    store.insert_traces(&rows).await.unwrap();
    let mut seen = Vec::new();
    let mut after = None;
    let filter = TraceFilter { session: Some("a".into()), ..TraceFilter::default() };
    loop {
        let page = store.traces(&filter, after.as_deref(), 70).await.unwrap();
        seen.extend(page.items.iter().map(|row| row.started_at));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, (0..200).rev().collect::<Vec<i64>>());
    let bound = TraceFilter { agents: Some(vec!["x".into()]), ..TraceFilter::default() };
    assert_eq!(store.traces(&bound, None, 500).await.unwrap().items.len(), 100);
    let none = TraceFilter { agents: Some(Vec::new()), ..TraceFilter::default() };
    assert!(store.traces(&none, None, 500).await.unwrap().items.is_empty());
    assert_eq!(store.trace(&rows[7].id).await.unwrap().unwrap().document, "{\"n\": 7}");
    assert_eq!(store.blocked_calls(290).await.unwrap(), [("ping".into(), "egress.private_address".into(), 1)]);

    clock.0.store(1_000, Ordering::SeqCst);
    let by_age = Retention { age: Duration::from_millis(900), count: 1_000 };
    assert_eq!(store.purge_traces(by_age).await.unwrap(), 100);
    let by_count = Retention { age: Duration::from_secs(3600), count: 50 };
    assert_eq!(store.purge_traces(by_count).await.unwrap(), 150);
    let left = store.traces(&TraceFilter::default(), None, 500).await.unwrap().items;
    assert_eq!((left.len(), left[49].started_at), (50, 250), "the oldest go");
}

#[tokio::test]
async fn a_session_keeps_its_newest_evidence() {
    let Opened { store, clock, folder: _folder } = open().await;
    for batch in 0..70 {
        clock.0.fetch_add(1, Ordering::SeqCst);
        let ids: Vec<String> = (0..16).map(|i| format!("{}", batch * 16 + i)).collect();
        store.record_evidence("s", "a", "goods", &ids).await.unwrap();
    }
    let kept = store.evidence("s").await.unwrap();
    assert_eq!(i64::try_from(kept.len()).unwrap(), MAX_EVIDENCE);
    assert!(kept.iter().any(|(_, id, _)| id == "1119") && !kept.iter().any(|(_, id, _)| id == "0"));
}

#[tokio::test]
async fn a_database_of_the_first_version_is_brought_up_to_date() {
    let opened = open().await;
    opened.store.put_tool(&tool("ping", 1), Expect::Anything, "t").await.unwrap();
    opened.store.close().await;
    // Back to the first migration, as a program of that time left it.
    let path = opened.folder.path().join("test.db");
    let mut old = sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    for sql in [
        "DROP TABLE traces",
        "DROP TABLE evidence",
        "DROP TABLE mcp_servers",
        "DELETE FROM _sqlx_migrations WHERE version > 1",
    ] {
        sqlx::query(sql).execute(&mut old).await.unwrap();
    }
    old.close().await.unwrap();
    let again = Store::open(&opened.location(), Arc::new(SystemClock), Arc::new(OsRandomness)).await.unwrap();
    assert!(again.tool("ping").await.unwrap().is_some());
    again.insert_traces(&[trace(1, "s", "a", 1)]).await.unwrap();
    again.close().await;

    let mut newer = sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    let sql = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
               VALUES (999, 'later', 1, X'00', 0)";
    sqlx::query(sql).execute(&mut newer).await.unwrap();
    newer.close().await.unwrap();
    let refused = Store::open(&opened.location(), Arc::new(SystemClock), Arc::new(OsRandomness)).await;
    assert_eq!(refused.err().unwrap().code(), "store.migration");
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

#[test]
fn ids_sort_by_their_time() {
    let clock = Stopped(AtomicI64::new(1));
    let early = time_ordered_id(&clock, &OsRandomness);
    clock.0.store(1 << 40, Ordering::SeqCst);
    let late = time_ordered_id(&clock, &OsRandomness);
    assert!(early < late && early.len() == 32 && late.len() == 32);
}
