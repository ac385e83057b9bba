//! Turns: a message to an agent, to its answer.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use toolcrib_definition::{Ctx, json};
use toolcrib_store::{TurnFilter, TurnRow, TurnState};
use toolcrib_turn::{NewMessage, TurnEvent, TurnHandle, recorded, session_or_chat};
use utoipa::{IntoParams, ToSchema};

use crate::agents::not_found as no_agent;
use crate::auth::{Access, Principal};
use crate::body::{JsonBody, Keys};
use crate::calls::ctx_of;
use crate::extract::{Path, Query, state_named};
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;
use crate::turn_stream::stream_of;

/// The longest message, in bytes (1 MiB).
pub(crate) const MAX_MESSAGE: usize = 1 << 20;
/// The most that is read of a transcript, in bytes (8 MiB); what is older is left out.
const MAX_TRANSCRIPT: usize = 8 << 20;
/// The longest name of a session, in bytes.
const MAX_SESSION: usize = 512;
/// How long a request waits for an answer, at the longest.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// A turn.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnBody {
    id: String,
    agent: String,
    session: String,
    /// The turn that spawned it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// `queued`, `running`, `parked`, `completed`, `failed` or `cancelled`.
    state: &'static str,
    /// What the user said.
    message: Value,
    /// How it ended: status, text, code and error, attachments, evidence, skills with their reasons, model, usage, steps.
    #[schema(value_type = Option<Object>)]
    outcome: Option<Value>,
    /// The approvals and questions that it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approvals: Vec<String>,
    /// What happened in it: the events as they are streamed, each with `at` in ms since 1970, without the pieces of text and
    /// the end. As far as it was written down; left out in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    events: Option<Vec<Value>>,
    /// ms since 1970.
    created_at: i64,
    /// When it last moved, in ms since 1970.
    updated_at: i64,
}

/// A part of the list of turns, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnList {
    turns: Vec<TurnBody>,
    /// Give this as `after` to get the next part.
    next: Option<String>,
}

/// What the turns of a session left to read.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Transcript {
    agent: String,
    session: String,
    /// Oldest first.
    turns: Vec<TranscriptTurn>,
}

/// A turn in a transcript.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TranscriptTurn {
    id: String,
    /// ms since 1970.
    ended_at: i64,
    /// What was said and done, as the next turn reads it.
    #[schema(value_type = Vec<Object>)]
    messages: Value,
}

/// Which turns are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct TurnQuery {
    /// Of this agent
    agent: Option<String>,
    /// Of this session
    session: Option<String>,
    /// queued, running, parked, completed, failed or cancelled
    state: Option<String>,
    /// The `next` of the page before
    after: Option<String>,
    /// How many at the most, 1 to 500; 100 when left out
    limit: Option<u32>,
}

fn not_found(id: &str) -> ApiError {
    ApiError::NotFound { what: "turn", name: id.to_owned() }
}

/// Begin a turn of an agent
///
/// The body is `{message, session, ctx, stream, wait}`. The answer comes when the turn has ended or waits for a person
/// (then with the status 202 and the approvals), or after `wait` seconds; the turn goes on. With `stream`, what happens comes
/// as server-sent events, the turn itself first, until it has ended.
#[utoipa::path(post, path = "/v1/agents/{id}/turns", tag = "turns", params(("id" = String, Path)),
    request_body(content = Object, description = "{message, session, ctx, stream, wait}"), security(("token" = [])),
    responses((status = 200, body = TurnBody, description = "It has ended"), (status = 202, body = TurnBody, description = "It goes on, or waits"),
        (status = 400, body = ProblemBody), (status = 404, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub(crate) async fn begin(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    principal.may(Access::Call)?;
    principal.may_use_agent(&id)?;
    let mut keys = Keys::of(body, &["message", "session", "ctx", "stream", "wait"])?;
    let text = keys.text("message")?.ok_or_else(|| ApiError::Request("a turn needs a message".to_owned()))?;
    check_message(&text)?;
    let session = keys.text("session")?;
    let ctx = ctx_of(keys.take("ctx"))?;
    let session = session_of(session, &ctx)?;
    let stream = keys.flag("stream")?.unwrap_or(false);
    let wait = wait_of(keys.take("wait"))?;
    let snapshot = state.registry().snapshot();
    let agent = snapshot.agent(&id).ok_or_else(|| no_agent(&id))?;
    let message = NewMessage { text, session, ctx, before: Vec::new() };
    let mut turn = state.engine.begin(&id, agent, message).await?;
    if stream {
        return Ok(stream_of(state, principal, turn).into_response());
    }
    follow(&state, &mut turn, wait).await?;
    let body = read_body(&state, turn.id()).await?;
    let status = if body.outcome.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(body)).into_response())
}

