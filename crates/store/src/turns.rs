//! Turns: one message to an agent, to its answer. A turn is a row, and says where it stands.

use async_trait::async_trait;

use crate::error::StoreError;
use crate::revision::Page;
use crate::text::storable;

/// Where a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnState {
    /// An earlier turn of its session is not done yet.
    Queued,
    /// A process works on it.
    Running,
    /// It waits for a person.
    Parked,
    /// It has an answer.
    Completed,
    /// It ended without one.
    Failed,
    /// Somebody ended it.
    Cancelled,
}

impl TurnState {
    /// Every state.
    pub const ALL: [TurnState; 6] = [
        TurnState::Queued,
        TurnState::Running,
        TurnState::Parked,
        TurnState::Completed,
        TurnState::Failed,
        TurnState::Cancelled,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            TurnState::Queued => "queued",
            TurnState::Running => "running",
            TurnState::Parked => "parked",
            TurnState::Completed => "completed",
            TurnState::Failed => "failed",
            TurnState::Cancelled => "cancelled",
        }
    }

    /// The state with this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether nothing comes after it.
    pub fn is_final(self) -> bool {
        matches!(self, TurnState::Completed | TurnState::Failed | TurnState::Cancelled)
    }
}

/// A session of an agent: turns that follow each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// The agent.
    pub agent: String,
    /// The session.
    pub session: String,
}

/// A stored turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRow {
    /// The id. Ids sort by their time.
    pub id: String,
    /// The agent.
    pub agent: String,
    /// The session.
    pub session: String,
    /// The turn that spawned it, if any.
    pub parent: Option<String>,
    /// Where it stands.
    pub state: TurnState,
    /// Its place among all turns of its session, from 1, in the order in which they came.
    pub seq: i64,
    /// The message with what the turn runs under, as JSON text.
    pub input: String,
    /// Where it stands, as JSON text; none before the first checkpoint.
    pub checkpoint: Option<String>,
    /// How it ended, as JSON text.
    pub outcome: Option<String>,
    /// What happened in it, as JSON text; none before its end.
    pub record: Option<String>,
    /// Whether somebody asked for its end.
    pub cancelled: bool,
    /// Who works on it.
    pub owner: Option<String>,
    /// How often it was taken up.
    pub epoch: i64,
    /// When it began, in ms since 1970.
    pub created_at: i64,
    /// When it last moved, in ms since 1970.
    pub updated_at: i64,
}

impl TurnRow {
    /// The session it is of.
    pub fn session_key(&self) -> SessionKey {
        SessionKey { agent: self.agent.clone(), session: self.session.clone() }
    }
}

/// A turn that was begun, or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// It is new: the caller's to run, or queued.
    New(TurnRow),
    /// It was there already.
    Known(TurnRow),
}

/// A turn to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTurn {
    /// The id.
    pub id: String,
    /// The agent.
    pub agent: String,
    /// The session.
    pub session: String,
    /// The turn that spawns it, if any.
    pub parent: Option<String>,
    /// The message with what the turn runs under, as JSON text.
    pub input: String,
}

impl NewTurn {
    /// The row of the turn as `owner` begins it: the `seq`th of its session, at a time in ms since 1970.
    pub fn begun_by(&self, owner: &str, seq: i64, now: i64) -> TurnRow {
        TurnRow {
            id: self.id.clone(),
            agent: self.agent.clone(),
            session: storable(&self.session).into_owned(),
            parent: self.parent.clone(),
            state: TurnState::Running,
            seq,
            input: storable(&self.input).into_owned(),
            checkpoint: None,
            outcome: None,
            record: None,
            cancelled: false,
            owner: Some(owner.to_owned()),
            epoch: 1,
            created_at: now,
            updated_at: now,
        }
    }
}

/// A call that waits for a person, or that may run and was not begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnbegunCall {
    /// Its id in the ledger.
    pub id: String,
    /// The key that its caller gave it.
    pub call_id: String,
}

/// The right to work on a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnLease {
    /// The turn.
    pub id: String,
    /// Who works on it.
    pub owner: String,
    /// For the how-manieth time.
    pub epoch: i64,
}

