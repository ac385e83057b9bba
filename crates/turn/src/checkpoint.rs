//! Where a turn stands, as it is written down before each step that could be lost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use toolcrib_definition::{Attachment, canonical};
use toolcrib_executor::{HaltOutcome, Outcome, Status};

use crate::message::{Message, ModelCall};
use crate::model::Usage;

/// Where a turn stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    /// How often the model has answered.
    pub(crate) step: usize,
    /// The messages of the turn, the user's first. Empty before the first prompt.
    pub(crate) messages: Vec<Message>,
    /// The calls of the last answer, until all have ended.
    pub(crate) pending: Vec<PendingCall>,
    /// Deferred tools that were found, in the order of their finding.
    pub(crate) enabled: Vec<String>,
    /// The skills whose texts are in the prompt, each with why.
    pub(crate) skills: Vec<ActiveSkill>,
    /// Tool calls that ran.
    pub(crate) calls: usize,
    /// Calls of system tools that ran.
    pub(crate) system_calls: usize,
    /// How often each call was asked for, by a hash of tool and arguments.
    pub(crate) asked: BTreeMap<String, usize>,
    /// The step in which the model was warned of a repetition, by the same hash.
    #[serde(default)]
    pub(crate) warned: BTreeMap<String, usize>,
    /// Whether the model was told that no more calls run.
    pub(crate) limit_told: bool,
    pub(crate) usage: Usage,
    /// The model that answered last.
    pub(crate) model: Option<String>,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) evidence: Vec<Cited>,
    /// What happened so far, for the record.
    #[serde(default)]
    pub(crate) record: Vec<Value>,
    /// How long the turn ran before, in ms: without its waits for people.
    pub(crate) ran_ms: u64,
}

/// A skill whose text is in the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveSkill {
    /// Its name.
    pub name: String,
    /// Why: `eager`, `trigger:<phrase>`, `companion:<of>` or `load_skill`.
    pub reason: String,
}

/// An id that the answer may cite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cited {
    /// What it is an id of.
    pub kind: String,
    /// The id.
    pub id: String,
}

/// A call that the model asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PendingCall {
    pub(crate) call: ModelCall,
    /// Whether it is among those of which repetitions are counted.
    #[serde(default)]
    pub(crate) counted: bool,
    /// Whether it has its place among the calls that may run.
    #[serde(default)]
    pub(crate) begun: bool,
    /// How it ended, if it did.
    pub(crate) ended: Option<EndedCall>,
}

/// How a call ended, as far as the turn needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndedCall {
    pub(crate) status: String,
    pub(crate) result: Value,
    /// The end of the turn, and what it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) halt: Option<Say>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) attachments: Vec<Attachment>,
}

/// What a halt says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Say {
    pub(crate) say: Option<String>,
}

impl PendingCall {
    pub(crate) fn new(call: ModelCall) -> Self {
        Self { call, counted: false, begun: false, ended: None }
    }
}

impl EndedCall {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let halted = (outcome.status == Status::Halted)
            .then(|| Say { say: outcome.halt.as_ref().and_then(|HaltOutcome { say }| say.clone()) });
        Self {
            status: outcome.status.as_str().to_owned(),
            result: outcome.result.clone(),
            halt: halted,
            attachments: outcome.attachments.clone(),
        }
    }

    /// The end of a call that the turn itself answers.
    pub(crate) fn answered(status: Status, result: Value) -> Self {
        Self { status: status.as_str().to_owned(), result, halt: None, attachments: Vec::new() }
    }
}

/// What makes two calls the same: the tool, and its arguments however they are written.
pub(crate) fn fingerprint(call: &ModelCall) -> String {
    let digest = Sha256::digest(format!("{}\0{}", call.tool, canonical(&call.arguments)));
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
