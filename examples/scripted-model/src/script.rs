//! What the model says, when.

use serde::Deserialize;
use serde_json::Value;

/// All turns, the first that fits wins.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The turns.
    pub turns: Vec<Turn>,
}

/// One turn.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// What the user's message holds; any message when left out.
    #[serde(default)]
    pub when: String,
    /// The answers, one after another. After the last, the model is silent.
    pub steps: Vec<Step>,
    /// Whether the last answer comes again and again.
    #[serde(default)]
    pub endless: bool,
}

/// One answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What is said, word by word.
    #[serde(default)]
    pub text: String,
    /// What is asked for.
    #[serde(default)]
    pub calls: Vec<Call>,
    /// The number of the first call on a wire that numbers them (OpenAI Chat); some servers count from one.
    #[serde(default)]
    pub calls_from: usize,
    /// Whether the answer is cut at its longest.
    #[serde(default)]
    pub cut: bool,
    /// How long it takes, in ms.
    #[serde(default)]
    pub delay_ms: u64,
    /// What goes wrong before the answer, once each.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// A call that is asked for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// The arguments; a text is sent as it is, be it JSON or not.
    #[serde(default)]
    pub arguments: Value,
}

/// Something that goes wrong.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// The request is refused with this status.
    Status {
        /// The HTTP status.
        code: u16,
        /// The value of `Retry-After`.
        retry_after: Option<String>,
    },
    /// The connection breaks after some events.
    Reset {
        /// How many.
        after: usize,
    },
    /// The stream ends after some events as if it were whole.
    End {
        /// How many.
        after: usize,
    },
    /// One event is no JSON.
    Garbage {},
}

impl Call {
    /// The arguments as the wire carries them.
    pub(crate) fn text(&self) -> String {
        match &self.arguments {
            Value::Null => "{}".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

impl Step {
    /// The text in pieces, as a model says it.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &str> {
        self.text.split_inclusive(' ').filter(|piece| !piece.is_empty())
    }
}
