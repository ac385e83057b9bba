//! A turn as a response object of OpenAI's.

use serde_json::{Value, json};
use toolcrib_turn::{TurnOutcome, TurnStatus};

use super::Progress;

/// What a response says of its turn, however far that is.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) user: Option<String>,
    /// The response that it goes on from, as it was asked for.
    pub(super) previous: Option<String>,
    pub(super) session: String,
    pub(super) metadata: Value,
    /// Seconds since 1970.
    pub(super) created_at: i64,
}

/// The response object with what is published.
pub(super) fn response_of(shown: &Shown, progress: &Progress) -> Value {
    let text = progress.outcome.as_ref().and_then(|outcome| outcome.text.as_deref());
    let output: Vec<Value> =
        text.map(|text| message_of(&message_id(shown, 0), "completed", text)).into_iter().collect();
    with_output(shown, progress, &output)
}

/// The response object with these items.
pub(super) fn with_output(shown: &Shown, progress: &Progress, output: &[Value]) -> Value {
    let outcome = progress.outcome.as_ref();
    let status = match outcome.map(|outcome| outcome.status) {
        None if progress.queued => "queued",
        None => "in_progress",
        Some(TurnStatus::Completed | TurnStatus::Halted) => "completed",
        Some(TurnStatus::Limit) => "incomplete",
        Some(TurnStatus::Failed) => "failed",
        Some(TurnStatus::Cancelled) => "cancelled",
    };
    let error = outcome.filter(|outcome| outcome.status == TurnStatus::Failed);
    let error = error.map(|outcome| json!({ "code": "server_error", "message": outcome.error }));
    let incomplete = outcome.filter(|outcome| outcome.status == TurnStatus::Limit).map(|outcome| {
        let cut = outcome.code.as_deref() == Some("turn.output_cut");
        json!({ "reason": if cut { "max_output_tokens" } else { outcome.code.as_deref().unwrap_or_default() } })
    });
    json!({
        "id": shown.id,
        "object": "response",
        "created_at": shown.created_at,
        "status": status,
        "model": shown.model,
        "output": output,
        "error": error,
        "incomplete_details": incomplete,
        "instructions": null,
        "metadata": shown.metadata,
        "parallel_tool_calls": true,
        "previous_response_id": shown.previous,
        "tool_choice": "auto",
        "tools": [],
        "temperature": null,
        "top_p": null,
        "user": shown.user,
        "usage": outcome.map(usage_of),
        "toolcrib": own_of(shown, progress),
    })
}

fn usage_of(outcome: &TurnOutcome) -> Value {
    let usage = outcome.usage;
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": { "cached_tokens": usage.cached_tokens },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": usage.input_tokens + usage.output_tokens,
    })
}

/// What only Toolcrib has to say.
fn own_of(shown: &Shown, progress: &Progress) -> Value {
    let mut own = progress
        .outcome
        .as_ref()
        .and_then(|outcome| serde_json::to_value(outcome).ok())
        .unwrap_or_else(|| json!({ "status": null }));
    if let Some(map) = own.as_object_mut() {
        map.shift_remove("text");
        map.shift_remove("usage");
        map.insert("session".to_owned(), shown.session.as_str().into());
        map.insert("approvals".to_owned(), json!(progress.approvals));
    }
    own
}

pub(super) fn message_id(shown: &Shown, place: usize) -> String {
    format!("msg_{}_{place}", shown.id)
}

/// A message item.
pub(super) fn message_of(id: &str, status: &str, text: &str) -> Value {
    json!({ "id": id, "type": "message", "status": status, "role": "assistant", "content": [part_of(text)] })
}

/// A part of a message.
pub(super) fn part_of(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}
