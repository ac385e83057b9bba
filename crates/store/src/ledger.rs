//! The ledger: calls that may change something, as rows that are written before the request is sent.
//!
//! ```text
//! proposed -> awaiting -> ready -> claimed -> sent -> succeeded | failed | in_doubt
//!             awaiting -> denied | expired | cancelled        in_doubt -> succeeded | ready | unknown
//! ```
//!
//! A call that asks nobody is claimed as it is proposed, and sent at once when its connection stands by then. Every move
//! is a compare-and-set, and a trigger of the database writes its event in the same transaction. Times are the database's.

use async_trait::async_trait;
use sqlx::FromRow;
use toolcrib_definition::EffectMode;

use crate::effect::EffectTransaction;
use crate::error::StoreError;
use crate::proposal::{Connected, Lease, NewCall, Proposal};
use crate::turns::SessionKey;

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LedgerState {
    /// Written, and nothing decided.
    Proposed,
    /// A person is asked.
    Awaiting,
    /// It may run.
    Ready,
    /// Somebody works on it, and nothing was sent.
    Claimed,
    /// The request is on its way.
    Sent,
    /// It was performed.
    Succeeded,
    /// It was not performed.
    Failed,
    /// Nobody knows whether it was performed. A person says.
    InDoubt,
    /// A person refused it.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// It may no longer run, or its caller took it back.
    Cancelled,
    /// A person gave up finding out.
    Unknown,
}

impl LedgerState {
    /// Every state.
    pub const ALL: [LedgerState; 12] = [
        LedgerState::Proposed,
        LedgerState::Awaiting,
        LedgerState::Ready,
        LedgerState::Claimed,
        LedgerState::Sent,
        LedgerState::Succeeded,
        LedgerState::Failed,
        LedgerState::InDoubt,
        LedgerState::Denied,
        LedgerState::Expired,
        LedgerState::Cancelled,
        LedgerState::Unknown,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            LedgerState::Proposed => "proposed",
            LedgerState::Awaiting => "awaiting",
            LedgerState::Ready => "ready",
            LedgerState::Claimed => "claimed",
            LedgerState::Sent => "sent",
            LedgerState::Succeeded => "succeeded",
            LedgerState::Failed => "failed",
            LedgerState::InDoubt => "in_doubt",
            LedgerState::Denied => "denied",
            LedgerState::Expired => "expired",
            LedgerState::Cancelled => "cancelled",
            LedgerState::Unknown => "unknown",
        }
    }

    /// The state with this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether nothing moves it any more.
    pub fn is_final(self) -> bool {
        match self {
            LedgerState::Succeeded
            | LedgerState::Failed
            | LedgerState::Denied
            | LedgerState::Expired
            | LedgerState::Cancelled
            | LedgerState::Unknown => true,
            LedgerState::Proposed
            | LedgerState::Awaiting
            | LedgerState::Ready
            | LedgerState::Claimed
            | LedgerState::Sent
            | LedgerState::InDoubt => false,
        }
    }

    /// Whether it moves by itself, so that waiting for it makes sense.
    pub fn is_moving(self) -> bool {
        matches!(self, LedgerState::Proposed | LedgerState::Ready | LedgerState::Claimed | LedgerState::Sent)
    }
}

/// A call of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// The id, 32 hexadecimal digits; sorts by time.
    pub id: String,
    /// The session: the `chat_id` of the context, or the agent's own.
    pub session: String,
    /// The caller's key of the call.
    pub call_id: String,
    /// The agent.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// What a crash may do to it.
    pub effect: EffectMode,
    /// Where it stands.
    pub state: LedgerState,
    /// The arguments as JSON text.
    pub arguments: String,
    /// The SHA-256 of the canonical arguments.
    pub arguments_hash: String,
    /// The context as JSON text.
    pub ctx: String,
    /// The effective request as JSON text, secrets as references.
    pub request: String,
    /// The SHA-256 of the effective request.
    pub request_hash: String,
    /// The SHA-256 of the tool's definition.
    pub definition_hash: String,
    /// Until when it may be sent again once it was sent, in ms since 1970.
    pub resend_until: Option<i64>,
    /// Who works on it, or did last.
    pub owner: Option<String>,
    /// How often it was claimed.
    pub epoch: i64,
    /// Until when the owner has it, in ms since 1970.
    pub lease_until: Option<i64>,
    /// How it ended, as the executor recorded it: JSON text.
    pub outcome: Option<String>,
    /// Who moved it last.
    pub actor: String,
    /// Why, in words.
    pub reason: Option<String>,
    /// When it was proposed, in ms since 1970.
    pub created_at: i64,
    /// When it moved last, in ms since 1970.
    pub updated_at: i64,
}

/// A move of a call.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct LedgerEvent {
    /// Its place among the moves of the call, from 1.
    pub seq: i64,
    /// From where; the first from `proposed`.
    pub from_state: Option<String>,
    /// Whereto.
    pub to_state: String,
    /// How often it had been claimed then.
    pub epoch: i64,
    /// Who moved it.
    pub actor: String,
    /// Why, in words.
    pub reason: Option<String>,
    /// When, in ms since 1970.
    pub at: i64,
}

