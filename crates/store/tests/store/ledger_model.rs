//! The ledger against an oracle that is simple enough to be seen to be right: random histories of proposals,
//! sends, ends, decisions, verdicts, claims by several owners and passing time, on every database.
//!
//! `TOOLCRIB_HISTORIES` says how many; CI runs 10,000.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::Config;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use toolcrib_definition::EffectMode;
use toolcrib_store::{
    Ask, Connected, Decision, Lease, LedgerEvent, LedgerFilter, LedgerState, NewCall, Settlement, Store, Verdict,
};

use crate::databases::{Opened, histories, postgres, sqlite};

const LEASE: i64 = 100;
const APPROVAL: i64 = 500;
const QUARANTINE: i64 = 200;
const LIFE: i64 = 400;
const START: i64 = 1_000_000;

/// A call by its session and its key there.
type Key = (u8, u8);

#[derive(Debug, Clone)]
enum Move {
    Propose { key: Key, arguments: u8, effect: EffectMode, ask: u8, owner: u8, resend: bool, connected: bool },
    Send { key: Key, owner: u8, stale: bool },
    Settle { key: Key, owner: u8, stale: bool, state: LedgerState },
    Decide { key: Key, yes: bool },
    Claim { owner: u8 },
    Overdue,
    Renew { owner: u8 },
    GiveVerdict { key: Key, verdict: u8 },
    Cancel { key: Key },
    Pass { ms: i64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    arguments: u8,
    effect: EffectMode,
    state: LedgerState,
    owner: Option<u8>,
    epoch: i64,
    lease_until: Option<i64>,
    resend_until: Option<i64>,
    updated_at: i64,
    /// How often it was sent and may have been performed.
    sends: u32,
    /// Whether it is a question, until when it is open, and what was said.
    asked: Option<(bool, i64, Option<bool>)>,
}

#[derive(Debug, Clone)]
struct Oracle {
    now: i64,
    calls: BTreeMap<Key, Call>,
}

impl Oracle {
    fn holds(&self, key: Key, owner: u8, stale: bool) -> Option<&Call> {
        self.calls.get(&key).filter(|call| call.owner == Some(owner) && !stale)
    }

    fn set(&mut self, key: Key, change: impl FnOnce(&mut Call)) {
        let now = self.now;
        if let Some(call) = self.calls.get_mut(&key) {
            change(call);
            call.updated_at = now;
        }
    }

    fn propose(&mut self, key: Key, call: Call, ask: u8, connected: bool) {
        if self.calls.contains_key(&key) {
            return;
        }
        let alike = |(other, known): (&Key, &Call)| other.0 == key.0 && known.arguments == call.arguments;
        let mut others = self.calls.iter();
        let repeats = others
            .clone()
            .any(|(k, c)| alike((k, c)) && c.sends > 0 && (!c.state.is_final() || c.state == LedgerState::Unknown));
        let approved = others.any(|(k, c)| alike((k, c)) && matches!(c.asked, Some((false, _, Some(true)))));
        let asks = match ask {
            0 => repeats,
            1 => !approved || repeats,
            _ => true,
        };
        let (now, transactional) = (self.now, call.effect == EffectMode::Transactional);
        let call = match asks {
            true => Call {
                state: LedgerState::Awaiting,
                asked: Some((ask == 3, now + APPROVAL, None)),
                owner: None,
                ..call
            },
            false if transactional => Call { state: LedgerState::Ready, lease_until: Some(now + LEASE), ..call },
            false => {
                let (state, sends) = if connected { (LedgerState::Sent, 1) } else { (LedgerState::Claimed, 0) };
                Call { state, sends, epoch: 1, lease_until: Some(now + LEASE), ..call }
            }
        };
        self.calls.insert(key, call);
    }

