//! Turns and calls of a session, in the order of time.

use maud::{Markup, html};
use serde_json::Value;

use crate::api::segment;
use crate::as_curl::as_curl;
use crate::pages::sessions::address;
use crate::shown::{block, list, names, shown, status, text, time};

/// Parts of a prompt, with what people call them.
const PARTS: [(&str, &str); 6] = [
    ("instructions", "instructions"),
    ("skills", "skills"),
    ("lists", "lists of skills and tools to find"),
    ("history", "turns before"),
    ("turn", "this turn"),
    ("tools", "tools"),
];

/// Something that happened, and when, in ms since 1970.
struct Moment {
    at: i64,
    what: Markup,
}

/// What happened in a session.
pub(crate) struct Timeline(Vec<Moment>);

/// Whether a turn has ended.
pub(crate) fn turn_is_over(turn: &Value) -> bool {
    matches!(text(turn, "state"), "completed" | "failed" | "cancelled")
}

impl Timeline {
    /// Puts turns with their events, and calls, in the order of time. `ledger` holds the rows of calls with side effects.
    pub(crate) fn of(turns: &[Value], calls: &[Value], ledger: &[Value]) -> Self {
        let mut moments: Vec<Moment> = Vec::new();
        let has_trace = |id: &Value| id.is_string() && calls.iter().any(|call| call["id"] == *id);
        for turn in turns {
            let mut add = |at: &Value, what: Markup| moments.push(Moment { at: at.as_i64().unwrap_or_default(), what });
            add(&turn["created_at"], begun(turn));
            for event in list(turn, "events") {
                // A call that has a trace is shown by its trace.
                let by_trace = matches!(text(event, "type"), "call_finished") && has_trace(&event["trace_id"]);
                if let (Some(what), false) = (event_of(event), by_trace) {
                    add(&event["at"], what);
                }
            }
            add(&turn["updated_at"], ended(turn));
        }
        for call in calls {
            let row = ledger.iter().find(|row| row["id"] == call["ledger_id"] && !row["id"].is_null());
            moments.push(Moment { at: call["started_at"].as_i64().unwrap_or_default(), what: card(call, row) });
        }
        // The order in which they were added is that of what happened in the same millisecond.
        moments.sort_by_key(|moment| moment.at);
        Self(moments)
    }

    pub(crate) fn markup(&self) -> Markup {
        html! {
            @if self.0.is_empty() { p.hint { "Nothing is known of this session." } }
            ol.timeline {
                @for moment in &self.0 {
                    li { span.when { (time(&moment.at.into())) } (moment.what) }
                }
            }
        }
    }
}

fn begun(turn: &Value) -> Markup {
    html! {
        div.said.user id={ "turn-" (text(turn, "id")) } {
            p.hint {
                "To " strong { (shown(text(turn, "agent"))) } " · "
                a href={ "#turn-" (text(turn, "id")) } { "turn" }
                @if let Some(parent) = turn["parent"].as_str() { " · spawned by the turn " code { (shown(parent)) } }
            }
            p.text { (shown(text(turn, "message"))) }
        }
    }
}

/// What of an event is not said by the trace or the outcome already.
fn event_of(event: &Value) -> Option<Markup> {
    Some(match text(event, "type") {
        "started" if event["resumed"] == true => html! { p { "Taken up again from where it was written down." } },
        "skills_activated" => html! {
            p { "Skills came into the prompt: "
                @for (place, skill) in list(event, "skills").iter().enumerate() {
                    @if place > 0 { ", " }
                    a href={ "/studio/skills/" (segment(text(skill, "name"))) } { (shown(text(skill, "name"))) }
                    " (" (shown(text(skill, "reason"))) ")"
                }
            }
        },
        "context_cut" => html! {
            p.status.wait { "… Left out of the prompt, which was too long: "
                @for (place, words) in list(event, "given_up").iter().enumerate() {
                    @if place > 0 { ", " } (shown(words.as_str().unwrap_or_default()))
                }
            }
        },
        "model_answered" => budget(event),
        "text_discarded" => html! {
            p.status.bad { "✗ The answer broke off (" code { (shown(text(event, "code"))) } "); " (shown(text(event, "model"))) " was asked anew." }
        },
        "call_finished" => html! {
            div.card {
                strong { (shown(text(event, "tool"))) } " " (status(text(event, "status")))
                @if let Some(code) = event["code"].as_str() { " " code { (shown(code)) } }
                " in " (event["duration_ms"]) " ms"
            }
        },
        "tools_enabled" => {
            html! { p { "Can be called from here on: " (shown(&names(&event["tools"]))) } }
        }
        "parked" => html! {
            p.status.wait { "… It waits for a person: "
                @for approval in list(event, "approvals").iter().filter_map(Value::as_str) {
                    a href={ "/studio/approvals/" (segment(approval)) } { "decide" } " "
                }
            }
        },
        _ => return None,
    })
}

/// What a prompt was made of, and what the model took for it.
fn budget(event: &Value) -> Markup {
    let prompt = &event["prompt"];
    let of = |part: &str| prompt[part].as_u64().unwrap_or_default();
    let whole: u64 = PARTS.iter().map(|(part, _)| of(part)).sum();
    html! {
        details.budget {
            summary {
                (shown(text(event, "model"))) " answered in " (event["duration_ms"]) " ms; prompt about " (whole) " of " (of("budget")) " tokens"
            }
            table {
                thead { tr { th scope="col" { "Part of the prompt" } th.number scope="col" { "Tokens, about" } } }
                tbody { @for (part, words) in PARTS { tr { th scope="row" { (words) } td.number { (of(part)) } } } }
            }
            @let usage = &event["usage"];
            p.hint { "As the provider counts: " (usage["input_tokens"]) " in (" (usage["cached_tokens"]) " of them from its cache), " (usage["output_tokens"]) " out." }
        }
    }
}

