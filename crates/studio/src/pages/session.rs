//! One session as a timeline: what was said, what was called and what became of it.

use axum::Extension;
use axum::extract::{Path, Query};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::iter;
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use maud::html;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{segment, with_query};
use crate::failure::Failure;
use crate::layout;
use crate::operator::Operator;
use crate::pages::agent::chat_form;
use crate::pages::sessions::address;
use crate::shown::{list as items, shown, text};
use crate::timeline::{Timeline, turn_is_over};

/// Turns and calls that are shown at once.
const TURNS: &str = "20";
const CALLS: &str = "100";
/// Reads that are under way at once.
const AT_ONCE: usize = 8;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SessionQuery {
    /// The next older turns, and the next older calls.
    turns_after: String,
    calls_after: String,
}

pub(crate) async fn show(
    Extension(operator): Extension<Operator>,
    Path(session): Path<String>,
    Query(query): Query<SessionQuery>,
) -> Response {
    let told = match Told::of(&operator, &session, &query).await {
        Ok(told) => told,
        Err(failure) => return failure.into_response(),
    };
    let agent = told.turns.last().map(|turn| text(turn, "agent"));
    let is_live = told.turns.iter().any(|turn| !turn_is_over(turn));
    let is_oldest = told.older_turns.is_none() && told.older_calls.is_none();
    let older = [
        ("turns_after", told.older_turns.as_deref().unwrap_or(if is_oldest { "" } else { "0" })),
        ("calls_after", told.older_calls.as_deref().unwrap_or(if is_oldest { "" } else { "0.0" })),
    ];
    let body = html! {
        h1 { "Session " (shown(&session)) }
        p {
            a href={ (address(&session)) "/export" } { "Export as JSON" } " · "
            a href=(with_query("/studio/traces", &[("session", &session)])) { "Its calls as a list" }
            @if !is_oldest { " · " a href=(with_query(&address(&session), &older)) { "What was before" } }
        }
        // What is under way is looked at more often; the rest when something happens.
        div #timeline data-live=(if is_live { "2" } else { "15" }) {
            (Timeline::of(&told.turns, &told.calls, &told.ledger).markup())
        }
        div #end {
            @if let Some(agent) = agent {
                @if operator.may_write() && !session.starts_with('~') { (chat_form(&operator, &format!("/studio/agents/{}", segment(agent)), &session)) }
            }
        }
    };
    layout::page(&operator, "A session", &body)
}

/// Everything of a session that the page shows, as JSON: secrets are masked in it as they are on the page.
pub(crate) async fn export(
    Extension(operator): Extension<Operator>,
    Path(session): Path<String>,
    Query(query): Query<SessionQuery>,
) -> Response {
    let told = match Told::of(&operator, &session, &query).await {
        Ok(told) => told,
        Err(failure) => return failure.into_response(),
    };
    let document = json!({
        "session": session, "turns": told.turns, "traces": told.calls, "ledger": told.ledger,
        "older": { "turns_after": told.older_turns, "calls_after": told.older_calls },
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"session.json\"")),
    ];
    (headers, format!("{document:#}")).into_response()
}

/// What is known of a session, oldest first.
struct Told {
    turns: Vec<Value>,
    calls: Vec<Value>,
    /// The rows of calls with side effects.
    ledger: Vec<Value>,
    older_turns: Option<String>,
    older_calls: Option<String>,
}

impl Told {
    async fn of(operator: &Operator, session: &str, query: &SessionQuery) -> Result<Self, Failure> {
        let api = &operator.api;
        let turns_path =
            with_query("/v1/turns", &[("session", session), ("after", &query.turns_after), ("limit", TURNS)]);
        let calls_path =
            with_query("/v1/traces", &[("session", session), ("after", &query.calls_after), ("limit", CALLS)]);
        let ledger_path = with_query("/v1/calls", &[("session", session), ("limit", CALLS)]);
        let (turns, calls, ledger) = tokio::join!(api.get(&turns_path), api.get(&calls_path), api.get(&ledger_path));
        // A role that reads one and not the other sees what it may.
        let (turns, calls) = match (turns, calls) {
            (Err(failure), Err(_)) => return Err(failure),
            (turns, calls) => (turns.unwrap_or_default(), calls.unwrap_or_default()),
        };
        Ok(Self {
            turns: whole(operator, "/v1/turns", items(&turns, "turns")).await,
            calls: whole(operator, "/v1/traces", items(&calls, "traces")).await,
            ledger: ledger.map(|ledger| items(&ledger, "calls").to_vec()).unwrap_or_default(),
            older_turns: turns["next"].as_str().map(str::to_owned),
            older_calls: calls["next"].as_str().map(str::to_owned),
        })
    }
}

/// Each of a list as it is read alone, oldest first; what can't be read any more stays as it is in the list.
async fn whole(operator: &Operator, path: &str, listed: &[Value]) -> Vec<Value> {
    let places: Vec<(String, Value)> =
        listed.iter().rev().map(|item| (format!("{path}/{}", segment(text(item, "id"))), item.clone())).collect();
    let read = iter(places).map(|(path, item)| async move { operator.api.get(&path).await.unwrap_or(item) });
    read.buffered(AT_ONCE).collect().await
}