    fn apply(&mut self, step: &Move) {
        let now = self.now;
        match *step {
            Move::Propose { key, arguments, effect, ask, owner, resend, connected } => {
                let call = Call {
                    arguments,
                    effect,
                    state: LedgerState::Proposed,
                    owner: Some(owner),
                    epoch: 0,
                    lease_until: None,
                    resend_until: resend.then_some(now + LIFE),
                    updated_at: now,
                    sends: 0,
                    asked: None,
                };
                self.propose(key, call, ask, connected);
            }
            Move::Send { key, owner, stale } => {
                let fits = |call: &&Call| {
                    let may = call.sends == 0 || call.effect == EffectMode::Idempotent || call.resend_until > Some(now);
                    call.state == LedgerState::Claimed && call.lease_until > Some(now) && may
                };
                if self.holds(key, owner, stale).filter(fits).is_some() {
                    self.set(key, |call| {
                        call.sends += 1;
                        (call.state, call.lease_until) = (LedgerState::Sent, Some(now + LEASE));
                    });
                }
            }
            Move::Settle { key, owner, stale, state } => {
                use LedgerState::{Cancelled, Claimed, Failed, InDoubt, Ready, Sent, Succeeded};
                let fits = |call: &&Call| match call.state {
                    Sent | InDoubt => matches!(state, Succeeded | Failed | InDoubt),
                    Claimed => matches!(state, Failed | Cancelled),
                    Ready => matches!(state, Failed | Cancelled) || (call.sends > 0 && state == Succeeded),
                    _ => false,
                };
                if self.holds(key, owner, stale).filter(fits).is_some() {
                    self.set(key, |call| {
                        let others = call.sends - u32::from(matches!(call.state, Sent | InDoubt) && call.sends > 0);
                        let unsure = call.effect == EffectMode::AtMostOnce && others > 0;
                        let end = if unsure && matches!(state, Failed | Cancelled) { InDoubt } else { state };
                        (call.state, call.lease_until) = (end, Some(now));
                    });
                }
            }
            Move::Decide { key, yes } => {
                let asked = self.calls.get(&key).and_then(|call| call.asked);
                let Some((question, until, None)) = asked.filter(|(_, until, said)| *until > now && said.is_none())
                else {
                    return;
                };
                if self.calls[&key].state != LedgerState::Awaiting {
                    return;
                }
                self.set(key, |call| {
                    call.asked = Some((question, until, Some(yes)));
                    call.lease_until = Some(0);
                    call.state = match (yes, question) {
                        (false, _) => LedgerState::Denied,
                        (true, true) => LedgerState::Succeeded,
                        (true, false) => LedgerState::Ready,
                    };
                });
            }
            Move::Claim { owner } => {
                for call in self.calls.values_mut() {
                    let old_key =
                        call.sends > 0 && call.effect == EffectMode::AtMostOnce && call.resend_until <= Some(now);
                    if call.state == LedgerState::Ready && old_key {
                        (call.state, call.updated_at) = (LedgerState::InDoubt, now);
                    }
                    if call.state == LedgerState::Ready && call.lease_until <= Some(now) {
                        if call.effect != EffectMode::Transactional {
                            (call.state, call.epoch) = (LedgerState::Claimed, call.epoch + 1);
                        }
                        (call.owner, call.lease_until, call.updated_at) = (Some(owner), Some(now + LEASE), now);
                    }
                }
            }
            Move::Overdue => {
                for call in self.calls.values_mut() {
                    let over = call.lease_until <= Some(now);
                    let next = match call.state {
                        LedgerState::Claimed if over => LedgerState::Ready,
                        LedgerState::Sent if over => {
                            let again = call.effect == EffectMode::Idempotent || call.resend_until > Some(now);
                            if again { LedgerState::Ready } else { LedgerState::InDoubt }
                        }
                        LedgerState::Awaiting if call.asked.is_some_and(|(_, until, _)| until <= now) => {
                            LedgerState::Expired
                        }
                        _ => continue,
                    };
                    (call.state, call.updated_at) = (next, now);
                }
            }
            Move::Renew { owner } => {
                for call in self.calls.values_mut() {
                    let renewable = match call.state {
                        LedgerState::Claimed | LedgerState::Sent => true,
                        LedgerState::Ready => call.effect == EffectMode::Transactional,
                        _ => false,
                    };
                    let held = renewable && call.lease_until > Some(now);
                    if call.owner == Some(owner) && (held || call.state == LedgerState::InDoubt) {
                        call.lease_until = call.lease_until.max(Some(now + LEASE));
                    }
                }
            }
            Move::GiveVerdict { key, verdict } => {
                let Some(call) = self.calls.get(&key).filter(|call| call.state == LedgerState::InDoubt) else { return };
                let rested = call.updated_at + QUARANTINE <= now && call.lease_until <= Some(now);
                match verdict {
                    0 => self.set(key, |call| call.state = LedgerState::Succeeded),
                    1 if rested => self.set(key, |call| (call.state, call.sends) = (LedgerState::Ready, 0)),
                    2 => self.set(key, |call| call.state = LedgerState::Unknown),
                    _ => {}
                }
            }
            Move::Cancel { key } => {
                let now = self.now;
                let unbegun = |call: &Call| match call.state {
                    LedgerState::Awaiting => true,
                    // Approved, and nobody has it.
                    LedgerState::Ready => call.lease_until.is_none_or(|until| until <= now),
                    _ => false,
                };
                if self.calls.get(&key).is_some_and(unbegun) {
                    self.set(key, |call| call.state = LedgerState::Cancelled);
                }
            }
            Move::Pass { ms } => self.now += ms,
        }
    }
}

impl ReferenceStateMachine for Oracle {
    type State = Oracle;
    type Transition = Move;

