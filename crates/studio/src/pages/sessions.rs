//! The list of sessions: conversations with agents, and what others called under a chat.

use axum::Extension;
use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::api::{segment, with_query};
use crate::layout;
use crate::operator::Operator;
use crate::pages::traces::STATUSES;
use crate::shown::{beginning, list as items, shown, status, text, time};

/// Calls that are read for the list of one page.
const CALLS: &str = "500";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SessionsQuery {
    session: String,
    agent: String,
    tool: String,
    status: String,
    since: String,
    after: String,
}

pub(crate) async fn list(Extension(operator): Extension<Operator>, Query(query): Query<SessionsQuery>) -> Response {
    let SessionsQuery { session, agent, tool, status, since, after } = &query;
    let since_ms = ms_of(since).map(|ms| ms.to_string()).unwrap_or_default();
    let asked = [("session", session.as_str()), ("agent", agent), ("tool", tool), ("status", status), ("since", since)];
    let calls_path = with_query(
        "/v1/traces",
        &[asked[0], asked[1], asked[2], asked[3], ("since", &since_ms), ("after", after), ("limit", CALLS)],
    );
    // Turns have no tool and no status of a call: who looks for these looks for calls.
    let turns_path = with_query("/v1/turns", &[asked[0], asked[1], ("limit", "50")]);
    let with_turns = tool.is_empty() && status.is_empty() && after.is_empty();
    let (calls, turns) = tokio::join!(operator.api.get(&calls_path), async {
        if with_turns { operator.api.get(&turns_path).await.ok() } else { None }
    });
    let calls = match calls {
        Ok(calls) => calls,
        Err(failure) => return failure.into_response(),
    };
    let since_turn = ms_of(since).unwrap_or_default();
    let turns: Vec<&Value> = turns
        .as_ref()
        .map(|turns| items(turns, "turns"))
        .unwrap_or_default()
        .iter()
        .filter(|turn| turn["created_at"].as_i64().unwrap_or_default() >= since_turn)
        .collect();
    let sessions = Sessions::of(items(&calls, "traces"));
    let body = html! {
        h1 { "Sessions" }
        form.row method="get" action="/studio/sessions" role="search" {
            div { label for="session" { "Chat" } input #session type="search" name="session" value=(session); }
            div { label for="agent" { "Agent" } input #agent name="agent" value=(agent); }
            div { label for="tool" { "Tool" } input #tool name="tool" value=(tool); }
            div { label for="status" { "Status" } select #status name="status" {
                option value="" { "any" }
                @for word in STATUSES { option value=(word) selected[status == word] { (word) } }
            } }
            div { label for="since" { "Since (UTC)" } input #since type="datetime-local" name="since" value=(since); }
            button { "Find" }
        }
        div #sessions data-live="5" {
            @if !turns.is_empty() { h2 { "Conversations" } (turns_table(&turns)) }
            h2 { "Chats with calls" }
            (sessions.table())
            (layout::next(&with_query("/studio/sessions", &asked), calls["next"].as_str()))
        }
    };
    layout::page(&operator, "Sessions", &body)
}

/// A time as a browser writes it, in UTC.
pub(crate) fn ms_of(text: &str) -> Option<i64> {
    let at: DateTime = text.parse().ok()?;
    Some(TimeZone::UTC.to_timestamp(at).ok()?.as_millisecond())
}

/// The address of a session.
pub(crate) fn address(session: &str) -> String {
    format!("/studio/sessions/{}", segment(session))
}

fn turns_table(turns: &[&Value]) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th scope="col" { "Said" } th scope="col" { "Agent" } th scope="col" { "State" } th scope="col" { "Session" } th scope="col" { "Began (UTC)" }
            } }
            tbody {
                @for turn in turns {
                    @let session = text(turn, "session");
                    tr {
                        th scope="row" { a href={ (address(session)) "#turn-" (text(turn, "id")) } { (said(text(turn, "message"))) } }
                        td { (shown(text(turn, "agent"))) }
                        td { (status(text(turn, "state"))) @if let Some(code) = turn["outcome"]["code"].as_str() { " " code { (shown(code)) } } }
                        td { a href=(address(session)) { (shown(session)) } }
                        td { (time(&turn["created_at"])) }
                    }
                }
            }
        } }
    }
}

/// What was said, so that there is something to follow.
fn said(message: &str) -> String {
    if message.trim().is_empty() { "(nothing)".to_owned() } else { beginning(message) }
}

/// Calls by their sessions, the last used first.
struct Sessions<'a>(Vec<Session<'a>>);

struct Session<'a> {
    name: &'a str,
    last: &'a Value,
    calls: usize,
    failed: usize,
    blocked: usize,
    waiting: usize,
}

impl<'a> Sessions<'a> {
    fn of(calls: &'a [Value]) -> Self {
        let mut sessions: Vec<Session<'a>> = Vec::new();
        for call in calls {
            let name = text(call, "session");
            let place = sessions.iter().position(|known| known.name == name).unwrap_or_else(|| {
                sessions.push(Session { name, last: call, calls: 0, failed: 0, blocked: 0, waiting: 0 });
                sessions.len() - 1
            });
            let session = &mut sessions[place];
            session.calls += 1;
            session.failed += usize::from(matches!(text(call, "status"), "error" | "in_doubt"));
            session.waiting += usize::from(text(call, "status") == "waiting");
            session.blocked += usize::from(!call["blocked"].is_null());
        }
        Self(sessions)
    }

    fn table(&self) -> Markup {
        html! {
            @if self.0.is_empty() { p.hint { "No calls." } } @else {
                div.scroll tabindex="0" { table {
                    thead { tr {
                        th scope="col" { "Chat" } th.number scope="col" { "Calls" } th scope="col" { "What went wrong" }
                        th scope="col" { "Last agent" } th scope="col" { "Last call (UTC)" }
                    } }
                    tbody {
                        @for session in &self.0 {
                            tr.blocked[session.blocked > 0] {
                                th scope="row" {
                                    @if session.name.is_empty() { a href="/studio/traces" { "(no chat)" } }
                                    @else { a href=(address(session.name)) { (shown(session.name)) } }
                                }
                                td.number { (session.calls) }
                                td {
                                    @if session.blocked > 0 { strong.status.bad { "✗ " (session.blocked) " blocked" } " " }
                                    @if session.failed > session.blocked { strong.status.bad { "✗ " (session.failed - session.blocked) " failed" } " " }
                                    @if session.waiting > 0 { span.status.wait { "… " (session.waiting) " waiting" } }
                                }
                                td { (shown(text(session.last, "agent"))) }
                                td { (time(&session.last["started_at"])) }
                            }
                        }
                    }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn calls_are_counted_by_session() {
        let calls = [
            json!({"session": "b", "status": "error", "blocked": "egress.metadata"}),
            json!({"session": "a", "status": "ok"}),
            json!({"session": "b", "status": "error"}),
            json!({"session": "b", "status": "waiting"}),
        ];
        let sessions = Sessions::of(&calls);
        let counted: Vec<_> = sessions.0.iter().map(|s| (s.name, s.calls, s.failed, s.blocked, s.waiting)).collect();
        assert_eq!(counted, [("b", 3, 2, 1, 1), ("a", 1, 0, 0, 0)]);
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(ms_of("1970-01-01T00:01"), Some(60_000));
        assert_eq!(ms_of("tomorrow"), None);
    }
}
