//! OpenAI Responses.

use serde_json::{Value, json};

use crate::conversation::{Conversation, Said, text_of};
use crate::script::Step;
use crate::wire::{halves, named, tokens};

pub(crate) fn conversation(body: &Value) -> Conversation {
    let said = match &body["input"] {
        Value::String(text) => vec![Said::User(text.clone())],
        Value::Array(items) => items.iter().filter_map(said_by).collect(),
        _ => Vec::new(),
    };
    Conversation { said }
}

fn said_by(item: &Value) -> Option<Said> {
    match (item["type"].as_str(), item["role"].as_str()) {
        (Some("function_call"), _) => Some(Said::Model),
        (Some("function_call_output"), _) => Some(Said::Tool),
        (_, Some("user")) => Some(Said::User(text_of(&item["content"]))),
        (_, Some("assistant")) => Some(Said::Model),
        _ => None,
    }
}

pub(crate) fn events(body: &Value, step: &Step, place: usize) -> Vec<String> {
    let id = format!("resp_script{place}");
    let response = |status: &str, output: &[Value], usage: Value| {
        let details = if status == "incomplete" { json!({"reason": "max_output_tokens"}) } else { Value::Null };
        json!({
            "id": id, "object": "response", "created_at": 1_700_000_000, "status": status, "error": null,
            "incomplete_details": details, "instructions": null, "metadata": {}, "model": body["model"],
            "output": output, "parallel_tool_calls": true, "temperature": 1.0, "tool_choice": "auto", "tools": [],
            "top_p": 1.0, "usage": usage,
        })
    };
    let mut numbered = Numbered::default();
    numbered.push("response.created", json!({"response": response("in_progress", &[], Value::Null)}));
    numbered.push("response.in_progress", json!({"response": response("in_progress", &[], Value::Null)}));
    let mut output: Vec<Value> = Vec::new();
    if !step.text.is_empty() {
        let item = format!("msg_script{place}");
        let message = |status: &str, content: Value| json!({"id": item, "type": "message", "status": status, "role": "assistant", "content": content});
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
        let at = json!({"item_id": item, "output_index": 0, "content_index": 0});
        let with = |more: Value| merged(&at, &more);
        numbered
            .push("response.output_item.added", json!({"output_index": 0, "item": message("in_progress", json!([]))}));
        numbered.push("response.content_part.added", with(json!({"part": part("")})));
        for piece in step.pieces() {
            numbered.push("response.output_text.delta", with(json!({"delta": piece})));
        }
        numbered.push("response.output_text.done", with(json!({"text": step.text})));
        numbered.push("response.content_part.done", with(json!({"part": part(&step.text)})));
        let done = message("completed", json!([part(&step.text)]));
        numbered.push("response.output_item.done", json!({"output_index": 0, "item": done}));
        output.push(done);
    }
    for (number, call) in step.calls.iter().enumerate() {
        let index = output.len();
        let item = format!("fc_script{place}_{number}");
        let text = call.text();
        let whole = |status: &str, arguments: &str| {
            json!({
                "id": item, "type": "function_call", "status": status, "arguments": arguments,
                "call_id": format!("call_script_{place}_{number}"), "name": call.tool,
            })
        };
        numbered.push("response.output_item.added", json!({"output_index": index, "item": whole("in_progress", "")}));
        let (first, second) = halves(&text);
        for piece in [first, second] {
            let delta = json!({"item_id": item, "output_index": index, "delta": piece});
            numbered.push("response.function_call_arguments.delta", delta);
        }
        let done = json!({"item_id": item, "output_index": index, "arguments": text});
        numbered.push("response.function_call_arguments.done", done);
        let done = whole("completed", &text);
        numbered.push("response.output_item.done", json!({"output_index": index, "item": done}));
        output.push(done);
    }
    let (input, said) = (tokens(&body["input"].to_string()), tokens(&step.text) + 8 * step.calls.len());
    let usage = json!({
        "input_tokens": input, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input + said,
    });
    let (name, status) =
        if step.cut { ("response.incomplete", "incomplete") } else { ("response.completed", "completed") };
    numbered.push(name, json!({"response": response(status, &output, usage)}));
    numbered.events
}

/// Events with their numbers.
#[derive(Default)]
struct Numbered {
    events: Vec<String>,
}

impl Numbered {
    fn push(&mut self, name: &str, data: Value) {
        let head = json!({"type": name, "sequence_number": self.events.len()});
        self.events.push(named(name, &merged(&head, &data)));
    }
}

fn merged(first: &Value, second: &Value) -> Value {
    let both = [first, second].into_iter().filter_map(Value::as_object).flatten();
    Value::Object(both.map(|(key, value)| (key.clone(), value.clone())).collect())
}