/// A move of a turn that others may share a transaction with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnMove {
    /// It begins: as the owner's to run, or queued.
    Begin {
        /// The turn.
        turn: NewTurn,
        /// Who runs it; nobody when there is no room.
        owner: Option<String>,
        /// How long its lease is, in ms.
        lease_ms: i64,
    },
    /// It is written down where it stands.
    Checkpoint {
        /// The right to.
        lease: TurnLease,
        /// Where, as JSON text.
        checkpoint: String,
    },
    /// It waits until these calls of the ledger are settled.
    Park {
        /// The right to.
        lease: TurnLease,
        /// Where it stands, as JSON text.
        checkpoint: String,
        /// The calls, by their ids.
        calls: Vec<String>,
    },
    /// It ends.
    End {
        /// The right to.
        lease: TurnLease,
        /// How.
        end: TurnEnd,
    },
}

/// What became of a move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnMoved {
    /// It was begun, or found.
    Begun(Box<Begun>),
    /// Whether the lease was still the mover's.
    Held(bool),
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// A final state.
    pub state: TurnState,
    /// How it ended, as JSON text.
    pub outcome: String,
    /// What later turns of the session read of it, as JSON text; none for nothing.
    pub messages: Option<String>,
    /// What happened in it, as JSON text.
    pub record: String,
}

/// What later turns read of an ended turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The turn.
    pub id: String,
    /// Its place among those of its session, from 1.
    pub place: i64,
    /// Its messages, as JSON text.
    pub messages: String,
    /// When it ended, in ms since 1970.
    pub ended_at: i64,
}

/// Which turns are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnFilter {
    /// Of this agent.
    pub agent: Option<String>,
    /// Of this session.
    pub session: Option<String>,
    /// In this state.
    pub state: Option<TurnState>,
    /// Of these agents only.
    pub agents: Option<Vec<String>>,
}

/// Turns.
#[async_trait]
pub trait Turns: Send + Sync {
    /// Makes moves of turns in one transaction, in their order.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written; then none was made.
    async fn move_turns(&self, moves: &[TurnMove]) -> Result<Vec<TurnMoved>, StoreError>;

    /// Takes a turn up: a queued one when its session is free, a parked one, or a running one whose lease is over. None
    /// when it is not to be had, or was taken up since `epoch`.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn take_turn(&self, id: &str, epoch: i64, owner: &str, lease_ms: i64) -> Result<Option<TurnRow>, StoreError>;

    /// Prolongs the leases of these turns of an owner. Returns the ids of those that somebody asked to end.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn renew_turns(&self, owner: &str, ids: &[String], lease_ms: i64) -> Result<Vec<String>, StoreError>;

    /// Asks for the end of all turns that a turn spawned. Returns their ids.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn cancel_children(&self, parent: &str) -> Result<Vec<String>, StoreError>;

    /// Asks for the end of a turn, and returns it as it is; one that nobody works on ends at once. None when there is
    /// no such turn.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn cancel_turn(&self, id: &str, outcome: &str) -> Result<Option<TurnRow>, StoreError>;

    /// Turns that can be taken up now: queued ones whose session is free, parked ones whose calls are settled, and
    /// running ones whose lease is over. All, or those of one session.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn turns_to_take(&self, most: i64, of: Option<&SessionKey>) -> Result<Vec<TurnRow>, StoreError>;

    /// Those of these calls of a session that wait for a person, or may run and were not begun by anybody.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn unbegun_calls(&self, session: &str, call_ids: &[String]) -> Result<Vec<UnbegunCall>, StoreError>;

    /// The approvals and questions that a parked turn waits for and that are open.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn approvals_of_turn(&self, id: &str) -> Result<Vec<String>, StoreError>;

    /// Where a turn stands, and how it ended; what is looked at over and over.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn turn_end(&self, id: &str) -> Result<Option<(TurnState, Option<String>)>, StoreError>;

    /// A turn.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn turn(&self, id: &str) -> Result<Option<TurnRow>, StoreError>;

    /// Turns, newest first, without their checkpoints and records.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn turns(&self, filter: &TurnFilter, after: Option<&str>, most: i64) -> Result<Page<TurnRow>, StoreError>;

    /// What ended turns of a session leave to read, the last `most` of them, and not many more than `most_bytes`; oldest
    /// first.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn session_messages(
        &self,
        agent: &str,
        session: &str,
        most: i64,
        most_bytes: usize,
    ) -> Result<Vec<Told>, StoreError>;

    /// Deletes ended turns that last moved longer ago than this, in ms, some at a time. Returns how many.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn purge_turns(&self, age_ms: i64) -> Result<u64, StoreError>;
}
