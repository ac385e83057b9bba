//! How a turn ended.

use serde::{Deserialize, Serialize};
use toolcrib_definition::Attachment;

use crate::checkpoint::{ActiveSkill, Cited};
use crate::model::Usage;

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// The model answered.
    Completed,
    /// A tool's own answer ended it.
    Halted,
    /// A limit ended it.
    Limit,
    /// It failed.
    Failed,
    /// Somebody ended it.
    Cancelled,
}

/// What a turn came to. There is always one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnOutcome {
    /// How it ended.
    pub status: TurnStatus,
    /// What is published: the answer, or what a halt says. None when nothing is.
    pub text: Option<String>,
    /// The stable code of what ended it, when that was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What happened, and how to mend it, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// For the person, never for the model.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// The ids that tools gave in this turn and that the answer may cite.
    #[serde(default)]
    pub evidence: Vec<Cited>,
    /// The skills whose texts were in the prompt, each with why.
    #[serde(default)]
    pub skills: Vec<ActiveSkill>,
    /// The model that answered last, as `provider/model`.
    #[serde(default)]
    pub model: Option<String>,
    /// What the model cost, over all steps.
    #[serde(default)]
    pub usage: Usage,
    /// How often the model was asked.
    #[serde(default)]
    pub steps: usize,
    /// Tool calls that took a place among `max_tool_calls`, also those that were refused or did not come to their end.
    #[serde(default)]
    pub tool_calls: usize,
    /// How long it ran, in ms, without its waits for people.
    #[serde(default)]
    pub duration_ms: u64,
}

/// The codes in [`TurnOutcome::code`], for the reference.
pub const TURN_CODES: &[(&str, &str)] = &[
    ("turn.timeout", "The turn took longer than its turn_timeout."),
    ("turn.max_tool_calls", "The model asked for more calls than max_tool_calls after it was told that no more run."),
    ("turn.repeat", "The model repeated one call with the same arguments after it was warned."),
    ("turn.context_budget", "The prompt does not fit into context_budget, although all that can be was left out."),
    ("turn.no_model", "The agent names no model, so only others can drive its turns."),
    ("turn.output_cut", "The model's answer was cut at the longest it may be."),
    ("turn.cancelled", "Somebody ended the turn."),
    ("turn.unreadable", "The stored turn can't be read."),
    ("turn.internal", "Toolcrib itself failed; the log says why."),
    ("model.busy", "The provider has too much to do (HTTP 429, 503 or 529), also after retries."),
    ("model.failed", "The provider failed, also after retries."),
    ("model.refused", "The provider refuses the request; its words say why."),
    ("model.unreachable", "The provider can't be reached."),
    ("model.blocked", "The egress policy of the provider blocks its address."),
    ("model.broken_off", "The provider's answer broke off, also after retries."),
    ("model.unreadable", "The provider's answer can't be read."),
    ("model.paused", "The provider failed repeatedly and is left alone for a moment."),
    ("model.not_configured", "There is no provider of this name, or its key is not configured."),
];
