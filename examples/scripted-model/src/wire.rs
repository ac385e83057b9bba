//! The four forms.

use serde_json::Value;

use crate::conversation::Conversation;
use crate::script::Step;
use crate::{anthropic, gemini, openai_chat, openai_responses};

/// A form in which models are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI Chat Completions.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini.
    Gemini,
}

impl Wire {
    /// The form of an address.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        match path {
            "/v1/chat/completions" => Some(Wire::OpenAiChat),
            "/v1/responses" => Some(Wire::OpenAiResponses),
            "/v1/messages" => Some(Wire::Anthropic),
            _ if path.starts_with("/v1beta/models/") && path.ends_with(":streamGenerateContent") => Some(Wire::Gemini),
            _ => None,
        }
    }

    pub(crate) fn conversation(self, body: &Value) -> Conversation {
        match self {
            Wire::OpenAiChat => openai_chat::conversation(body),
            Wire::OpenAiResponses => openai_responses::conversation(body),
            Wire::Anthropic => anthropic::conversation(body),
            Wire::Gemini => gemini::conversation(body),
        }
    }

    /// The events of an answer, each with its line end.
    pub(crate) fn events(self, body: &Value, step: &Step, place: usize) -> Vec<String> {
        match self {
            Wire::OpenAiChat => openai_chat::events(body, step, place),
            Wire::OpenAiResponses => openai_responses::events(body, step, place),
            Wire::Anthropic => anthropic::events(body, step, place),
            Wire::Gemini => gemini::events(step),
        }
    }

    /// Why the real API would refuse a request, as far as it is known here.
    pub(crate) fn refused(self, body: &Value) -> Option<&'static str> {
        match self {
            Wire::Anthropic => anthropic::refused(body),
            Wire::OpenAiChat | Wire::OpenAiResponses | Wire::Gemini => None,
        }
    }

    /// A refusal in the form of the wire.
    pub(crate) fn refusal(self, status: u16, message: &str) -> Value {
        match self {
            Wire::OpenAiChat | Wire::OpenAiResponses => {
                serde_json::json!({"error": {"message": message, "type": "script", "param": null, "code": null}})
            }
            Wire::Anthropic => {
                serde_json::json!({"type": "error", "error": {"type": "api_error", "message": message}})
            }
            Wire::Gemini => {
                serde_json::json!({"error": {"code": status, "message": message, "status": "SCRIPT"}})
            }
        }
    }
}

/// An event with a name.
pub(crate) fn named(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// An event without one.
pub(crate) fn unnamed(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// Arguments in two pieces, where a character ends.
pub(crate) fn halves(text: &str) -> (&str, &str) {
    let middle = (0..=text.len() / 2).rev().find(|i| text.is_char_boundary(*i)).unwrap_or_default();
    text.split_at(middle)
}

/// Tokens of a text, roughly.
pub(crate) fn tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}
