//! Turns: one at a time a session, taken up by one, and never lost.

use toolcrib_store::{Begun, NewTurn, TurnEnd, TurnFilter, TurnLease, TurnRow, TurnState};

use crate::databases::{Opened, on_every_database};

const LEASE: i64 = 1_000;

fn turn(id: &str, session: &str) -> NewTurn {
    NewTurn {
        id: id.to_owned(),
        agent: "clerk".to_owned(),
        session: session.to_owned(),
        parent: None,
        input: format!("{{\"message\": \"{id}\"}}"),
    }
}

async fn begin(opened: &Opened, id: &str, session: &str, owner: &str) -> TurnRow {
    match opened.store.begin_turn(&turn(id, session), Some(owner), LEASE).await.unwrap() {
        Begun::New(row) | Begun::Known(row) => row,
    }
}

fn lease(row: &TurnRow) -> TurnLease {
    TurnLease { id: row.id.clone(), owner: row.owner.clone().unwrap(), epoch: row.epoch }
}

fn end(messages: &str) -> TurnEnd {
    TurnEnd {
        state: TurnState::Completed,
        outcome: "{}".to_owned(),
        messages: Some(messages.to_owned()),
        record: "[]".to_owned(),
    }
}

async fn to_take(opened: &Opened) -> Vec<String> {
    opened.store.turns_to_take(10, None).await.unwrap().into_iter().map(|row| row.id).collect()
}