    fn init_state() -> BoxedStrategy<Oracle> {
        Just(Oracle { now: START, calls: BTreeMap::new() }).boxed()
    }

    fn transitions(_: &Oracle) -> BoxedStrategy<Move> {
        let key = || (0..2_u8, 0..3_u8);
        // Mostly the one who has the lease acts, and sometimes another.
        let owner = || prop_oneof![3 => Just(0_u8), 1 => Just(1), 1 => Just(2)];
        let stale = || prop::bool::weighted(0.1);
        let effects = prop::sample::select(EffectMode::ALL.to_vec());
        let effect = prop_oneof![3 => Just(EffectMode::AtMostOnce), 1 => effects];
        let ends = [LedgerState::Succeeded, LedgerState::Failed, LedgerState::InDoubt, LedgerState::Cancelled];
        let ask = prop_oneof![3 => Just(0_u8), 1 => 1..4_u8];
        prop_oneof![
            4 => (key(), 0..2_u8, effect, ask, owner(), prop::bool::weighted(0.2), any::<bool>()).prop_map(
                |(key, arguments, effect, ask, owner, resend, connected)| {
                    Move::Propose { key, arguments, effect, ask, owner, resend, connected }
                }
            ),
            4 => (key(), owner(), stale()).prop_map(|(key, owner, stale)| Move::Send { key, owner, stale }),
            4 => (key(), owner(), stale(), prop::sample::select(ends.to_vec()))
                .prop_map(|(key, owner, stale, state)| Move::Settle { key, owner, stale, state }),
            2 => (key(), any::<bool>()).prop_map(|(key, yes)| Move::Decide { key, yes }),
            2 => owner().prop_map(|owner| Move::Claim { owner }),
            2 => Just(Move::Overdue),
            1 => owner().prop_map(|owner| Move::Renew { owner }),
            2 => (key(), 0..3_u8).prop_map(|(key, verdict)| Move::GiveVerdict { key, verdict }),
            1 => key().prop_map(|key| Move::Cancel { key }),
            3 => prop::sample::select(vec![1_i64, 50, LEASE, QUARANTINE, APPROVAL]).prop_map(|ms| Move::Pass { ms }),
        ]
        .boxed()
    }

