//! Gemini `streamGenerateContent?alt=sse`.

use serde_json::{Value, json};

use crate::conversation::{Conversation, Said, text_of};
use crate::script::Step;
use crate::wire::{tokens, unnamed};

pub(crate) fn conversation(body: &Value) -> Conversation {
    let contents = body["contents"].as_array().cloned().unwrap_or_default();
    let said = |content: &Value| {
        let is_result = |part: &Value| part.get("functionResponse").is_some();
        match content["role"].as_str() {
            Some("user" | "function")
                if content["parts"].as_array().is_some_and(|parts| parts.iter().any(is_result)) =>
            {
                Some(Said::Tool)
            }
            Some("user") => Some(Said::User(text_of(&content["parts"]))),
            Some("model") => Some(Said::Model),
            _ => None,
        }
    };
    Conversation { said: contents.iter().filter_map(said).collect() }
}

pub(crate) fn events(step: &Step) -> Vec<String> {
    let chunk = |parts: Value, finish: Option<&str>| {
        let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = finish.into();
        }
        let said = tokens(&step.text) + 8 * step.calls.len();
        let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": said, "totalTokenCount": 10 + said});
        unnamed(&json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "script"}))
    };
    let mut events: Vec<String> = step.pieces().map(|piece| chunk(json!([{"text": piece}]), None)).collect();
    let calls: Vec<Value> = step
        .calls
        .iter()
        .map(|call| {
            // This wire has arguments as a value, so what is no JSON is an object without keys.
            let arguments: Value = serde_json::from_str(&call.text()).unwrap_or_else(|_| json!({}));
            json!({"functionCall": {"name": call.tool, "args": arguments}})
        })
        .collect();
    if !calls.is_empty() {
        events.push(chunk(json!(calls), None));
    }
    events.push(chunk(json!([{"text": ""}]), Some(if step.cut { "MAX_TOKENS" } else { "STOP" })));
    events
}
