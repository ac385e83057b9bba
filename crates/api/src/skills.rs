//! Skills: the shared ones, and those that are an agent's own.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use toolcrib_skills::{ScopedSkill, Skill};
use toolcrib_store::SHARED;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Access, Principal};
use crate::body::{JsonBody, Keys};
use crate::extract::{Path, Query};
use crate::problem::{ApiError, ProblemBody};
use crate::revision::{etag, expectation, write_result};
use crate::state::ApiState;

/// Whose skill is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScopeQuery {
    /// The agent whose own it is; the shared ones when left out
    agent: Option<String>,
}

/// All skills of a scope.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillList {
    skills: Vec<SkillBody>,
}

/// A skill.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillBody {
    name: String,
    /// The agent whose own it is; null for a shared one.
    agent: Option<String>,
    description: String,
    triggers: Vec<String>,
    companions: Vec<String>,
    /// What was understood though it is not as it should be.
    notes: Vec<String>,
    revision: Option<i64>,
    /// The whole `SKILL.md`; left out in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<String>,
}

/// What a write did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillWritten {
    name: String,
    /// `created`, `updated` or `unchanged`.
    result: &'static str,
    revision: i64,
    /// What was understood though it is not as it should be.
    notes: Vec<String>,
}

/// The versions of a skill, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillVersions {
    name: String,
    versions: Vec<SkillVersion>,
}

/// A version of a skill.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillVersion {
    version: i64,
    /// The name of the token that wrote it, or the disk root.
    actor: String,
    /// ms since 1970.
    created_at: i64,
    document: String,
}

fn not_found(name: &str) -> ApiError {
    ApiError::NotFound { what: "skill", name: name.to_owned() }
}

fn body_of(scoped: ScopedSkill<'_>, whole: bool) -> SkillBody {
    let skill: &Skill = scoped.skill;
    SkillBody {
        name: skill.name().to_owned(),
        agent: (scoped.scope != SHARED).then(|| scoped.scope.to_owned()),
        description: skill.description().to_owned(),
        triggers: skill.triggers().to_vec(),
        companions: skill.companions().to_vec(),
        notes: skill.notes().to_vec(),
        revision: scoped.revision.map(|revision| revision.0),
        document: whole.then(|| skill.document().to_owned()),
    }
}

/// List skills: the shared ones, or an agent's own
#[utoipa::path(get, path = "/v1/skills", tag = "skills", params(ScopeQuery), security(("token" = [])),
    responses((status = 200, body = SkillList)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    principal: Principal,
    Query(query): Query<ScopeQuery>,
) -> Result<Json<SkillList>, ApiError> {
    principal.may(Access::ReadCatalog)?;
    let catalog = state.engine.skills().catalog();
    let skills = catalog.in_scope(query.agent.as_deref().unwrap_or(SHARED)).map(|scoped| body_of(scoped, false));
    Ok(Json(SkillList { skills: skills.collect() }))
}

/// Read a skill
#[utoipa::path(get, path = "/v1/skills/{name}", tag = "skills", params(("name" = String, Path), ScopeQuery),
    security(("token" = [])), responses((status = 200, body = SkillBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn read(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
    Query(query): Query<ScopeQuery>,
) -> Result<Response, ApiError> {
    principal.may(Access::ReadCatalog)?;
    let catalog = state.engine.skills().catalog();
    let scoped = catalog.get(query.agent.as_deref().unwrap_or(SHARED), &name).ok_or_else(|| not_found(&name))?;
    Ok((etag(scoped.revision.unwrap_or_default()), Json(body_of(scoped, true))).into_response())
}

/// Write a skill. It holds from the next turn on
#[utoipa::path(put, path = "/v1/skills/{name}", tag = "skills", security(("token" = [])),
    params(("name" = String, Path), ScopeQuery, ("If-Match" = Option<String>, Header, description = "The revision you know, in quotes")),
    request_body(content = Object, description = "{document}: the text of SKILL.md"),
    responses((status = 200, body = SkillWritten), (status = 201, body = SkillWritten),
        (status = 412, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub(crate) async fn write(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
    Query(query): Query<ScopeQuery>,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    principal.may(Access::WriteCatalog)?;
    let mut keys = Keys::of(body, &["document"])?;
    let document = keys.text("document")?;
    let document = document.ok_or_else(|| ApiError::Request("a skill needs its document".to_owned()))?;
    let skill = Skill::from_markdown(&name, &document).map_err(ApiError::Skill)?;
    let scope = query.agent.unwrap_or_default();
    if scope != SHARED && state.registry().snapshot().agent(&scope).is_none() {
        return Err(crate::agents::not_found(&scope));
    }
    let written = state.engine.skills().put(&scope, &skill, expectation(&headers)?, &principal.name).await?;
    let (status, result) = write_result(written.kind);
    let body = SkillWritten { name, result, revision: written.revision.0, notes: skill.notes().to_vec() };
    Ok((status, etag(written.revision), Json(body)).into_response())
}

/// Delete a skill
#[utoipa::path(delete, path = "/v1/skills/{name}", tag = "skills", security(("token" = [])),
    params(("name" = String, Path), ScopeQuery, ("If-Match" = Option<String>, Header, description = "The revision you know, in quotes")),
    responses((status = 204), (status = 404, body = ProblemBody), (status = 412, body = ProblemBody)))]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
    Query(query): Query<ScopeQuery>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    principal.may(Access::WriteCatalog)?;
    let scope = query.agent.unwrap_or_default();
    let deleted = state.engine.skills().delete(&scope, &name, expectation(&headers)?, &principal.name).await?;
    deleted.map(|_| StatusCode::NO_CONTENT).ok_or_else(|| not_found(&name))
}

/// List the kept versions of a skill, newest first
#[utoipa::path(get, path = "/v1/skills/{name}/versions", tag = "skills", params(("name" = String, Path), ScopeQuery),
    security(("token" = [])), responses((status = 200, body = SkillVersions), (status = 404, body = ProblemBody)))]
pub(crate) async fn versions(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
    Query(query): Query<ScopeQuery>,
) -> Result<Json<SkillVersions>, ApiError> {
    principal.may(Access::ReadCatalog)?;
    let rows = state.registry().store().skill_versions(query.agent.as_deref().unwrap_or(SHARED), &name).await?;
    if rows.is_empty() {
        return Err(not_found(&name));
    }
    let version = |row: toolcrib_store::SkillVersionRow| SkillVersion {
        version: row.version,
        actor: row.actor,
        created_at: row.created_at,
        document: row.document,
    };
    Ok(Json(SkillVersions { name, versions: rows.into_iter().map(version).collect() }))
}
