//! The kept versions of a tool.

use axum::Json;
use axum::extract::State;

use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use toolcrib_definition::{Definition, json};
use toolcrib_store::{Expect, VersionRow};
use utoipa::ToSchema;

use crate::auth::{Access, Principal};
use crate::extract::Path;
use crate::problem::{ApiError, ProblemBody};
use crate::revision::etag;
use crate::state::ApiState;
use crate::tools::not_found;

/// The versions of a tool, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VersionList {
    name: String,
    versions: Vec<VersionBody>,
}

/// A version of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VersionBody {
    version: i64,
    /// The name of the token that wrote it.
    actor: String,
    /// ms since 1970.
    created_at: i64,
    /// The stored form; null when it can't be read as JSON.
    #[schema(value_type = Object)]
    definition: Value,
    /// Why `definition` is null, when the stored text can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// What a restore did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Restored {
    name: String,
    /// The version that was restored.
    version: i64,
    /// The revision of the tool now.
    revision: i64,
}

fn version_body(row: VersionRow) -> VersionBody {
    // One that can't be read hides neither itself nor the others.
    let (definition, problem) = match json::parse(row.definition.as_bytes()) {
        Ok(definition) => (definition, None),
        Err(error) => (Value::Null, Some(format!("the stored text can't be read: {error}"))),
    };
    VersionBody { version: row.version, actor: row.actor, created_at: row.created_at, definition, problem }
}

/// List the versions of a tool, also of one that was deleted
#[utoipa::path(get, path = "/v1/tools/{name}/versions", tag = "tools", params(("name" = String, Path)),
    security(("token" = [])), responses((status = 200, body = VersionList), (status = 404, body = ProblemBody)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Json<VersionList>, ApiError> {
    principal.may(Access::ReadCatalog)?;
    let rows = state.registry().store().tool_versions(&name).await?;
    if rows.is_empty() {
        return Err(not_found(&name));
    }
    Ok(Json(VersionList { name, versions: rows.into_iter().map(version_body).collect() }))
}

/// Make a version the current one again
#[utoipa::path(post, path = "/v1/tools/{name}/versions/{version}/restore", tag = "tools", security(("token" = [])),
    params(("name" = String, Path), ("version" = i64, Path)),
    responses((status = 200, body = Restored), (status = 404, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub(crate) async fn restore(
    State(state): State<ApiState>,
    principal: Principal,
    Path((name, version)): Path<(String, i64)>,
) -> Result<Response, ApiError> {
    principal.may(Access::WriteCatalog)?;
    let missing = || ApiError::NotFound { what: "version", name: format!("{name} {version}") };
    let row = state.registry().store().tool_version(&name, version).await?.ok_or_else(missing)?;
    // An old version meets today's rules like any other write.
    let definition = Definition::from_json(row.definition.as_bytes()).map_err(ApiError::Definition)?;
    let written = state.registry().put_tool(&definition, Expect::Anything, &principal.name).await?;
    Ok((etag(written.revision), Json(Restored { name, version, revision: written.revision.0 })).into_response())
}
