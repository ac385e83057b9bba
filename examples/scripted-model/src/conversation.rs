//! A request, apart from the form of its wire.

use serde_json::Value;

/// Who said something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The user, this.
    User(String),
    /// The model.
    Model,
    /// A tool.
    Tool,
}

/// What a request holds of the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation {
    /// Oldest first.
    pub said: Vec<Said>,
}

impl Conversation {
    /// What the user said last, and how often the model has answered since.
    pub(crate) fn place(&self) -> (String, usize) {
        let user = self.said.iter().rposition(|said| matches!(said, Said::User(_)));
        let Some(user) = user else { return (String::new(), 0) };
        let text = match &self.said[user] {
            Said::User(text) => text.clone(),
            _ => String::new(),
        };
        // What the model says and asks for in one answer may be several items, but each answer ends with results.
        let mut answers = 0;
        let mut in_answer = false;
        for said in &self.said[user + 1..] {
            match said {
                Said::Model if !in_answer => {
                    answers += 1;
                    in_answer = true;
                }
                Said::Model => {}
                _ => in_answer = false,
            }
        }
        (text, answers)
    }
}

/// A text, or the texts of a list of parts.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}