    fn apply(mut state: Oracle, step: &Move) -> Oracle {
        Oracle::apply(&mut state, step);
        state
    }
}

fn id_of(key: Key) -> String {
    format!("{:016x}{:016x}", key.0, key.1)
}

fn owner_name(owner: u8) -> String {
    format!("owner-{owner}")
}

async fn apply(store: &Store, before: &Oracle, step: &Move) {
    let lease = |key: Key, owner: u8, stale: bool| {
        let epoch = before.calls.get(&key).map_or(1, |call| call.epoch) - i64::from(stale);
        Lease { id: id_of(key), owner: owner_name(owner), epoch }
    };
    match *step {
        Move::Propose { key, arguments, effect, ask, owner, resend, connected } => {
            // Every proposal has an id of its own, also one that names a call which is there.
            let id = if before.calls.contains_key(&key) { id_of((key.0 + 50, key.1)) } else { id_of(key) };
            let call = NewCall {
                id,
                session: format!("s{}", key.0),
                call_id: format!("c{}", key.1),
                agent: "support".into(),
                tool: "refund".into(),
                effect,
                arguments: "{}".into(),
                arguments_hash: format!("a{arguments}"),
                ctx: "{}".into(),
                request: "{}".into(),
                request_hash: format!("r{arguments}"),
                definition_hash: "d".into(),
                resend_ms: resend.then_some(LIFE),
                ask: match ask {
                    0 => Ask::IfRepeated,
                    1 => Ask::Once("its rule is once".into()),
                    2 => Ask::Always("its rule is always".into()),
                    _ => Ask::Question("which one?".into()),
                },
                approval_id: id_of((key.0 + 100, key.1)),
                approval_ms: APPROVAL,
                notices: Vec::new(),
                owner: owner_name(owner),
                lease_ms: LEASE,
            };
            let stands = Connected::default();
            if connected {
                stands.say();
            }
            store.queue_proposal(call, stands).await.unwrap().made().await.unwrap();
        }
        Move::Send { key, owner, stale } => {
            store.mark_sent(&lease(key, owner, stale), LEASE).await.unwrap();
        }
        Move::Settle { key, owner, stale, state } => {
            let lease = lease(key, owner, stale);
            let settlement = Settlement { lease, state, outcome: "{}".into(), reason: None, announce: false };
            store.settle(settlement).await.unwrap();
        }
        Move::Decide { key, yes } => {
            let question = before.calls.get(&key).and_then(|call| call.asked).is_some_and(|(question, ..)| question);
            let decision = match (yes, question) {
                (false, _) => Decision::Deny,
                (true, false) => Decision::Approve,
                (true, true) => Decision::Answer { answer: "1".into(), outcome: "{}".into() },
            };
            store.decide(&id_of((key.0 + 100, key.1)), decision, "ann", None).await.unwrap();
        }
        Move::Claim { owner } => {
            store.claim_ready(&owner_name(owner), LEASE, 100, None).await.unwrap();
        }
        Move::Overdue => {
            store.move_overdue("keeper").await.unwrap();
        }
        Move::Renew { owner } => {
            let ids: Vec<String> = before.calls.keys().map(|key| id_of(*key)).collect();
            store.renew(&owner_name(owner), &ids, LEASE).await.unwrap();
        }
        Move::GiveVerdict { key, verdict } => {
            let verdict = match verdict {
                0 => Verdict::Done("{}".into()),
                1 => Verdict::NotDone { quarantine_ms: QUARANTINE },
                _ => Verdict::Abandon,
            };
            store.give_verdict(&id_of(key), verdict, "ann", None).await.unwrap();
        }
        Move::Cancel { key } => {
            store.cancel_call(&id_of(key), "ann", None).await.unwrap();
        }
        Move::Pass { .. } => {}
    }
}

/// State, owner, epoch, lease, life of the key, last move.
type Seen = (LedgerState, Option<String>, i64, Option<i64>, Option<i64>, i64);

/// What the database says, in the oracle's words.
async fn read(store: &Store) -> BTreeMap<String, Seen> {
    let rows = store.ledger_rows(&LedgerFilter::default(), None, 100).await.unwrap().items;
    let of = |row: toolcrib_store::LedgerRow| {
        (row.id, (row.state, row.owner, row.epoch, row.lease_until, row.resend_until, row.updated_at))
    };
    rows.into_iter().map(of).collect()
}

fn expected(oracle: &Oracle) -> BTreeMap<String, Seen> {
    let of = |(key, call): (&Key, &Call)| {
        let owner = call.owner.map(owner_name);
        (id_of(*key), (call.state, owner, call.epoch, call.lease_until, call.resend_until, call.updated_at))
    };
    oracle.calls.iter().map(of).collect()
}

/// The moves that the contract draws.
fn is_drawn(from: &str, to: &str) -> bool {
    let next: &[&str] = match from {
        "proposed" => &["awaiting", "ready", "claimed"],
        "awaiting" => &["ready", "denied", "expired", "cancelled", "succeeded"],
        "ready" => &["claimed", "succeeded", "failed", "cancelled", "in_doubt"],
        "claimed" => &["ready", "sent", "failed", "cancelled", "in_doubt"],
        "sent" => &["succeeded", "failed", "in_doubt", "ready"],
        "in_doubt" => &["succeeded", "failed", "ready", "unknown"],
        _ => &[],
    };
    next.contains(&to)
}

fn check_events(call: &Call, events: &[LedgerEvent]) {
    assert_eq!(events[0].from_state.as_deref(), Some("proposed"));
    assert!(is_drawn("proposed", &events[0].to_state), "{events:?}");
    for pair in events.windows(2) {
        let (from, to) = (pair[1].from_state.as_deref().unwrap(), pair[1].to_state.as_str());
        assert_eq!(from, pair[0].to_state, "{events:?}");
        assert!(is_drawn(from, to), "{from} -> {to}: {events:?}");
        assert!(pair[1].seq > pair[0].seq && pair[1].epoch >= pair[0].epoch, "{events:?}");
    }
    assert_eq!(events.last().unwrap().to_state, call.state.as_str());
    let count = |from: &str, to: &str| {
        events.iter().filter(|e| e.from_state.as_deref() == Some(from) && e.to_state == to).count()
    };
    let sent = count("claimed", "sent");
    if call.effect == EffectMode::AtMostOnce && call.resend_until.is_none() {
        assert!(sent <= 1 + count("in_doubt", "ready"), "sent twice without a person's word: {events:?}");
    }
    if call.state == LedgerState::Succeeded
        && call.effect != EffectMode::Transactional
        && call.asked.is_none_or(|a| !a.0)
    {
        assert!(sent >= 1, "succeeded without being sent: {events:?}");
    }
}

struct Ledger {
    runtime: tokio::runtime::Runtime,
    opened: Opened,
    oracle: Oracle,
}

impl Ledger {
    /// An empty ledger at the oracle's time. The database is kept from history to history.
    fn begin(open: impl FnOnce(&tokio::runtime::Runtime) -> Opened, kept: Option<Ledger>) -> Self {
        let mut ledger = kept.unwrap_or_else(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let opened = open(&runtime);
            Ledger { runtime, opened, oracle: Oracle { now: START, calls: BTreeMap::new() } }
        });
        ledger.runtime.block_on(async {
            ledger.opened.empty(&["approvals", "ledger_events", "ledger"]).await;
            ledger.opened.set_clock(START).await;
        });
        ledger.oracle = Oracle { now: START, calls: BTreeMap::new() };
        ledger
    }

