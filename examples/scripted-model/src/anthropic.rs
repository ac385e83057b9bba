//! Anthropic Messages.

use serde_json::{Value, json};

use crate::conversation::{Conversation, Said, text_of};
use crate::script::Step;
use crate::wire::{halves, named, tokens};

pub(crate) fn conversation(body: &Value) -> Conversation {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let said = |message: &Value| {
        let is_result = |part: &Value| part["type"] == "tool_result";
        match message["role"].as_str() {
            Some("user") if message["content"].as_array().is_some_and(|parts| parts.iter().any(is_result)) => {
                Some(Said::Tool)
            }
            Some("user") => Some(Said::User(text_of(&message["content"]))),
            Some("assistant") => Some(Said::Model),
            _ => None,
        }
    };
    Conversation { said: messages.iter().filter_map(said).collect() }
}

/// What the real API refuses.
pub(crate) fn refused(body: &Value) -> Option<&'static str> {
    let messages = body["messages"].as_array()?;
    let blank = |message: &Value| match &message["content"] {
        Value::String(text) => text.is_empty(),
        Value::Array(parts) => parts.is_empty() || parts.iter().any(|part| part["text"] == ""),
        _ => true,
    };
    let parts = || messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    if messages.iter().any(blank) {
        return Some("messages: text content blocks must be non-empty");
    }
    let bad = parts().any(|part| part["type"] == "tool_use" && !part["input"].is_object());
    bad.then_some("messages: tool_use.input: Input should be an object")
}

pub(crate) fn events(body: &Value, step: &Step, place: usize) -> Vec<String> {
    let event = |name: &str, mut data: Value| {
        data["type"] = name.into();
        named(name, &data)
    };
    let input = tokens(&body["messages"].to_string());
    let mut events = vec![
        event(
            "message_start",
            json!({"message": {
                "id": format!("msg_script{place}"), "type": "message", "role": "assistant", "model": body["model"],
                "content": [], "stop_reason": null, "stop_sequence": null,
                "usage": {"input_tokens": input, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
            }}),
        ),
        event("ping", json!({})),
    ];
    let mut index = 0;
    if !step.text.is_empty() {
        events.push(event("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}})));
        for piece in step.pieces() {
            let delta = json!({"index": 0, "delta": {"type": "text_delta", "text": piece}});
            events.push(event("content_block_delta", delta));
        }
        events.push(event("content_block_stop", json!({"index": 0})));
        index = 1;
    }
    for (number, call) in step.calls.iter().enumerate() {
        let id = format!("toolu_script_{place}_{number}");
        let block = json!({"type": "tool_use", "id": id, "name": call.tool, "input": {}});
        events.push(event("content_block_start", json!({"index": index, "content_block": block})));
        let text = call.text();
        let (first, second) = halves(&text);
        for piece in [first, second] {
            let delta = json!({"index": index, "delta": {"type": "input_json_delta", "partial_json": piece}});
            events.push(event("content_block_delta", delta));
        }
        events.push(event("content_block_stop", json!({"index": index})));
        index += 1;
    }
    let stop = match (step.cut, step.calls.is_empty()) {
        (true, _) => "max_tokens",
        (false, true) => "end_turn",
        (false, false) => "tool_use",
    };
    let said = tokens(&step.text) + 8 * step.calls.len();
    events.push(event(
        "message_delta",
        json!({"delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": said}}),
    ));
    events.push(event("message_stop", json!({})));
    events
}
