//! Agents: who may use what.

use axum::Json;
use axum::extract::State;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_registry::{Agent, AgentId, RegistryError};
use toolcrib_store::{Expect, PackChange, PackPart, WriteKind};
use toolcrib_turn::Pack;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Access, Principal};
use crate::body::ManifestBody;
use crate::extract::{Path, Query};
use crate::forecast::{warnings_for, warnings_of_agent};
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

/// Whether a pack is only tried.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct DryRunQuery {
    /// Writes nothing and says what would change; for packs
    dry_run: Option<bool>,
}

/// What a pack changed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PackWritten {
    id: String,
    /// The revision of the agent's row; that before a dry run, and null when there is no such row.
    revision: Option<i64>,
    /// Whether nothing was written.
    dry_run: bool,
    /// The agent, its tools, its skills.
    changes: Vec<PackChangeBody>,
    /// What will fail later.
    warnings: Vec<String>,
}

/// What became of one row of a pack.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PackChangeBody {
    /// `agent`, `tool` or `skill`.
    part: &'static str,
    name: String,
    /// `created`, `updated`, `unchanged` or `deleted`.
    result: &'static str,
    /// Its stored text before; left out when there was none, or it did not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// Its stored text after; left out when there is none, or it did not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

impl From<PackChange> for PackChangeBody {
    fn from(change: PackChange) -> Self {
        let part = match change.part {
            PackPart::Agent => "agent",
            PackPart::Tool => "tool",
            PackPart::Skill => "skill",
        };
        let result = change.kind.map_or("deleted", |kind| write_result(kind).1);
        let changed = change.kind != Some(WriteKind::Unchanged);
        let (before, after) = (change.before.filter(|_| changed), change.after.filter(|_| changed));
        Self { part, name: change.name, result, before, after }
    }
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

/// Write an agent: its profile, or a pack of the agent with its tools and its own skills. It holds from the next call on
///
/// A pack is `{agent, tools, skills}`: a profile, definitions, and `{name, document}` for each skill. It is written whole or
/// not at all, twice the same changes nothing, and what left it leaves the agent.
#[utoipa::path(put, path = "/v1/agents/{id}", tag = "agents", security(("token" = [])),
    params(("id" = String, Path), DryRunQuery, ("If-Match" = Option<String>, Header, description = "The revision you know, in quotes")),
    request_body(content = Object, description = "A profile, or {agent, tools, skills}"),
    responses((status = 200, body = AgentWritten), (status = 201, body = AgentWritten),
        (status = 412, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub(crate) async fn write(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    Query(query): Query<DryRunQuery>,
    headers: HeaderMap,
    ManifestBody(body): ManifestBody,
) -> Result<Response, ApiError> {
    principal.may(Access::WriteCatalog)?;
    principal.may_use_agent(&id)?;
    let agent_id: AgentId = id.parse().map_err(ApiError::Request)?;
    let dry_run = query.dry_run.unwrap_or(false);
    if body.get("agent").is_some() {
        return apply(&state, &principal, &agent_id, &body, expectation(&headers)?, dry_run).await;
    }
    if dry_run {
        return Err(ApiError::Request("dry_run is for packs: {agent, tools, skills}".to_owned()));
    }
    let agent = Agent::from_json(&body).map_err(|problems| ApiError::Registry(RegistryError::Profile(problems)))?;
    let written = state.registry().put_agent(&agent_id, &agent, expectation(&headers)?).await?;
    let (status, result) = write_result(written.kind);
    let warnings = warnings_of_agent(&state, &id, &agent);
    let body = AgentWritten { id, result, revision: written.revision.0, warnings };
    Ok((status, etag(written.revision), Json(body)).into_response())
}

/// Writes a pack, or says what it would change.
async fn apply(
    state: &ApiState,
    principal: &Principal,
    id: &AgentId,
    body: &Value,
    expect: Expect,
    dry_run: bool,
) -> Result<Response, ApiError> {
    let pack = Pack::from_json(id, body).map_err(ApiError::Pack)?;
    let applied = pack.apply(state.registry(), state.engine.skills(), expect, &principal.name, dry_run).await?;
    let mut warnings: Vec<String> = pack.tools().iter().flat_map(|tool| warnings_for(state, tool)).collect();
    if !dry_run {
        warnings.extend(warnings_of_agent(state, id.as_str(), pack.agent()));
    }
    let created = applied.changes.first().is_some_and(|change| change.kind == Some(WriteKind::Created));
    let changes = applied.changes.into_iter().map(PackChangeBody::from).collect();
    let revision = applied.revision;
    let body =
        PackWritten { id: id.to_string(), revision: revision.map(|revision| revision.0), dry_run, changes, warnings };
    let status = if created && !dry_run { StatusCode::CREATED } else { StatusCode::OK };
    match revision {
        Some(revision) => Ok((status, etag(revision), Json(body)).into_response()),
        None => Ok((status, Json(body)).into_response()),
    }
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