    fn step(mut self, after: &Oracle, step: Move) -> Self {
        self.runtime.block_on(async {
            if let Move::Pass { .. } = step {
                self.opened.set_clock(after.now).await;
                return;
            }
            apply(&self.opened.store, &self.oracle, &step).await;
            assert_eq!(read(&self.opened.store).await, expected(after), "after {step:?}");
        });
        self.oracle = after.clone();
        self
    }

    fn end(self) -> Self {
        self.runtime.block_on(async {
            for (key, call) in &self.oracle.calls {
                check_events(call, &self.opened.store.ledger_events(&id_of(*key)).await.unwrap());
            }
        });
        self
    }
}

/// One database as a system under test.
macro_rules! histories_on {
    ($name:ident, $kept:ident, $open:expr) => {
        thread_local! {
            static $kept: std::cell::RefCell<Option<Ledger>> = const { std::cell::RefCell::new(None) };
        }

        struct $name;

        impl StateMachineTest for $name {
            type SystemUnderTest = Ledger;
            type Reference = Oracle;

            fn init_test(_: &Oracle) -> Ledger {
                Ledger::begin($open, $kept.take())
            }

            fn apply(ledger: Ledger, after: &Oracle, step: Move) -> Ledger {
                ledger.step(after, step)
            }

            fn teardown(ledger: Ledger, _: Oracle) {
                $kept.set(Some(ledger.end()));
            }
        }
    };
}

histories_on!(OnSqlite, KEPT_SQLITE, |runtime| runtime.block_on(sqlite()));
histories_on!(OnPostgres, KEPT_POSTGRES, |runtime| runtime.block_on(postgres()).unwrap());

fn run<T: StateMachineTest<Reference = Oracle>>() {
    let config = Config { cases: histories(), failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    proptest!(config.clone(), |((state, steps, seen) in Oracle::sequential_strategy(1..24))| {
        T::test_sequential(config.clone(), state, steps, seen);
    });
}

#[test]
fn histories_on_sqlite() {
    run::<OnSqlite>();
}

#[test]
fn histories_on_postgres() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if runtime.block_on(postgres()).is_some() {
        run::<OnPostgres>();
    }
}
