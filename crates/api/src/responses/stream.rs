//! A turn as the events of OpenAI's Responses, with Toolcrib's own among them.
//!
//! Some of OpenAI's clients end at an event whose type they do not know. They all pass over `keepalive`, so that is the type
//! of Toolcrib's own, with what happened in `toolcrib`.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde_json::{Value, json};
use toolcrib_turn::{TurnEvent, TurnHandle, TurnOutcome, TurnStatus};

use super::Progress;
use super::body::{Shown, message_id, message_of, part_of, with_output};
use crate::auth::Principal;
use crate::state::ApiState;
use crate::turn_stream::{Following, KEEP_ALIVE};

/// The events of a turn until its end.
pub(super) fn stream_of(
    state: ApiState,
    principal: Principal,
    turn: TurnHandle,
    shown: Shown,
) -> Sse<impl Stream<Item = Result<SseEvent, Infallible>>> {
    let writer = Writer::new(shown);
    let events = unfold((Following::new(state, principal, turn), writer), |(mut following, mut writer)| async move {
        loop {
            if let Some((name, data)) = writer.ready.pop_front() {
                let event = SseEvent::default().event(name).data(data.to_string());
                return Some((Ok(event), (following, writer)));
            }
            if writer.ended {
                return None;
            }
            let event = following.next().await?;
            writer.take(&event);
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// Turns what happens into events, and numbers them.
struct Writer {
    shown: Shown,
    progress: Progress,
    ready: VecDeque<(String, Value)>,
    sequence: u64,
    /// The items that are whole.
    output: Vec<Value>,
    /// The text of the item that is being said.
    open: Option<String>,
    ended: bool,
}

impl Writer {
    fn new(shown: Shown) -> Self {
        let mut writer = Self {
            shown,
            progress: Progress::default(),
            ready: VecDeque::new(),
            sequence: 0,
            output: Vec::new(),
            open: None,
            ended: false,
        };
        for name in ["response.created", "response.in_progress"] {
            let response = with_output(&writer.shown, &writer.progress, &[]);
            writer.push(name, json!({ "response": response }));
        }
        writer
    }

    fn push(&mut self, name: &str, mut data: Value) {
        data["type"] = name.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        self.ready.push_back((name.to_owned(), data));
    }

    /// An event of Toolcrib's own.
    fn push_own(&mut self, name: &str, data: Value) {
        let event = json!({ "type": "keepalive", "sequence_number": self.sequence, "toolcrib": data });
        self.sequence += 1;
        self.ready.push_back((format!("toolcrib.{name}"), event));
    }

    fn take(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::TextDelta { text } => self.say(text),
            TurnEvent::Ended { outcome } => self.end(outcome),
            other => {
                match other {
                    TurnEvent::TextDiscarded { .. } | TurnEvent::Started { resumed: true } => self.close("incomplete"),
                    // What was said so far is said, and stands for itself.
                    TurnEvent::CallStarted { .. } | TurnEvent::Parked { .. } => self.close("completed"),
                    _ => {}
                }
                if let TurnEvent::Parked { approvals } = other {
                    self.progress.approvals = approvals.clone();
                }
                let data = serde_json::to_value(other).unwrap_or_else(|_| json!({}));
                self.push_own(other.name(), data);
            }
        }
    }

    fn say(&mut self, text: &str) {
        let (index, id) = (self.output.len(), message_id(&self.shown, self.output.len()));
        if self.open.is_none() {
            let mut item = message_of(&id, "in_progress", "");
            item["content"] = json!([]);
            self.push("response.output_item.added", json!({ "output_index": index, "item": item }));
            self.push(
                "response.content_part.added",
                json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part_of("") }),
            );
        }
        self.open.get_or_insert_default().push_str(text);
        self.push(
            "response.output_text.delta",
            json!({ "item_id": id, "output_index": index, "content_index": 0, "delta": text, "logprobs": [] }),
        );
    }

    /// Ends the item that is being said.
    fn close(&mut self, status: &str) {
        let Some(text) = self.open.take() else { return };
        let (index, id) = (self.output.len(), message_id(&self.shown, self.output.len()));
        let at = |more: &str, value: Value| {
            let mut data = json!({ "item_id": id, "output_index": index, "content_index": 0 });
            data[more] = value;
            data
        };
        let mut text_done = at("text", text.as_str().into());
        text_done["logprobs"] = json!([]);
        self.push("response.output_text.done", text_done);
        self.push("response.content_part.done", at("part", part_of(&text)));
        let item = message_of(&id, status, &text);
        self.push("response.output_item.done", json!({ "output_index": index, "item": item }));
        self.output.push(item);
    }

    fn end(&mut self, outcome: &TurnOutcome) {
        // What a halt says was not streamed yet; a lead-in was.
        let said = |item: &Value| item["content"][0]["text"].as_str().map(str::to_owned);
        let last = self.open.clone().or_else(|| self.output.last().and_then(said));
        if let Some(text) = outcome.text.as_deref()
            && last.as_deref() != Some(text)
        {
            self.close("completed");
            self.say(text);
        }
        self.close("completed");
        self.progress.approvals.clear();
        self.progress.outcome = Some(outcome.clone());
        // What was discarded stays out of the whole.
        let output: Vec<Value> = self.output.iter().filter(|item| item["status"] == "completed").cloned().collect();
        let response = with_output(&self.shown, &self.progress, &output);
        let name = match outcome.status {
            TurnStatus::Completed | TurnStatus::Halted => "response.completed",
            TurnStatus::Limit => "response.incomplete",
            TurnStatus::Failed | TurnStatus::Cancelled => "response.failed",
        };
        self.push(name, json!({ "response": response }));
        self.ended = true;
    }
}