fn ended(turn: &Value) -> Markup {
    let outcome = &turn["outcome"];
    html! {
        @if outcome.is_null() {
            p { (status(text(turn, "state"))) }
            @for approval in list(turn, "approvals").iter().filter_map(Value::as_str) {
                p.notice { "It waits for a person: " a href={ "/studio/approvals/" (segment(approval)) } { "look at it, and decide" } }
            }
        } @else {
            div.said.bad[text(turn, "state") == "failed"] {
                @if let Some(answer) = outcome["text"].as_str() { p.text { (shown(answer)) } }
                @if let Some(error) = outcome["error"].as_str() { p.status.bad { "✗ " (shown(error)) } }
                p.hint {
                    (status(text(outcome, "status")))
                    @if let Some(code) = outcome["code"].as_str() { " " code { (shown(code)) } }
                    " · " (outcome["steps"]) " answer(s) of the model, " (outcome["tool_calls"]) " call(s), " (outcome["duration_ms"]) " ms"
                }
                @for attachment in list(outcome, "attachments") { p { "Attached: " (shown(text(attachment, "kind"))) " " code { (shown(text(attachment, "url"))) } } }
                @for cited in list(outcome, "evidence") { p.hint { "May cite " (shown(text(cited, "kind"))) " " code { (shown(text(cited, "id"))) } } }
            }
        }
    }
}

/// A call: what is asked first on it, the rest behind it.
fn card(call: &Value, row: Option<&Value>) -> Markup {
    let id = text(call, "id");
    let blocked = &call["blocked"];
    let is_bad = !blocked.is_null() || matches!(text(call, "status"), "error" | "in_doubt" | "denied");
    html! {
        div.card.blocked[is_bad] id={ "call-" (id) } {
            strong { a href={ "/studio/tools/" (segment(text(call, "tool"))) } { (shown(text(call, "tool"))) } }
            " " (status(text(call, "status"))) " in " (call["duration_ms"]) " ms · "
            a href={ "#call-" (id) } { "link" } " · " a href={ "/studio/traces/" (segment(id)) } { "whole" }
            @if !blocked.is_null() {
                p.notice.bad { strong { "Blocked by the egress policy: " }
                    (shown(text(blocked, "subject"))) " " (shown(text(blocked, "detail"))) " " code { (shown(text(blocked, "code"))) } }
            } @else if let Some(reason) = call["error"].as_object() {
                p.notice.bad { "It failed: " (shown(reason.get("reason").and_then(Value::as_str).unwrap_or_default()))
                    " " code { (shown(reason.get("code").and_then(Value::as_str).unwrap_or_default())) } }
            }
            @if let Some(row) = row {
                p { "Ledger: " (status(text(row, "state"))) " "
                    @if text(row, "state") == "in_doubt" { a href={ "/studio/doubts/" (segment(text(row, "id"))) } { "give a verdict" } }
                    @if let Some(reason) = row["reason"].as_str() { span.hint { " " (shown(reason)) } }
                }
            }
            details {
                summary { "What went over the wire" }
                (block("Arguments", &call["arguments"]))
                (block("Request, secrets masked", &call["request"]))
                @if call["request"].is_object() { (block("As a curl command, for whoever has the secret", &as_curl(&call["request"]).into())) }
                (block("Response", &call["response"]))
                (block("What the model reads", &call["result"]))
                (block("Halt", &call["halt"]))
                (block("Time by phase, in ms", &call["phases_ms"]))
            }
        }
    }
}

/// Where a card of a call stands.
pub(crate) fn card_address(session: &str, trace: &str) -> String {
    format!("{}#call-{trace}", address(session))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_happened_is_in_the_order_of_time() {
        let turn = json!({
            "id": "t", "agent": "clerk", "message": "<b>hi</b>", "state": "completed", "created_at": 10, "updated_at": 50,
            "outcome": {"status": "completed", "text": "done", "steps": 1, "tool_calls": 1, "duration_ms": 4},
            "events": [
                {"type": "started", "at": 10, "resumed": false},
                {"type": "model_answered", "at": 20, "model": "m", "duration_ms": 2, "usage": {}, "prompt": {"turn": 3, "budget": 9}},
                {"type": "call_finished", "at": 40, "tool": "find", "status": "ok", "trace_id": "c", "duration_ms": 1},
                {"type": "call_finished", "at": 45, "tool": "load_skill", "status": "ok", "duration_ms": 1},
            ],
        });
        let call = json!({"id": "c", "tool": "find", "status": "error", "started_at": 30, "duration_ms": 1,
            "blocked": {"code": "egress.metadata", "subject": "169.254.169.254", "detail": "is a metadata address"}, "ledger_id": "l"});
        let row = json!({"id": "l", "state": "in_doubt"});
        let markup = Timeline::of(&[turn], &[call], &[row]).markup().into_string();
        let place = |words: &str| markup.find(words).unwrap_or_else(|| panic!("{words} is not in {markup}"));
        let order = ["&lt;b&gt;hi", "m answered", "egress.metadata", "load_skill", "done"].map(place);
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(markup.matches("find</a>").count(), 1, "a call with a trace stands there once");
        place("give a verdict");
        place("prompt about 3 of 9 tokens");
    }
}
