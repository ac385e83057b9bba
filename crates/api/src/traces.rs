//! Traces, and the ids a session may cite.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_definition::json;
use toolcrib_store::{StoreError, TraceFilter, TraceRow};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Access, Principal};
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// Which traces are wanted.
#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct TraceQuery {
    /// Of this session (the chat_id)
    session: Option<String>,
    /// Of this agent
    agent: Option<String>,
    /// Of this tool
    tool: Option<String>,
    /// With this status
    status: Option<String>,
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
    let TraceQuery { session, agent, tool, status, since, after, limit } = query;
    if let Some(agent) = &agent {
        principal.may_use_agent(agent)?;
    }
    let filter = TraceFilter { session, agent, tool, status, since };
    let most = limit.unwrap_or(100).clamp(1, 500);
    // What ended a moment ago may still wait to be written.
    state.executor.recorder().flush().await;
    let page = state.registry().store().traces(&filter, after.as_deref(), most).await?;
    let seen = page.items.into_iter().filter(|row| principal.sees_agent(&row.agent));
    Ok(Json(TraceList { traces: seen.map(summary).collect(), next: page.next }))
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
    state.executor.recorder().flush().await;
    let missing = || ApiError::NotFound { what: "trace", name: id.clone() };
    let row = state.registry().store().trace(&id).await?.ok_or_else(missing)?;
    principal.may_use_agent(&row.agent)?;
    let document = json::parse(row.document.as_bytes()).map_err(|error| StoreError::BadRow {
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
    principal.may(Access::ReadTraces)?;
    let found = state.registry().store().evidence(&session).await?;
    let evidence = found.into_iter().map(|(kind, id)| EvidenceBody { kind, id }).collect();
    Ok(Json(EvidenceList { session, evidence }))
}
