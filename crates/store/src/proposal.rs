//! Proposals of calls to the ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use toolcrib_definition::EffectMode;

use crate::approvals::Approval;
use crate::ledger::LedgerRow;

/// When a person is asked about a new call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Only when it may be the repetition of a call whose end is not known.
    IfRepeated,
    /// Unless the same arguments were approved in this session before.
    Once(String),
    /// In any case, for this reason.
    Always(String),
    /// For information; the answer is the result.
    Question(String),
}

/// A call to be proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCall {
    /// Its id, which nobody has yet.
    pub id: String,
    /// The session.
    pub session: String,
    /// The caller's key of the call.
    pub call_id: String,
    /// The agent.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// What a crash may do to it.
    pub effect: EffectMode,
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
    /// How long it may be sent again once it was proposed, in ms; none for never.
    pub resend_ms: Option<i64>,
    /// When a person is asked.
    pub ask: Ask,
    /// The id of the approval, should one be needed.
    pub approval_id: String,
    /// How long a person may take, in ms.
    pub approval_ms: i64,
    /// The webhooks that are told, should a person be asked.
    pub notices: Vec<String>,
    /// Who claims it.
    pub owner: String,
    /// How long the claim holds, in ms.
    pub lease_ms: i64,
}

/// Says that the connection of a call stands, while its proposal still waits to be written down: then it is written down as
/// sent at once, which saves a commit. Clones say the same.
#[derive(Debug, Clone, Default)]
pub struct Connected(Arc<AtomicBool>);

impl Connected {
    /// Says so: the first byte of the request is sent as soon as the proposal allows it.
    pub fn say(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was said.
    pub fn is_said(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// What became of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposal {
    /// It is the proposer's to run.
    Claimed(Lease),
    /// The same, and it is written down as sent already: its connection stood in time.
    Sent(Lease),
    /// A person is asked.
    Awaiting(Box<Approval>),
    /// There is a call with this key in the session already.
    Known(Box<LedgerRow>),
}

/// The right to work on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The id of the call.
    pub id: String,
    /// Who has it.
    pub owner: String,
    /// For the how-manieth time it was claimed.
    pub epoch: i64,
}