on_every_database! {
    async fn one_turn_of_a_session_runs_and_the_others_queue(opened: Opened) {
        let store = &opened.store;
        let first = begin(&opened, "a", "s", "p1").await;
        assert_eq!((first.state, first.epoch), (TurnState::Running, 1));
        let second = begin(&opened, "b", "s", "p1").await;
        let third = begin(&opened, "c", "s", "p1").await;
        assert_eq!((second.state, third.state), (TurnState::Queued, TurnState::Queued));
        let other = begin(&opened, "d", "t", "p1").await;
        assert_eq!(other.state, TurnState::Running, "another session has its own");
        let again = begin(&opened, "a", "s", "p2").await;
        assert_eq!((again.owner.as_deref(), again.epoch), (Some("p1"), 1), "the same turn is not begun twice");
        let known = store.begin_turn(&turn("a", "s"), Some("p1"), LEASE).await.unwrap();
        assert!(matches!(known, Begun::Known(_)), "and whose it is says so: {known:?}");

        assert!(to_take(&opened).await.is_empty());
        assert_eq!(store.take_turn("b", 0, "p2", LEASE).await.unwrap(), None);
        assert!(store.end_turn(&lease(&first), &end("[1]")).await.unwrap());
        assert_eq!(to_take(&opened).await, ["b"], "the earlier one first");
        assert_eq!(store.take_turn("c", 0, "p2", LEASE).await.unwrap(), None);
        let taken = store.take_turn("b", 0, "p2", LEASE).await.unwrap().unwrap();
        assert_eq!((taken.state, taken.owner.as_deref()), (TurnState::Running, Some("p2")));
        assert_eq!(store.take_turn("b", 0, "p3", LEASE).await.unwrap(), None, "one takes it up");
        assert!(store.end_turn(&lease(&taken), &end("[2]")).await.unwrap());
        let told = store.session_messages("clerk", "s", 10, 1_000).await.unwrap();
        assert_eq!(told.iter().map(|told| told.messages.as_str()).collect::<Vec<_>>(), ["[1]", "[2]"]);
        assert_eq!(store.session_messages("clerk", "s", 1, 1_000).await.unwrap()[0].messages, "[2]");
        let short = store.session_messages("clerk", "s", 10, 1).await.unwrap();
        assert_eq!(short.iter().map(|told| told.messages.as_str()).collect::<Vec<_>>(), ["[2]"], "the last, at the least");
    }

    async fn a_turn_whose_process_is_gone_is_taken_over(opened: Opened) {
        let store = &opened.store;
        let row = begin(&opened, "a", "s", "p1").await;
        assert!(store.checkpoint_turn(&lease(&row), "{\"n\": 1}").await.unwrap());
        opened.set_clock(1_000_000 + LEASE - 1).await;
        assert_eq!(store.take_turn("a", 1, "p2", LEASE).await.unwrap(), None, "its lease still holds");
        assert!(store.renew_turns("p1", &["a".to_owned()], LEASE).await.unwrap().is_empty());
        opened.set_clock(1_000_000 + 2 * LEASE).await;
        assert_eq!(to_take(&opened).await, ["a"]);
        let taken = store.take_turn("a", 1, "p2", LEASE).await.unwrap().unwrap();
        assert_eq!((taken.epoch, taken.checkpoint.as_deref()), (2, Some("{\"n\": 1}")));
        assert!(!store.checkpoint_turn(&lease(&row), "{\"n\": 2}").await.unwrap(), "the first owner has lost it");
        assert!(!store.end_turn(&lease(&row), &end("[]")).await.unwrap());
        assert!(!store.park_turn(&lease(&row), "{}", &[]).await.unwrap());
        assert_eq!(store.turn("a").await.unwrap().unwrap().checkpoint.as_deref(), Some("{\"n\": 1}"));
    }

    async fn a_parked_turn_waits_and_holds_its_session(opened: Opened) {
        let store = &opened.store;
        let row = begin(&opened, "a", "s", "p1").await;
        begin(&opened, "b", "s", "p1").await;
        // A call that is not in the ledger any more is waited for by nobody.
        assert!(store.park_turn(&lease(&row), "{}", &["gone".to_owned()]).await.unwrap());
        assert_eq!(store.turn("a").await.unwrap().unwrap().state, TurnState::Parked);
        assert_eq!(to_take(&opened).await, ["a"], "and the queued one stays where it is");
        let taken = store.take_turn("a", 1, "p1", LEASE).await.unwrap().unwrap();
        assert_eq!(taken.epoch, 2);
    }

    async fn what_is_asked_to_end_is_told(opened: Opened) {
        let store = &opened.store;
        let running = begin(&opened, "000000000000-a", "s", "p1").await;
        begin(&opened, "000000000000-b", "s", "p1").await;
        let queued = store.cancel_turn("000000000000-b", "{\"why\": 1}").await.unwrap().unwrap();
        assert_eq!((queued.state, queued.outcome.as_deref()), (TurnState::Cancelled, Some("{\"why\": 1}")));
        let asked = store.cancel_turn("000000000000-a", "{}").await.unwrap().unwrap();
        assert_eq!((asked.state, asked.cancelled), (TurnState::Running, true));
        assert_eq!(store.renew_turns("p1", &["000000000000-a".to_owned()], LEASE).await.unwrap(), ["000000000000-a"]);
        assert!(store.end_turn(&lease(&running), &end("[]")).await.unwrap());
        let ended = store.cancel_turn("000000000000-a", "{}").await.unwrap().unwrap();
        assert_eq!((ended.state, ended.cancelled), (TurnState::Completed, true), "what has ended stays so");
        assert_eq!(store.cancel_turn("none", "{}").await.unwrap(), None);

        let all = store.turns(&TurnFilter::default(), None, 1).await.unwrap();
        assert_eq!((all.items[0].id.as_str(), all.next.as_deref()), ("000000000000-b", Some("000000000000-b")));
        let filter = TurnFilter { state: Some(TurnState::Completed), ..TurnFilter::default() };
        assert_eq!(store.turns(&filter, None, 10).await.unwrap().items.len(), 1);
        // Ids begin with the time, as those that are made for turns do.
        assert_eq!(store.purge_turns(-1).await.unwrap(), 2);
    }

    async fn what_a_turn_spawned_ends_with_it(opened: Opened) {
        let store = &opened.store;
        let child = |id: &str| NewTurn { parent: Some("a".to_owned()), ..turn(id, &format!("~{id}")) };
        begin(&opened, "a", "s", "p1").await;
        store.begin_turn(&child("b"), Some("p1"), LEASE).await.unwrap();
        store.begin_turn(&child("c"), None, LEASE).await.unwrap();
        assert_eq!(store.turn_end("c").await.unwrap(), Some((TurnState::Queued, None)), "there was nobody to run it");
        let mut children = store.cancel_children("a").await.unwrap();
        children.sort();
        assert_eq!(children, ["b", "c"]);
        assert!(store.turn("b").await.unwrap().unwrap().cancelled);
        assert_eq!(store.turn_end("c").await.unwrap().unwrap().0, TurnState::Cancelled);
        assert!(!store.turn("a").await.unwrap().unwrap().cancelled);
    }

    async fn two_first_turns_at_once_are_one_that_runs(opened: Opened) {
        let store = &opened.store;
        let (a, b, c) = (turn("a", "s"), turn("b", "s"), turn("c", "s"));
        let began = tokio::join!(
            store.begin_turn(&a, Some("p1"), LEASE),
            store.begin_turn(&b, Some("p2"), LEASE),
            store.begin_turn(&c, Some("p3"), LEASE)
        );
        let states = [began.0, began.1, began.2].map(|begun| match begun.unwrap() {
            Begun::New(row) | Begun::Known(row) => row.state,
        });
        assert_eq!(states.iter().filter(|state| **state == TurnState::Running).count(), 1, "{states:?}");
        assert_eq!(states.iter().filter(|state| **state == TurnState::Queued).count(), 2, "{states:?}");
    }
}
