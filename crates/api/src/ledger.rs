//! Calls of the ledger: how they stand, and a person's verdict on one in doubt.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_definition::json::{self, ReadOptions};
use toolcrib_executor::{LedgerCall, SayOfDoubt};
use toolcrib_store::{LedgerEvent, LedgerFilter, LedgerRow, LedgerState, Moved};
use utoipa::{IntoParams, ToSchema};

use crate::approvals::ApprovalBody;
use crate::auth::{Access, Principal};
use crate::body::{JsonBody, Keys};
use crate::calls::OutcomeBody;
use crate::extract::{Path, Query, state_named};
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// The longest time that a request may wait.
const MAX_WAIT: Duration = Duration::from_secs(300);
/// The longest reason, in characters.
const MAX_REASON: usize = 2_000;

/// Which calls are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallQuery {
    /// In this state, such as `in_doubt`
    state: Option<String>,
    /// Of this session
    session: Option<String>,
    /// Of this agent
    agent: Option<String>,
    /// Of this tool
    tool: Option<String>,
    /// The `next` of the page before
    after: Option<String>,
    /// How many at the most, 1 to 500; 100 when left out
    limit: Option<u32>,
}

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitQuery {
    /// How long to wait for an end, such as `30s`; at most 300 s
    wait: Option<String>,
}

impl WaitQuery {
    pub(crate) fn duration(&self) -> Result<Duration, ApiError> {
        let Some(text) = self.wait.as_deref() else { return Ok(Duration::ZERO) };
        let (digits, unit): (&str, fn(u64) -> Duration) = match text.strip_suffix("ms") {
            Some(digits) => (digits, Duration::from_millis),
            None => (text.strip_suffix('s').unwrap_or(text), Duration::from_secs),
        };
        let wrong = |_| ApiError::Request(format!("wait is a time such as 30s or 500ms, not {text:?}"));
        digits.parse().map(unit).map(|wait| wait.min(MAX_WAIT)).map_err(wrong)
    }
}

/// A part of the list of calls, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallList {
    calls: Vec<CallBody>,
    /// Give this as `after` to get the next part.
    next: Option<String>,
}

/// A call of the ledger.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallBody {
    /// The id in the ledger.
    id: String,
    session: String,
    /// The caller's key.
    call_id: String,
    agent: String,
    tool: String,
    /// `at_most_once`, `idempotent` or `transactional`.
    effect: &'static str,
    /// `awaiting`, `ready`, `claimed`, `sent`, `succeeded`, `failed`, `in_doubt`, `denied`, `expired`, `cancelled` or
    /// `unknown`.
    state: &'static str,
    /// Who moved it last.
    actor: String,
    /// Why.
    reason: Option<String>,
    /// How often somebody took it up.
    epoch: i64,
    /// ms since 1970.
    created_at: i64,
    /// ms since 1970.
    updated_at: i64,
    /// Exactly what would run, secrets as references. In the answer about one call.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Value>,
    /// In the answer about one call.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Value>,
    /// What its caller reads. In the answer about one call.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeBody>,
    /// What a person was asked. In the answer about one call.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<ApprovalBody>,
    /// Each move. In the answer about one call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<EventBody>,
}

/// A move of a call.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventBody {
    from: Option<String>,
    to: String,
    epoch: i64,
    actor: String,
    reason: Option<String>,
    /// ms since 1970.
    at: i64,
}

impl From<LedgerEvent> for EventBody {
    fn from(event: LedgerEvent) -> Self {
        let LedgerEvent { seq: _, from_state, to_state, epoch, actor, reason, at } = event;
        Self { from: from_state, to: to_state, epoch, actor, reason, at }
    }
}

impl From<&LedgerRow> for CallBody {
    fn from(row: &LedgerRow) -> Self {
        Self {
            id: row.id.clone(),
            session: row.session.clone(),
            call_id: row.call_id.clone(),
            agent: row.agent.clone(),
            tool: row.tool.clone(),
            effect: row.effect.as_str(),
            state: row.state.as_str(),
            actor: row.actor.clone(),
            reason: row.reason.clone(),
            epoch: row.epoch,
            created_at: row.created_at,
            updated_at: row.updated_at,
            request: None,
            arguments: None,
            outcome: None,
            approval: None,
            events: Vec::new(),
        }
    }
}

/// A stored value, exactly as it was.
pub(crate) fn stored(text: &str) -> Option<Value> {
    let options = ReadOptions { max_depth: 4 * json::MAX_DEPTH, ..ReadOptions::for_answers() };
    json::read(text.as_bytes(), options).ok()
}

/// List calls of the ledger, newest first
#[utoipa::path(get, path = "/v1/calls", tag = "calls", params(CallQuery), security(("token" = [])),
    responses((status = 200, body = CallList), (status = 400, body = ProblemBody), (status = 403, body = ProblemBody)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    principal: Principal,
    Query(query): Query<CallQuery>,
) -> Result<Json<CallList>, ApiError> {
    principal.may(Access::ReadTraces)?;
    let CallQuery { state: word, session, agent, tool, after, limit } = query;
    if let Some(agent) = &agent {
        principal.may_use_agent(agent)?;
    }
    let named = state_named(word.as_deref(), &LedgerState::ALL, LedgerState::as_str)?;
    let filter = LedgerFilter { state: named, session, agent, agents: principal.agents.clone(), tool };
    let most = limit.unwrap_or(100).clamp(1, 500);
    let page = state.registry().store().ledger_rows(&filter, after.as_deref(), most).await?;
    Ok(Json(CallList { calls: page.items.iter().map(CallBody::from).collect(), next: page.next }))
}

