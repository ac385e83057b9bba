//! OpenAI Chat Completions.

use serde_json::{Value, json};

use crate::conversation::{Conversation, Said, text_of};
use crate::script::Step;
use crate::wire::{halves, tokens, unnamed};

pub(crate) fn conversation(body: &Value) -> Conversation {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let said = |message: &Value| match message["role"].as_str() {
        Some("user") => Some(Said::User(text_of(&message["content"]))),
        Some("assistant") => Some(Said::Model),
        Some("tool") => Some(Said::Tool),
        _ => None,
    };
    Conversation { said: messages.iter().filter_map(said).collect() }
}

pub(crate) fn events(body: &Value, step: &Step, place: usize) -> Vec<String> {
    let chunk = |delta: Value, finish: Option<&str>| {
        unnamed(&json!({
            "id": format!("chatcmpl-script{place}"), "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": body["model"], "system_fingerprint": "fp_script",
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
        }))
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": "", "refusal": null}), None)];
    events.extend(step.pieces().map(|piece| chunk(json!({"content": piece}), None)));
    for (index, call) in step.calls.iter().enumerate() {
        let index = step.calls_from + index;
        let id = format!("call_script_{place}_{index}");
        let text = call.text();
        let (first, second) = halves(&text);
        events.push(chunk(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": call.tool, "arguments": ""}}]}),
            None,
        ));
        for piece in [first, second] {
            events.push(chunk(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), None));
        }
    }
    let finish = match (step.cut, step.calls.is_empty()) {
        (true, _) => "length",
        (false, true) => "stop",
        (false, false) => "tool_calls",
    };
    events.push(chunk(json!({}), Some(finish)));
    if body["stream_options"]["include_usage"] == true {
        let (prompt, completion) = (tokens(&body["messages"].to_string()), tokens(&step.text) + 8 * step.calls.len());
        events.push(unnamed(&json!({
            "id": format!("chatcmpl-script{place}"), "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": body["model"], "choices": [],
            "usage": {
                "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
                "prompt_tokens_details": {"cached_tokens": 0},
            },
        })));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}
