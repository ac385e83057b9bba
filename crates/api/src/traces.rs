//! Traces, and the ids a session may cite.

use std::time::Duration;

use axum::Json;
use axum::extract::State;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_definition::json::{self, MAX_DEPTH, ReadOptions};
use toolcrib_store::{StoreError, TraceFilter, TraceRow};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Access, Principal};
use crate::extract::{Path, Query};
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// How long a reader waits for traces that are not yet written.
pub(crate) const FLUSH: Duration = Duration::from_secs(2);

/// Which traces are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceQuery {
    /// Of this session (the chat_id)
    session: Option<String>,
    /// Of this agent
    agent: Option<String>,
    /// Of this tool
    tool: Option<String>,
    /// With this status
    status: Option<String>,
    /// Whether only those are wanted that the egress policy blocked; false when left out
    blocked: Option<bool>,
    /// Begun at this time or later, in ms since 1970
    since: Option<i64>,
    /// The `next` of the page before
    after: Option<String>,
    /// How many at the most, 1 to 500; 100 when left out
    limit: Option<u32>,
}

/// A part of the list of traces, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TraceList {
    traces: Vec<TraceSummary>,
    /// Give this as `after` to get the next part.
    next: Option<String>,
}

/// A trace in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TraceSummary {
    id: String,
    session: String,
    agent: String,
    tool: String,
    call_id: String,
    status: String,
    /// The code of the egress block.
    blocked: Option<String>,
    /// ms since 1970.
    started_at: i64,
    duration_ms: i64,
}

/// The ids that a session may cite, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EvidenceList {
    session: String,
    evidence: Vec<EvidenceBody>,
}

/// An id that may be cited.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EvidenceBody {
    kind: String,
    id: String,
    /// The agent that saw it last.
    agent: String,
}

fn summary(row: TraceRow) -> TraceSummary {
    let TraceRow { id, session, agent, tool, call_id, status, blocked, started_at, duration_ms, document: _ } = row;
    TraceSummary { id, session, agent, tool, call_id, status, blocked, started_at, duration_ms }
}

/// List traces, newest first
#[utoipa::path(get, path = "/v1/traces", tag = "traces", params(TraceQuery), security(("token" = [])),
    responses((status = 200, body = TraceList), (status = 403, body = ProblemBody)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    principal: Principal,
    Query(query): Query<TraceQuery>,
) -> Result<Json<TraceList>, ApiError> {
    principal.may(Access::ReadTraces)?;
    let TraceQuery { session, agent, tool, status, blocked, since, after, limit } = query;
    if let Some(agent) = &agent {
        principal.may_use_agent(agent)?;
    }
    let agents = principal.agents.clone();
    let filter = TraceFilter { session, agent, agents, tool, status, blocked: blocked.unwrap_or(false), since };
    let most = limit.unwrap_or(100).clamp(1, 500);
    // What ended a moment ago may still wait to be written.
    state.executor.recorder().flush(FLUSH).await;
    let page = state.registry().store().traces(&filter, after.as_deref(), most).await?;
    Ok(Json(TraceList { traces: page.items.into_iter().map(summary).collect(), next: page.next }))
}

/// Read a trace
#[utoipa::path(get, path = "/v1/traces/{id}", tag = "traces", params(("id" = String, Path)), security(("token" = [])),
    responses((status = 200, body = Object, description = "The whole trace"), (status = 404, body = ProblemBody)))]
pub(crate) async fn read(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    principal.may(Access::ReadTraces)?;
    state.executor.recorder().flush(FLUSH).await;
    let missing = || ApiError::NotFound { what: "trace", name: id.clone() };
    let row = state.registry().store().trace(&id).await?.ok_or_else(missing)?;
    if !principal.sees_agent(&row.agent) {
        // That there is such a trace is already more than the token may know.
        return Err(missing());
    }
    // A trace holds values of any depth that was read, some levels down.
    let options = ReadOptions { max_depth: 2 * MAX_DEPTH, ..ReadOptions::for_answers() };
    let document = json::read(row.document.as_bytes(), options).map_err(|error| StoreError::BadRow {
        table: "traces",
        column: "document",
        key: id.clone(),
        reason: error.to_string(),
    })?;
    Ok(Json(document))
}

/// List the ids that a session may cite
#[utoipa::path(get, path = "/v1/sessions/{session}/evidence", tag = "traces", params(("session" = String, Path)),
    security(("token" = [])), responses((status = 200, body = EvidenceList)))]
pub(crate) async fn evidence(
    State(state): State<ApiState>,
    principal: Principal,
    Path(session): Path<String>,
) -> Result<Json<EvidenceList>, ApiError> {
    principal.may(Access::ReadEvidence)?;
    let found = state.registry().store().evidence(&session).await?;
    let seen = found.into_iter().filter(|(_, _, agent)| principal.sees_agent(agent));
    let evidence = seen.map(|(kind, id, agent)| EvidenceBody { kind, id, agent }).collect();
    Ok(Json(EvidenceList { session, evidence }))
}