/// How a call ended for who had the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The lease.
    pub lease: Lease,
    /// `succeeded`, `failed`, `in_doubt` or `cancelled`.
    pub state: LedgerState,
    /// The outcome to record, as JSON text.
    pub outcome: String,
    /// Why, in words.
    pub reason: Option<String>,
    /// Whether other replicas are told at once, because somebody there may wait for it.
    pub announce: bool,
}

/// What a person says of a call in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It was performed. The outcome is recorded, as JSON text.
    Done(String),
    /// It was not performed and may run again.
    NotDone {
        /// How long it must have been in doubt, in ms, before that is believed.
        quarantine_ms: i64,
    },
    /// Nobody will find out.
    Abandon,
}

/// What became of a verdict or a cancellation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// It holds; this is the call now.
    Done(Box<LedgerRow>),
    /// The call is in another state, which it doesn't apply to.
    WrongState(LedgerState),
    /// Too early: the owner may still be at work, or the quarantine lasts until this time in ms since 1970.
    TooEarly(i64),
    /// There is no such call.
    Missing,
}

/// Which calls are wanted. Empty means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerFilter {
    /// In this state.
    pub state: Option<LedgerState>,
    /// Of this session.
    pub session: Option<String>,
    /// Of this agent.
    pub agent: Option<String>,
    /// Of one of these agents.
    pub agents: Option<Vec<String>>,
    /// Of this tool.
    pub tool: Option<String>,
}

/// What the keeper of the ledger found to be overdue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overdue {
    /// Calls that were claimed and not sent, and may run again.
    pub ready: Vec<String>,
    /// Calls that were sent, and whose owner is gone.
    pub in_doubt: Vec<String>,
    /// Approvals that nobody gave in time.
    pub expired: Vec<String>,
}

/// One step of a call on its way. Steps of many calls share a transaction: see [`crate::Store::propose`],
/// [`crate::Store::mark_sent`] and [`crate::Store::settle`].
#[derive(Debug, Clone)]
pub enum Step {
    /// A new call.
    Propose {
        /// The call.
        call: Box<NewCall>,
        /// Whether its connection stands already.
        connected: Connected,
    },
    /// The first byte is about to be sent.
    Send {
        /// The lease.
        lease: Lease,
        /// How long it then holds, in ms.
        lease_ms: i64,
    },
    /// The call ended.
    Settle(Box<Settlement>),
}

/// What became of a [`Step`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stepped {
    /// Of a proposal.
    Proposed(Proposal),
    /// Of the others: whether the lease still held.
    Moved(bool),
}

/// What became of each of some steps.
pub type Taken = Vec<Result<Stepped, StoreError>>;

/// Calls with side effects.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Takes steps of different calls in one transaction. None when not all of several could be taken together: then
    /// none was, and each is to be taken alone.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written. Unless it is a refusal, nobody knows whether the
    /// steps were taken.
    async fn take_steps(&self, steps: &[Step]) -> Result<Option<Taken>, StoreError>;

    /// Begins the transaction of a transactional call: its effects and its end in the ledger commit together.
    /// None when the call may not run, or runs already.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn begin_effect(&self, id: &str, actor: &str) -> Result<Option<EffectTransaction>, StoreError>;

    /// Prolongs leases that still hold, and tells which do, by id and epoch. A call of the owner that is in doubt by now
    /// is held too, so that nobody takes it for given up.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn renew(&self, owner: &str, ids: &[String], lease_ms: i64) -> Result<Vec<(String, i64)>, StoreError>;

    /// Claims at most `most` calls that may run, oldest first: any, or those that the turns of this session wait for.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn claim_ready(
        &self,
        owner: &str,
        lease_ms: i64,
        most: u32,
        of: Option<&SessionKey>,
    ) -> Result<Vec<LedgerRow>, StoreError>;

    /// Moves what is overdue: leases of who is gone, and approvals that nobody gave.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn move_overdue(&self, actor: &str) -> Result<Overdue, StoreError>;

    /// Takes a person's verdict on a call in doubt.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn give_verdict(
        &self,
        id: &str,
        verdict: Verdict,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<Moved, StoreError>;

    /// Takes back a call that waits for a person, or that was approved and not begun by anybody.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn cancel_call(&self, id: &str, actor: &str, reason: Option<&str>) -> Result<Moved, StoreError>;

    /// A call.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn ledger_row(&self, id: &str) -> Result<Option<LedgerRow>, StoreError>;

    /// The call with this key in a session.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn ledger_row_of(&self, session: &str, call_id: &str) -> Result<Option<LedgerRow>, StoreError>;

    /// The moves of a call, oldest first.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn ledger_events(&self, id: &str) -> Result<Vec<LedgerEvent>, StoreError>;

    /// Calls, newest first, at most `most`. `after` is the `next` of the page before.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn ledger_rows(
        &self,
        filter: &LedgerFilter,
        after: Option<&str>,
        most: u32,
    ) -> Result<crate::Page<LedgerRow>, StoreError>;

    /// How many calls are in a state that a person must see to.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn count_in_doubt(&self) -> Result<i64, StoreError>;

    /// How many calls may run and have not been taken by any process for so long, in ms.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn count_left_ready(&self, age_ms: i64) -> Result<i64, StoreError>;

    /// Removes settled calls that were proposed more than `age_ms` ago, a bounded number at once, and tells how
    /// many went. Calls in doubt, unknown or waiting stay.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn purge_ledger(&self, age_ms: i64) -> Result<u64, StoreError>;
}
