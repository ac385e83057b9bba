//! Agents: who may use what.

use axum::Json;
use axum::extract::State;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::Value;
use toolcrib_registry::{Agent, AgentId, RegistryError};
use utoipa::ToSchema;

use crate::auth::{Access, Principal};
use crate::body::JsonBody;
use crate::extract::Path;
use crate::forecast::agent_warnings;
use crate::problem::{ApiError, ProblemBody};
use crate::revision::{etag, expectation, write_result};
use crate::state::ApiState;

/// All agents.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentList {
    agents: Vec<AgentBody>,
}

/// An agent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentBody {
    id: String,
    revision: Option<i64>,
    /// The profile with every default written out.
    #[schema(value_type = Object)]
    profile: Value,
    /// How many tools it may use.
    tools: usize,
}

/// What a write did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentWritten {
    id: String,
    /// `created`, `updated` or `unchanged`.
    result: &'static str,
    revision: i64,
    /// Names that lead nowhere.
    warnings: Vec<String>,
}

pub(crate) fn not_found(id: &str) -> ApiError {
    ApiError::NotFound { what: "agent", name: id.to_owned() }
}

/// List agents
#[utoipa::path(get, path = "/v1/agents", tag = "agents", security(("token" = [])),
    responses((status = 200, body = AgentList)))]
pub(crate) async fn list(State(state): State<ApiState>, principal: Principal) -> Result<Json<AgentList>, ApiError> {
    principal.may(Access::ReadAgents)?;
    let snapshot = state.registry().snapshot();
    let agents = snapshot.agents().filter(|(id, _)| principal.sees_agent(id)).map(|(id, agent)| AgentBody {
        id: id.to_owned(),
        revision: snapshot.agent_revision(id).map(|revision| revision.0),
        profile: agent.to_json(),
        tools: snapshot.allowed(agent).len(),
    });
    Ok(Json(AgentList { agents: agents.collect() }))
}

/// Read an agent
#[utoipa::path(get, path = "/v1/agents/{id}", tag = "agents", params(("id" = String, Path)), security(("token" = [])),
    responses((status = 200, body = AgentBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn read(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    principal.may(Access::ReadAgents)?;
    principal.may_use_agent(&id)?;
    let snapshot = state.registry().snapshot();
    let agent = snapshot.agent(&id).ok_or_else(|| not_found(&id))?;
    let revision = snapshot.agent_revision(&id).unwrap_or_default();
    let tools = snapshot.allowed(agent).len();
    let body = AgentBody { id, revision: Some(revision.0), profile: agent.to_json(), tools };
    Ok((etag(revision), Json(body)).into_response())
}

/// Write an agent's profile. It holds from the next call on
#[utoipa::path(put, path = "/v1/agents/{id}", tag = "agents", security(("token" = [])),
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "The revision you know, in quotes")),
    request_body(content = Object, description = "{description, tools_allow, tools_allow_groups, tools_deny, tools_deferred, limits}"),
    responses((status = 200, body = AgentWritten), (status = 201, body = AgentWritten),
        (status = 412, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub(crate) async fn write(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    principal.may(Access::WriteCatalog)?;
    principal.may_use_agent(&id)?;
    let agent_id: AgentId = id.parse().map_err(ApiError::Request)?;
    let agent = Agent::from_json(&body).map_err(|problems| ApiError::Registry(RegistryError::Profile(problems)))?;
    let written = state.registry().put_agent(&agent_id, &agent, expectation(&headers)?).await?;
    let (status, result) = write_result(written.kind);
    let warnings = agent_warnings(&state.registry().snapshot(), &agent);
    let body = AgentWritten { id, result, revision: written.revision.0, warnings };
    Ok((status, etag(written.revision), Json(body)).into_response())
}

/// Delete an agent
#[utoipa::path(delete, path = "/v1/agents/{id}", tag = "agents", security(("token" = [])),
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "The revision you know, in quotes")),
    responses((status = 204), (status = 404, body = ProblemBody), (status = 412, body = ProblemBody)))]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    principal.may(Access::WriteCatalog)?;
    principal.may_use_agent(&id)?;
    match state.registry().delete_agent(&id, expectation(&headers)?).await? {
        Some(_) => Ok(StatusCode::NO_CONTENT),
        None => Err(not_found(&id)),
    }
}
