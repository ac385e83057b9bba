//! Calls: the list, and one of them whole.

use axum::Extension;
use axum::extract::{Path, Query};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::api::{segment, with_query};
use crate::as_curl::as_curl;
use crate::layout;
use crate::operator::Operator;
use crate::pages::sessions::{address, ms_of};
use crate::shown::{block, list as items, shown, status, text, time};
use crate::timeline::card_address;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TracesQuery {
    session: String,
    agent: String,
    tool: String,
    status: String,
    blocked: String,
    since: String,
    after: String,
}

/// The statuses of a call.
pub(crate) const STATUSES: [&str; 7] = ["ok", "error", "halted", "waiting", "denied", "skipped", "in_doubt"];

pub(crate) async fn list(Extension(operator): Extension<Operator>, Query(query): Query<TracesQuery>) -> Response {
    let TracesQuery { session, agent, tool, status, blocked, since, after } = &query;
    let since_ms = ms_of(since).map(|ms| ms.to_string()).unwrap_or_default();
    let asked = [
        ("session", session.as_str()),
        ("agent", agent),
        ("tool", tool),
        ("status", status),
        ("blocked", blocked),
        ("since", since),
    ];
    let path = with_query(
        "/v1/traces",
        &[asked[0], asked[1], asked[2], asked[3], asked[4], ("since", &since_ms), ("after", after), ("limit", "50")],
    );
    let answer = match operator.api.get(&path).await {
        Ok(answer) => answer,
        Err(failure) => return failure.into_response(),
    };
    let body = html! {
        h1 { "Calls" }
        form.row method="get" action="/studio/traces" role="search" {
            div { label for="session" { "Session" } input #session type="search" name="session" value=(session); }
            div { label for="agent" { "Agent" } input #agent name="agent" value=(agent); }
            div { label for="tool" { "Tool" } input #tool name="tool" value=(tool); }
            div {
                label for="status" { "Status" }
                select #status name="status" {
                    option value="" { "any" }
                    @for word in STATUSES { option value=(word) selected[status == word] { (word) } }
                }
            }
            div { label for="blocked" { "Egress" } select #blocked name="blocked" {
                option value="" { "any" }
                option value="true" selected[blocked == "true"] { "blocked" }
            } }
            div { label for="since" { "Since (UTC)" } input #since type="datetime-local" name="since" value=(since); }
            button { "Find" }
        }
        div #calls data-live="5" {
            (table(items(&answer, "traces")))
            (layout::next(&with_query("/studio/traces", &asked), answer["next"].as_str()))
        }
    };
    layout::page(&operator, "Calls", &body)
}

/// Calls as rows; a blocked one can't be overlooked.
pub(crate) fn table(calls: &[Value]) -> Markup {
    html! {
        @if calls.is_empty() {
            p.hint { "No calls." }
        } @else {
            div.scroll tabindex="0" { table {
                thead { tr {
                    th scope="col" { "Call" } th scope="col" { "Status" } th scope="col" { "Agent" }
                    th scope="col" { "Session" } th scope="col" { "Began (UTC)" } th.number scope="col" { "ms" }
                } }
                tbody {
                    @for call in calls {
                        @let blocked = call["blocked"].as_str();
                        tr.blocked[blocked.is_some()] {
                            td { a href={ "/studio/traces/" (segment(text(call, "id"))) } { (shown(text(call, "tool"))) } }
                            td {
                                (status(text(call, "status")))
                                @if let Some(code) = blocked { " " strong.status.bad { "blocked: " (shown(code)) } }
                            }
                            td { (shown(text(call, "agent"))) }
                            td {
                                (session_link(text(call, "session")))
                            }
                            td { (time(&call["started_at"])) }
                            td.number { (call["duration_ms"]) }
                        }
                    }
                }
            } }
        }
    }
}

/// A session, as a link to its timeline.
pub(crate) fn session_link(session: &str) -> Markup {
    html! {
        @if !session.is_empty() {
            a href=(address(session)) { (shown(session)) }
        }
    }
}

/// The parts of a trace that have a block of their own, in the order of the call.
const PARTS: [(&str, &str); 9] = [
    ("error", "Why it failed"),
    ("arguments", "Arguments"),
    ("request", "Request, secrets masked"),
    ("response", "Response"),
    ("result", "What the model reads"),
    ("halt", "Halt"),
    ("evidence", "Evidence"),
    ("ledger", "Ledger"),
    ("phases_ms", "Time by phase, in ms"),
];
/// Those that the head of the page shows.
const HEAD: [&str; 9] = ["id", "tool", "status", "agent", "session", "call_id", "started_at", "duration_ms", "blocked"];

pub(crate) async fn show(Extension(operator): Extension<Operator>, Path(id): Path<String>) -> Response {
    let trace = match operator.api.get(&format!("/v1/traces/{}", segment(&id))).await {
        Ok(trace) => trace,
        Err(failure) => return failure.into_response(),
    };
    let tool = text(&trace, "tool");
    let rest: serde_json::Map<String, Value> = trace
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| {
            !value.is_null() && !HEAD.contains(&key.as_str()) && PARTS.iter().all(|(part, _)| part != key)
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let session = text(&trace, "session");
    let body = html! {
        h1 { "A call of " (shown(tool)) }
        @if !session.is_empty() { p { a href=(card_address(session, &id)) { "In its session" } } }
        @let blocked = &trace["blocked"];
        @if !blocked.is_null() {
            div.notice.bad role="alert" {
                p {
                    strong { "Blocked by the egress policy: " }
                    (shown(text(blocked, "subject"))) " " (shown(text(blocked, "detail"))) " "
                    code { (shown(text(blocked, "code"))) }
                }
            }
        }
        dl {
            dt { "Status" } dd { (status(text(&trace, "status"))) }
            dt { "Tool" } dd { a href={ "/studio/tools/" (segment(tool)) } { (shown(tool)) } }
            dt { "Agent" } dd { (shown(text(&trace, "agent"))) }
            dt { "Session" } dd {
                (session_link(text(&trace, "session")))
            }
            dt { "Call" } dd { code { (shown(text(&trace, "call_id"))) } }
            dt { "Began" } dd { (time(&trace["started_at"])) " UTC" }
            dt { "Took" } dd { (trace["duration_ms"]) " ms" }
        }
        @for (key, title) in PARTS { (block(title, &trace[key])) }
        @if trace["request"].is_object() { (block("As a curl command, for whoever has the secret", &as_curl(&trace["request"]).into())) }
        @if !rest.is_empty() { (block("Everything else", &Value::Object(rest))) }
    };
    layout::page(&operator, "A call", &body)
}
