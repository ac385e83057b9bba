//! What a person is asked about a call, and what was said.

use async_trait::async_trait;

use crate::error::StoreError;
use crate::revision::Page;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApprovalKind {
    /// Whether a call may run.
    Approval,
    /// For information: the answer is the result of the call.
    Question,
}

impl ApprovalKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalKind::Approval => "approval",
            ApprovalKind::Question => "question",
        }
    }

    pub(crate) fn named(word: &str) -> Option<Self> {
        [ApprovalKind::Approval, ApprovalKind::Question].into_iter().find(|kind| kind.as_str() == word)
    }
}

/// What became of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApprovalState {
    /// Nobody has decided.
    Open,
    /// A person said yes.
    Approved,
    /// A person said no.
    Denied,
    /// A person answered.
    Answered,
    /// Nobody decided in time.
    Expired,
    /// The call was taken back.
    Cancelled,
}

impl ApprovalState {
    /// Every state.
    pub const ALL: [ApprovalState; 6] = [
        ApprovalState::Open,
        ApprovalState::Approved,
        ApprovalState::Denied,
        ApprovalState::Answered,
        ApprovalState::Expired,
        ApprovalState::Cancelled,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalState::Open => "open",
            ApprovalState::Approved => "approved",
            ApprovalState::Denied => "denied",
            ApprovalState::Answered => "answered",
            ApprovalState::Expired => "expired",
            ApprovalState::Cancelled => "cancelled",
        }
    }

    /// The state with this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// A question to a person about one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The id, 32 hexadecimal digits; sorts by time.
    pub id: String,
    /// The call in the ledger.
    pub ledger_id: String,
    /// What is asked.
    pub kind: ApprovalKind,
    /// What became of it.
    pub state: ApprovalState,
    /// The session of the call.
    pub session: String,
    /// The agent.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// The SHA-256 of the effective request: what is approved is what runs.
    pub request_hash: String,
    /// Why it asks; for a question, the question.
    pub why: String,
    /// When it was asked, in ms since 1970.
    pub created_at: i64,
    /// Until when it can be decided, in ms since 1970.
    pub expires_at: i64,
    /// When it was decided, in ms since 1970.
    pub decided_at: Option<i64>,
    /// Who decided.
    pub decided_by: Option<String>,
    /// Why, in words.
    pub reason: Option<String>,
    /// The answer to a question, as JSON text.
    pub answer: Option<String>,
}

/// What a person says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call may run.
    Approve,
    /// It may not.
    Deny,
    /// The answer to a question, as JSON text, with the outcome to record for the call.
    Answer {
        /// The answer.
        answer: String,
        /// The outcome of the call.
        outcome: String,
    },
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// It holds.
    Done(Box<Approval>),
    /// Somebody else was first, or the time was over. This is what stands.
    TooLate(Box<Approval>),
    /// A question can't be approved, and an approval can't be answered.
    WrongKind(ApprovalKind),
    /// There is no such approval.
    Missing,
}

/// Which approvals are wanted. Empty means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// In this state.
    pub state: Option<ApprovalState>,
    /// Of one of these agents.
    pub agents: Option<Vec<String>>,
}

/// A webhook that is to be told of an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The approval.
    pub approval: Approval,
    /// The name of the webhook.
    pub webhook: String,
    /// How often it was tried, this time included.
    pub tries: i64,
}

/// Questions to people.
#[async_trait]
pub trait Approvals: Send + Sync {
    /// Takes a person's decision. Of two at once one wins, and the other is told.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn decide(
        &self,
        id: &str,
        decision: Decision,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<Decided, StoreError>;

    /// Takes up notices that are due, at most `most`, and has them for `lease_ms`.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn take_notices(&self, lease_ms: i64, most: u32) -> Result<Vec<Notice>, StoreError>;

    /// Forgets a notice: it was told, or never will be.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn drop_notice(&self, approval: &str, webhook: &str) -> Result<(), StoreError>;

    /// Lets a notice be due again after `pause_ms`.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn delay_notice(&self, approval: &str, webhook: &str, pause_ms: i64) -> Result<(), StoreError>;

    /// An approval.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn approval(&self, id: &str) -> Result<Option<Approval>, StoreError>;

    /// How many approvals and questions wait for a person.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn count_open(&self) -> Result<i64, StoreError>;

    /// The approval of a call.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn approval_of_call(&self, ledger_id: &str) -> Result<Option<Approval>, StoreError>;

    /// Approvals, newest first, at most `most`. `after` is the `next` of the page before.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        after: Option<&str>,
        most: u32,
    ) -> Result<Page<Approval>, StoreError>;
}
