//! What both databases do alike.

use std::sync::atomic::Ordering;
use std::time::Duration;

use toolcrib_store::{Change, Expect, MAX_EVIDENCE, Retention, Revision, StoreError, TraceFilter, TraceRow, WriteKind};

use crate::databases::on_every_database;
use crate::{tool, trace};

on_every_database! {
    async fn writes_raise_the_revision_and_say_what_they_did(opened: Opened) {
        let store = &opened.store;
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

    async fn traces_are_paged_filtered_and_retained(opened: Opened) {
        let (store, clock) = (&opened.store, &opened.clock);
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

    async fn a_session_keeps_its_newest_evidence(opened: Opened) {
        let (store, clock) = (&opened.store, &opened.clock);
        for batch in 0..70 {
            clock.0.fetch_add(1, Ordering::SeqCst);
            let ids: Vec<String> = (0..16).map(|i| format!("{}", batch * 16 + i)).collect();
            store.record_evidence("s", "a", "goods", &ids).await.unwrap();
        }
        let kept = store.evidence("s").await.unwrap();
        assert_eq!(i64::try_from(kept.len()).unwrap(), MAX_EVIDENCE);
        assert!(kept.iter().any(|(_, id, _)| id == "1119") && !kept.iter().any(|(_, id, _)| id == "0"));
    }

    async fn of_two_writers_at_once_one_is_told(opened: Opened) {
        let store = &opened.store;
        let written = store.put_tool(&tool("ping", 1), Expect::Absent, "t").await.unwrap();
        let mut writers = tokio::task::JoinSet::new();
        for n in 0..16 {
            let store = store.clone();
            writers.spawn(async move {
                store.put_tool(&tool("ping", 100 + n), Expect::Revision(written.revision), "t").await
            });
        }
        let done = writers.join_all().await;
        assert_eq!(done.iter().filter(|result| result.is_ok()).count(), 1, "{done:?}");
        let told = |error: &StoreError| error.code() == "store.stale_revision";
        assert!(done.iter().filter_map(|result| result.as_ref().err()).all(told));
    }

    async fn a_write_is_told_to_who_listens(opened: Opened) {
        let other = toolcrib_store::Store::open(
            &opened.location,
            std::sync::Arc::new(toolcrib_store::SystemClock),
            std::sync::Arc::new(toolcrib_store::OsRandomness),
        );
        let other = other.await.unwrap();
        let mut here = opened.store.changes().listen();
        let mut there = other.changes().listen();
        opened.store.put_tool(&tool("ping", 1), Expect::Anything, "t").await.unwrap();
        here.next(Change::Catalog).await;
        if matches!(opened.location, toolcrib_store::Location::Postgres(_)) {
            // The other process may have begun to listen only after the write.
            loop {
                let told = tokio::time::timeout(Duration::from_millis(200), there.next(Change::Catalog)).await;
                if told.is_ok() {
                    break;
                }
                opened.store.delete_tool("ping", Expect::Anything).await.unwrap();
                opened.store.put_tool(&tool("ping", 1), Expect::Anything, "t").await.unwrap();
            }
        }
    }

    async fn a_character_that_postgres_does_not_take_loses_no_row(opened: Opened) {
        let store = &opened.store;
        let row = TraceRow { tool: "a\0b".into(), ..trace(1, "s\0", "x", 1) };
        store.insert_traces(&[row]).await.unwrap();
        let filter = TraceFilter { session: Some("s\0".into()), ..TraceFilter::default() };
        assert_eq!(store.traces(&filter, None, 5).await.unwrap().items[0].tool, "a\u{fffd}b");
        store.record_evidence("s\0", "a", "goods", &["i\0".into()]).await.unwrap();
        assert_eq!(store.evidence("s\0").await.unwrap().len(), 1);
    }
}