/// Read a call of the ledger; with `wait`, when it has ended or is in doubt
#[utoipa::path(get, path = "/v1/calls/{id}", tag = "calls", params(("id" = String, Path), WaitQuery),
    security(("token" = [])), responses((status = 200, body = CallBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn read(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    Query(query): Query<WaitQuery>,
) -> Result<Json<CallBody>, ApiError> {
    principal.may(Access::ReadCall)?;
    let call = visible_call(&state, &principal, &id, Duration::ZERO).await?;
    let wait = query.duration()?;
    let call = if wait.is_zero() { call } else { visible_call(&state, &principal, &id, wait).await? };
    Ok(Json(whole(&state, call).await?))
}

/// Give a verdict on a call in doubt
///
/// `{verdict, result, reason}`: `done` when it was performed, with its result if that is known; `not_done` when it was not,
/// and it runs again once its process is surely gone; `abandon` when nobody will find out.
#[utoipa::path(post, path = "/v1/calls/{id}/verdict", tag = "calls", params(("id" = String, Path)),
    request_body(content = Object, description = "{verdict, result, reason}"), security(("token" = [])),
    responses((status = 200, body = CallBody), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub(crate) async fn verdict(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<CallBody>, ApiError> {
    principal.may(Access::Decide)?;
    visible_call(&state, &principal, &id, Duration::ZERO).await?;
    let mut keys = Keys::of(body, &["verdict", "result", "reason"])?;
    let (result, reason) = (keys.take("result"), reason_of(&mut keys)?);
    let say = match (keys.text("verdict")?.as_deref(), result) {
        (Some("done"), result) => SayOfDoubt::Done(result),
        (Some("not_done"), None) => SayOfDoubt::NotDone,
        (Some("abandon"), None) => SayOfDoubt::Abandon,
        (Some("not_done" | "abandon"), Some(_)) => {
            return Err(ApiError::Request("only a call that is done has a result".to_owned()));
        }
        _ => return Err(ApiError::Request("the verdict is done, not_done or abandon".to_owned())),
    };
    let moved = state.executor.give_verdict(&id, say, &principal.name, reason.as_deref()).await?;
    moved_call(&state, &id, moved).await
}

/// Take back a call that waits for a person
#[utoipa::path(post, path = "/v1/calls/{id}/cancel", tag = "calls", params(("id" = String, Path)),
    request_body(content = Object, description = "{reason}"), security(("token" = [])),
    responses((status = 200, body = CallBody), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub(crate) async fn cancel(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<CallBody>, ApiError> {
    principal.may(Access::Call)?;
    visible_call(&state, &principal, &id, Duration::ZERO).await?;
    let reason = reason_of(&mut Keys::of(body, &["reason"])?)?;
    let moved = state.registry().store().cancel_call(&id, &principal.name, reason.as_deref()).await?;
    moved_call(&state, &id, moved).await
}

/// Why somebody says something, bounded.
pub(crate) fn reason_of(keys: &mut Keys) -> Result<Option<String>, ApiError> {
    match keys.text("reason")? {
        Some(reason) if reason.chars().count() > MAX_REASON => {
            Err(ApiError::Request(format!("a reason is at most {MAX_REASON} characters")))
        }
        reason => Ok(reason.filter(|reason| !reason.trim().is_empty())),
    }
}

/// A call that the token may know of. That there is another's is already more than it may know.
async fn visible_call(
    state: &ApiState,
    principal: &Principal,
    id: &str,
    wait: Duration,
) -> Result<LedgerCall, ApiError> {
    let missing = || ApiError::NotFound { what: "call", name: id.to_owned() };
    let call = tokio::select! {
        call = state.executor.ledger_call(id, wait) => call?,
        () = state.shutdown.cancelled() => state.executor.ledger_call(id, Duration::ZERO).await?,
    };
    call.filter(|call| principal.sees_agent(&call.row.agent)).ok_or_else(missing)
}

async fn whole(state: &ApiState, call: LedgerCall) -> Result<CallBody, ApiError> {
    let events = state.registry().store().ledger_events(&call.row.id).await?;
    Ok(CallBody {
        request: stored(&call.row.request),
        arguments: stored(&call.row.arguments),
        events: events.into_iter().map(EventBody::from).collect(),
        outcome: Some(call.outcome().into()),
        approval: call.approval.as_ref().map(ApprovalBody::from),
        ..CallBody::from(&call.row)
    })
}

async fn moved_call(state: &ApiState, id: &str, moved: Moved) -> Result<Json<CallBody>, ApiError> {
    let conflict = |code, message, retryable| Err(ApiError::Conflict { code, message, retryable });
    match moved {
        Moved::Done(row) => {
            let approval = state.registry().store().approval_of_call(&row.id).await?;
            Ok(Json(whole(state, LedgerCall { row: *row, approval }).await?))
        }
        Moved::Missing => Err(ApiError::NotFound { what: "call", name: id.to_owned() }),
        Moved::WrongState(now) => conflict(
            "call.state",
            format!("the call is {} by now, and this does not apply to that", now.as_str()),
            false,
        ),
        Moved::TooEarly(until) => {
            let message = format!(
                "it is too early to say that nothing happened: the request may still arrive. Say it again from {} on",
                crate::time::shown(until)
            );
            conflict("call.too_early", message, true)
        }
    }
}
