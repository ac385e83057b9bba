//! A conversation as it is kept, apart from any provider's form of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// What the user says, below the skills that it brought.
    User {
        /// The text.
        text: String,
    },
    /// What the model says and asks for.
    Assistant {
        /// The text; empty when it only asks.
        text: String,
        /// The calls it asks for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ModelCall>,
    },
    /// What the calls came to, in their order.
    Tool {
        /// One for each call.
        results: Vec<CallResult>,
    },
}

/// A call that the model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The stable key of the call.
    pub id: String,
    /// The tool, as the model named it.
    pub tool: String,
    /// An object, or a text when the model wrote no JSON.
    pub arguments: Value,
    /// What some providers want back beside a call, to the letter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<String>,
    /// The provider whose signatures they are; no other understands them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
}

/// What the model reads of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The stable key of the call.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// JSON as text.
    pub text: String,
}

impl Message {
    /// Its length in bytes, as far as the model reads it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Message::User { text } => text.len(),
            Message::Assistant { text, calls } => {
                let call = |call: &ModelCall| call.tool.len() + call.arguments.to_string().len();
                text.len() + calls.iter().map(call).sum::<usize>()
            }
            Message::Tool { results } => results.iter().map(|result| result.text.len()).sum(),
        }
    }
}
