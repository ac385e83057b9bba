//! What a call came to.

use std::borrow::Cow;

use serde_json::{Value, json};
use toolcrib_definition::Attachment;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The tool answered.
    Ok,
    /// The tool could not be called, or answered with an error.
    Error,
    /// The tool's own answer ends the turn.
    Halted,
    /// Something outside is waited for.
    Waiting,
    /// The agent may not make this call.
    Denied,
    /// The call was not run.
    Skipped,
    /// Nobody knows whether the call took effect.
    InDoubt,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 7] =
        [Status::Ok, Status::Error, Status::Halted, Status::Waiting, Status::Denied, Status::Skipped, Status::InDoubt];

    /// The status with this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Error => "error",
            Status::Halted => "halted",
            Status::Waiting => "waiting",
            Status::Denied => "denied",
            Status::Skipped => "skipped",
            Status::InDoubt => "in_doubt",
        }
    }
}

/// What a call came to. There is always one, and never a bare string.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The stable key of the call.
    pub call_id: String,
    /// The tool, as the model named it.
    pub tool: String,
    /// How it ended.
    pub status: Status,
    /// Exactly what the model should read.
    pub result: Value,
    /// Set when the turn ends.
    pub halt: Option<HaltOutcome>,
    /// For the person, never for the model.
    pub attachments: Vec<Attachment>,
    /// The stable code of what went wrong, or of what is waited for.
    pub code: Option<Cow<'static, str>>,
    /// The approval that is waited for.
    pub approval: Option<String>,
    /// The call in the ledger, when it is one that may change something or that a person is asked about.
    pub ledger_id: Option<String>,
    /// The trace of the call.
    pub trace_id: String,
    /// How long it took, in ms.
    pub duration_ms: u64,
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaltOutcome {
    /// What is published, unless the model already streamed a lead-in.
    pub say: Option<String>,
}

/// A result that is an error: what the model reads.
pub(crate) fn error_result(message: impl Into<String>) -> Value {
    json!({ "error": message.into() })
}

/// The codes in `error.code` of a trace that the executor itself gives, for the reference.
pub const CALL_CODES: &[(&str, &str)] = &[
    ("call.unknown_tool", "There is no such tool, or the agent may not use it; the model is told the same of both."),
    ("call.denied", "The agent may not use the tool."),
    ("call.arguments", "The schema, or a place in the request, does not allow the arguments."),
    ("call.approval", "The call waits for a person's approval; nothing was done yet."),
    ("call.question", "A person was asked something, and the answer is waited for."),
    ("call.running", "The call is still running; ask again with the same call_id."),
    ("call.conflict", "The call_id names another call in this session."),
    ("call.denied_by_rule", "The tool's own rule refuses a call with these arguments."),
    ("call.denied_by_person", "A person refused the call; nothing was done."),
    ("call.expired", "Nobody decided about the call in time, so it was not made. That is no refusal."),
    (
        "call.not_made",
        "The call was not made: its tool was changed or deleted, its agent lost the tool, or it was taken back.",
    ),
    ("call.in_doubt", "The call broke off, and nobody knows whether it took effect; a person gives a verdict."),
    ("call.recorded", "The call was performed, and its recorded result can't be read any more."),
    ("call.unknown", "Nobody will find out whether the call took effect: a person gave up on it."),
    ("call.limit", "The batch has more calls than the agent may make; the calls past the limit were not run."),
    ("call.repeat", "The turn made this call often enough with these arguments; another repetition ends the turn."),
    ("call.deferred", "The tool is deferred, and tool_search did not find it in this turn yet."),
    ("call.halted", "An earlier call of the batch ended the turn; this one was not run."),
    ("call.turn_ended", "The turn ended before this call began; it was not run."),
    ("call.secret", "A secret that the tool needs is not configured."),
    ("call.tool", "The tool answered with an error."),
    ("call.panic", "A code tool panicked; the panic was caught."),
    ("call.timeout", "A code tool took longer than its time."),
    ("call.cancelled", "The caller gave the call up, or the batch before the call began."),
    ("call.input", "A code tool waits for an answer of its caller."),
    ("upstream.failing", "The last calls to a host failed; doctor says so before the host is paused."),
    ("call.paused", "The host failed repeatedly, and calls to it are paused for a moment."),
    ("call.too_large", "The answer is larger than the bound."),
    ("call.broken_off", "The answer broke off before its end."),
    ("call.body_timeout", "The answer began in time and did not end in time."),
    ("call.unreadable", "The answer is compressed in a way that can't be read."),
    ("call.evidence", "The ids of the result could not be recorded."),
    ("call.internal", "Toolcrib itself failed; the log says why."),
];
