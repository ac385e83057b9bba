//! Steps that share a transaction.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use secrecy::ExposeSecret;
use toolcrib_definition::EffectMode;
use toolcrib_store::{
    Ask, Change, Connected, Lease, LedgerState, Location, NewCall, OsRandomness, Proposal, Settlement, Store,
    SystemClock,
};

use crate::databases::{on_every_database, postgres};

fn call(n: usize, key: &str) -> NewCall {
    NewCall {
        id: format!("{n:032}"),
        session: "s".into(),
        call_id: key.into(),
        agent: "support".into(),
        tool: "refund".into(),
        effect: EffectMode::AtMostOnce,
        arguments: "{}".into(),
        arguments_hash: "a".into(),
        ctx: "{}".into(),
        request: "{}".into(),
        request_hash: format!("r{key}"),
        definition_hash: "d".into(),
        resend_ms: None,
        ask: Ask::IfRepeated,
        approval_id: format!("{:032}", n + 500),
        approval_ms: 60_000,
        notices: Vec::new(),
        owner: "owner".into(),
        lease_ms: 60_000,
    }
}

fn lease(n: usize, epoch: i64) -> Lease {
    Lease { id: format!("{n:032}"), owner: "owner".into(), epoch }
}

on_every_database! {
    async fn what_can_be_taken_is_taken_beside_what_can_not(opened: Opened) {
        let store = &opened.store;
        // Sixty calls at once, three of each key.
        let made = join_all((0..60).map(|n| store.propose(call(n, &format!("k{}", n % 20))))).await;
        let mut ours: BTreeMap<usize, usize> = BTreeMap::new();
        for (n, proposal) in made.into_iter().enumerate() {
            match proposal.unwrap() {
                Proposal::Claimed(lease) => {
                    assert_eq!(lease.id, format!("{n:032}"));
                    assert_eq!(ours.insert(n % 20, n), None, "one of three is ours");
                }
                Proposal::Known(row) => assert_eq!(row.call_id, format!("k{}", n % 20)),
                other => unreachable!("nobody is asked: {other:?}"),
            }
        }
        assert_eq!(ours.len(), 20);
        let ours: Vec<usize> = ours.into_values().collect();
        // Every fifth with the lease of another time.
        let sent = join_all(ours.iter().enumerate().map(|(place, n)| {
            let lease = lease(*n, if place % 5 == 0 { 7 } else { 1 });
            async move { store.mark_sent(&lease, 60_000).await.unwrap() }
        }));
        let sent: Vec<bool> = sent.await;
        assert!(sent.iter().enumerate().all(|(place, moved)| *moved == (place % 5 != 0)), "{sent:?}");
        let settled = join_all(ours.iter().map(|n| {
            let settlement = Settlement {
                lease: lease(*n, 1),
                state: LedgerState::Succeeded,
                outcome: format!("\"{n}\""),
                reason: None,
                announce: false,
            };
            async move { store.settle(settlement).await.unwrap() }
        }));
        assert_eq!(settled.await, sent, "what was sent can succeed, and nothing else");
        for (place, n) in ours.iter().enumerate() {
            let row = store.ledger_row(&format!("{n:032}")).await.unwrap().unwrap();
            let expected = if place % 5 == 0 { LedgerState::Claimed } else { LedgerState::Succeeded };
            assert_eq!((row.state, row.outcome.is_some()), (expected, place % 5 != 0));
        }
    }

    async fn a_call_whose_connection_stands_is_written_as_sent(opened: Opened) {
        let store = &opened.store;
        let connected = Connected::default();
        connected.say();
        let made = store.queue_proposal(call(1, "k"), connected.clone()).await.unwrap().made().await.unwrap();
        assert_eq!(made, Proposal::Sent(lease(1, 1)));
        let moves: Vec<(i64, String)> =
            store.ledger_events(&call(1, "k").id).await.unwrap().into_iter().map(|e| (e.seq, e.to_state)).collect();
        assert_eq!(moves, [(1, "claimed".to_owned()), (2, "sent".to_owned())]);
        // The very same request under another key may be its repetition, so a person is asked.
        let again = NewCall { request_hash: "rk".into(), ..call(2, "other") };
        let made = store.queue_proposal(again, connected.clone()).await.unwrap().made().await.unwrap();
        assert!(matches!(made, Proposal::Awaiting(_)), "{made:?}");
        assert_eq!(store.ledger_row(&call(2, "").id).await.unwrap().unwrap().state, LedgerState::Awaiting);
        // One that was written as sent and then withheld is taken back as failed.
        let end = |state| Settlement { lease: lease(1, 1), state, outcome: "{}".into(), reason: None, announce: false };
        assert!(!store.settle(end(LedgerState::Cancelled)).await.unwrap());
        assert!(store.settle(end(LedgerState::Failed)).await.unwrap());
        // A transactional call is sent by nobody.
        let transactional = NewCall { effect: EffectMode::Transactional, ..call(3, "t") };
        let made = store.queue_proposal(transactional, connected).await.unwrap().made().await.unwrap();
        assert_eq!(made, Proposal::Claimed(lease(3, 0)));
    }

    async fn who_listens_is_told_of_an_approval(opened: Opened) {
        let store = &opened.store;
        let mut listener = store.changes().listen();
        let asks = NewCall { ask: Ask::Always("its rule is always".into()), ..call(1, "k") };
        assert!(matches!(store.propose(asks).await.unwrap(), Proposal::Awaiting(_)));
        let told = tokio::time::timeout(Duration::from_secs(10), listener.next(Change::Settled));
        assert!(told.await.is_ok(), "told of it");
    }
}

#[tokio::test]
async fn a_connection_that_died_while_it_was_kept_costs_no_step() {
    let Some(opened) = postgres().await else { return };
    let Location::Postgres(url) = &opened.location else { unreachable!("it is a Postgres") };
    // The server ends what is idle for a tenth of a second.
    let location = Location::Postgres(format!("{}%20-cidle_session_timeout%3D100", url.expose_secret()).into());
    let store = Store::open(&location, Arc::new(SystemClock), Arc::new(OsRandomness)).await.unwrap();
    assert!(matches!(store.propose(call(1, "a")).await.unwrap(), Proposal::Claimed(_)));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(matches!(store.propose(call(2, "b")).await.unwrap(), Proposal::Claimed(_)));
    assert!(store.mark_sent(&lease(1, 1), 60_000).await.unwrap());
}
