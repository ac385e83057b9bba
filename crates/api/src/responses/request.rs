//! What a client of OpenAI's Responses sends.

use serde_json::{Map, Value, json};
use toolcrib_definition::Ctx;
use toolcrib_definition::json::kind_of;
use toolcrib_turn::{Message, NewMessage};

use crate::calls::ctx_of;
use crate::problem::ApiError;
use crate::turns::{check_message, session_of};

/// Keys that are the agent's to say, each with where it says so.
const OF_THE_AGENT: [(&str, &str); 3] = [
    ("instructions", "the agent's instructions are in its profile"),
    ("tools", "the agent's tools are in its profile, and Toolcrib runs them"),
    ("prompt", "the agent's instructions are in its profile"),
];

/// A request, as far as it means something here. Unknown keys are left alone, as clients send new ones all the time.
#[derive(Debug)]
pub(super) struct ResponseRequest {
    pub(super) agent: String,
    pub(super) session: Option<String>,
    pub(super) previous: Option<String>,
    pub(super) stream: bool,
    pub(super) background: bool,
    pub(super) metadata: Value,
    text: String,
    before: Vec<Message>,
    ctx: Ctx,
}

impl ResponseRequest {
    pub(super) fn read(body: Value) -> Result<Self, ApiError> {
        let wrong = |message: String| ApiError::Request(message);
        let Value::Object(mut map) = body else {
            return Err(wrong(format!("the body is an object, not {}", kind_of(&body))));
        };
        for (key, why) in OF_THE_AGENT {
            let given = map.get(key).is_some_and(|value| {
                !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()) && value != ""
            });
            if given {
                return Err(wrong(format!("{key} can't be given: {why}")));
            }
        }
        let text = |map: &Map<String, Value>, key: &str| match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(ApiError::Request(format!("{key} is a string, not {}", kind_of(other)))),
        };
        let flag = |map: &Map<String, Value>, key: &str| match map.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(ApiError::Request(format!("{key} is true or false, not {}", kind_of(other)))),
        };
        let agent = text(&map, "model")?.ok_or_else(|| wrong("model is the id of an agent".to_owned()))?;
        let conversation = match map.get("conversation") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(other) => other.get("id").and_then(Value::as_str).map(str::to_owned),
        };
        let named = text(&map, "user")?.or(conversation);
        let previous = text(&map, "previous_response_id")?;
        let (stream, background) = (flag(&map, "stream")?, flag(&map, "background")?);
        let metadata = map.get("metadata").filter(|value| value.is_object()).cloned().unwrap_or_else(|| json!({}));
        let ctx = ctx_of(map.shift_remove("ctx").filter(|value| !value.is_null()))?;
        let session = session_of(named, &ctx)?;
        let input = map.shift_remove("input").unwrap_or(Value::Null);
        let (text, before) = said(&input)?;
        check_message(&text)?;
        if !before.is_empty() && (session.is_some() || previous.is_some()) {
            return Err(wrong(
                "input holds earlier messages, and the session keeps them: send the new one only".to_owned(),
            ));
        }
        Ok(Self { agent, session, previous, stream, background, metadata, text, before, ctx })
    }

    pub(super) fn message(&self, session: Option<String>) -> NewMessage {
        NewMessage { text: self.text.clone(), session, ctx: self.ctx.clone(), before: self.before.clone() }
    }
}

/// The new message, and what was said before it in a conversation that the caller keeps.
fn said(input: &Value) -> Result<(String, Vec<Message>), ApiError> {
    let items = match input {
        Value::String(text) => return Ok((text.clone(), Vec::new())),
        Value::Array(items) => items,
        other => return Err(ApiError::Request(format!("input is a text or a list, not {}", kind_of(other)))),
    };
    let mut messages: Vec<Message> = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let at = |message: &str| ApiError::Request(format!("input[{i}]: {message}"));
        if !matches!(item.get("type").and_then(Value::as_str), None | Some("message")) {
            return Err(at("only messages can be sent; calls and their results are Toolcrib's own"));
        }
        let text = text_of(item.get("content").unwrap_or(&Value::Null)).map_err(|message| at(&message))?;
        match item.get("role").and_then(Value::as_str) {
            Some("user") => match messages.last_mut() {
                // Several in a row are one message.
                Some(Message::User { text: known }) => {
                    known.push_str("\n\n");
                    known.push_str(&text);
                }
                _ => messages.push(Message::User { text }),
            },
            Some("assistant") => messages.push(Message::Assistant { text, calls: Vec::new() }),
            Some("system" | "developer") => return Err(at("the agent's instructions are in its profile")),
            _ => return Err(at("role is user or assistant")),
        }
    }
    match messages.pop() {
        Some(Message::User { text }) => Ok((text, messages)),
        _ => Err(ApiError::Request("input ends with what the user says".to_owned())),
    }
}

fn text_of(content: &Value) -> Result<String, String> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let mut text = String::new();
            for part in parts {
                match (part.get("type").and_then(Value::as_str), part.get("text").and_then(Value::as_str)) {
                    (Some("input_text" | "output_text" | "text"), Some(piece)) => text.push_str(piece),
                    (kind, _) => return Err(format!("only text can be read, not {}", kind.unwrap_or("this"))),
                }
            }
            Ok(text)
        }
        other => Err(format!("content is a text or a list of parts, not {}", kind_of(other))),
    }
}