/// Follows a turn until it has ended, waits for a person, or the time is over.
async fn follow(state: &ApiState, turn: &mut TurnHandle, wait: Duration) -> Result<(), ApiError> {
    let deadline = Instant::now() + wait;
    loop {
        let event = tokio::select! {
            event = turn.next() => event?,
            () = tokio::time::sleep_until(deadline) => return Ok(()),
            () = state.shutdown.cancelled() => return Ok(()),
        };
        match event.as_deref() {
            None | Some(TurnEvent::Ended { .. } | TurnEvent::Parked { .. }) => return Ok(()),
            Some(_) => {}
        }
    }
}

pub(crate) fn check_message(text: &str) -> Result<(), ApiError> {
    if text.trim().is_empty() {
        return Err(ApiError::Request("the message is blank".to_owned()));
    }
    if text.len() > MAX_MESSAGE {
        return Err(ApiError::Request(format!("a message is at most {MAX_MESSAGE} bytes")));
    }
    Ok(())
}

/// The session of a turn: the one that is named, else the chat of its context.
pub(crate) fn session_of(named: Option<String>, ctx: &Ctx) -> Result<Option<String>, ApiError> {
    let session = session_or_chat(named, ctx);
    let fits = |text: &str| {
        (1..=MAX_SESSION).contains(&text.len()) && !text.starts_with('~') && !text.chars().any(char::is_control)
    };
    if session.as_deref().is_some_and(|session| !fits(session)) {
        let message =
            format!("a session is 1 to {MAX_SESSION} bytes without control characters, and does not begin with ~");
        return Err(ApiError::Request(message));
    }
    Ok(session)
}

fn wait_of(value: Option<Value>) -> Result<Duration, ApiError> {
    let Some(value) = value else { return Ok(MAX_WAIT) };
    match value.as_u64().map(Duration::from_secs) {
        Some(wait) if wait <= MAX_WAIT => Ok(wait),
        _ => Err(ApiError::Request(format!("wait is a whole number of seconds up to {}", MAX_WAIT.as_secs()))),
    }
}

/// A turn that the token may know of.
pub(crate) async fn visible(state: &ApiState, principal: &Principal, id: &str) -> Result<TurnRow, ApiError> {
    let row = state.registry().store().turn(id).await?;
    row.filter(|row| principal.sees_agent(&row.agent)).ok_or_else(|| not_found(id))
}

async fn read_body(state: &ApiState, id: &str) -> Result<TurnBody, ApiError> {
    let row = state.registry().store().turn(id).await?.ok_or_else(|| not_found(id))?;
    body_of(state, row).await
}

async fn body_of(state: &ApiState, row: TurnRow) -> Result<TurnBody, ApiError> {
    let store = state.registry().store();
    let approvals = match row.state {
        TurnState::Parked => store.approvals_of_turn(&row.id).await?,
        _ => Vec::new(),
    };
    let read = |text: &str| json::parse(text.as_bytes()).ok();
    let input = read(&row.input).unwrap_or(Value::Null);
    Ok(TurnBody {
        message: input.get("text").cloned().unwrap_or(Value::Null),
        outcome: row.outcome.as_deref().and_then(read),
        state: row.state.as_str(),
        approvals,
        events: None,
        id: row.id,
        agent: row.agent,
        session: row.session,
        parent: row.parent,
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}

/// List turns, newest first
#[utoipa::path(get, path = "/v1/turns", tag = "turns", params(TurnQuery), security(("token" = [])),
    responses((status = 200, body = TurnList), (status = 400, body = ProblemBody)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    principal: Principal,
    Query(query): Query<TurnQuery>,
) -> Result<Json<TurnList>, ApiError> {
    principal.may(Access::ReadTraces)?;
    let limit = query.limit.unwrap_or(100);
    if !(1..=500).contains(&limit) {
        return Err(ApiError::Request("limit is 1 to 500".to_owned()));
    }
    let filter = TurnFilter {
        agent: query.agent,
        session: query.session,
        state: state_named(query.state.as_deref(), &TurnState::ALL, TurnState::as_str)?,
        agents: principal.agents.clone(),
    };
    let page = state.registry().store().turns(&filter, query.after.as_deref(), i64::from(limit)).await?;
    let mut turns = Vec::with_capacity(page.items.len());
    for row in page.items {
        turns.push(body_of(&state, row).await?);
    }
    Ok(Json(TurnList { turns, next: page.next }))
}

/// Read a turn
#[utoipa::path(get, path = "/v1/turns/{id}", tag = "turns", params(("id" = String, Path)), security(("token" = [])),
    responses((status = 200, body = TurnBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn read(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
) -> Result<Json<TurnBody>, ApiError> {
    principal.may(Access::ReadCall)?;
    let row = visible(&state, &principal, &id).await?;
    let events = Some(recorded(&row));
    Ok(Json(TurnBody { events, ..body_of(&state, row).await? }))
}

/// Follow a turn as server-sent events, from its beginning to its end
///
/// What another server did of it is told as far as it was written down, and without the pieces of text.
#[utoipa::path(get, path = "/v1/turns/{id}/events", tag = "turns", params(("id" = String, Path)), security(("token" = [])),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 404, body = ProblemBody)))]
pub(crate) async fn events(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    principal.may(Access::ReadCall)?;
    visible(&state, &principal, &id).await?;
    let turn = state.engine.follow(&id).await?.ok_or_else(|| not_found(&id))?;
    Ok(stream_of(state, principal, turn).into_response())
}

/// End a turn. What it did stays done; calls that wait for a person are taken back
#[utoipa::path(post, path = "/v1/turns/{id}/cancel", tag = "turns", params(("id" = String, Path)), security(("token" = [])),
    responses((status = 200, body = TurnBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn cancel(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
) -> Result<Json<TurnBody>, ApiError> {
    principal.may(Access::Call)?;
    visible(&state, &principal, &id).await?;
    let row = state.engine.cancel(&id).await?.ok_or_else(|| not_found(&id))?;
    Ok(Json(body_of(&state, row).await?))
}

/// Read the transcript of a session
#[utoipa::path(get, path = "/v1/agents/{id}/sessions/{session}", tag = "turns",
    params(("id" = String, Path), ("session" = String, Path)), security(("token" = [])),
    responses((status = 200, body = Transcript), (status = 403, body = ProblemBody)))]
pub(crate) async fn transcript(
    State(state): State<ApiState>,
    principal: Principal,
    Path((id, session)): Path<(String, String)>,
) -> Result<Json<Transcript>, ApiError> {
    principal.may(Access::ReadCall)?;
    principal.may_use_agent(&id)?;
    let told = state.registry().store().session_messages(&id, &session, 500, MAX_TRANSCRIPT).await?;
    let turn = |told: toolcrib_store::Told| TranscriptTurn {
        messages: json::parse(told.messages.as_bytes())
            .ok()
            .and_then(|past| past.get("messages").cloned())
            .unwrap_or(Value::Null),
        id: told.id,
        ended_at: told.ended_at,
    };
    Ok(Json(Transcript { agent: id, session, turns: told.into_iter().map(turn).collect() }))
}
