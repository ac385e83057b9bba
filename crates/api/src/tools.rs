//! Tools: list, read, write, delete.

use axum::Json;
use axum::extract::State;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_definition::{Definition, ProviderFormat};
use toolcrib_registry::Entry;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Access, Principal};
use crate::body::{JsonBody, name_after_path};
use crate::catalog_page::{CatalogPage, Wanted};
use crate::extract::{Path, Query};
use crate::forecast::warnings_for;
use crate::problem::{ApiError, ProblemBody};
use crate::revision::{etag, expectation, write_result};
use crate::state::ApiState;
use crate::traces::FLUSH;

/// Agents that are named with a tool.
const MAX_AGENTS: usize = 100;
/// How far back the use of a tool is counted, in ms.
const DAY_MS: i64 = 24 * 3600 * 1000;

/// Which tools are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolQuery {
    /// Words to search for; the best come first, and there is no next page
    q: Option<String>,
    /// Only tools of this group
    group: Option<String>,
    /// Only tools with this tag
    tag: Option<String>,
    /// The order: name (when left out), group, origin, or updated, the last written first
    sort: Option<String>,
    /// Whether each tool says how it was used of late; false when left out
    usage: Option<bool>,
    /// The `next` of the page before
    after: Option<String>,
    /// How many at the most, 1 to 500; 100 when left out
    limit: Option<u32>,
}

/// A part of the list of tools.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolList {
    tools: Vec<ToolSummary>,
    /// How many tools there are in all.
    total: usize,
    /// Give this as `after` to get the next part.
    next: Option<String>,
}

/// A tool in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolSummary {
    name: String,
    description: String,
    /// `code` or `data`.
    origin: &'static str,
    group: Option<String>,
    tags: Vec<String>,
    method: Option<&'static str>,
    /// `idempotent`, `at_most_once` or `transactional`.
    effect: &'static str,
    revision: Option<i64>,
    version: Option<i64>,
    /// ms since 1970.
    updated_at: Option<i64>,
    /// How it was used of late, when that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageBody>,
}

/// How a tool was used, and by whom it can be.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UsageBody {
    /// When its last call began, in ms since 1970.
    last_call: Option<i64>,
    /// Its calls of the last day.
    calls: i64,
    /// Those of them that ended as `error`.
    errors: i64,
    /// How many agents may use it.
    agents: usize,
}

/// A tool with its whole definition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolBody {
    name: String,
    origin: &'static str,
    revision: Option<i64>,
    version: Option<i64>,
    /// ms since 1970.
    updated_at: Option<i64>,
    /// The stored form; none for a code tool.
    #[schema(value_type = Option<Object>)]
    definition: Option<Value>,
    /// What a provider is told, in MCP's format.
    #[schema(value_type = Object)]
    shown: Value,
    /// What will fail later although the definition is sound.
    warnings: Vec<String>,
    /// The agents that may use it, at most a hundred.
    agents: Vec<String>,
}

/// What a write did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolWritten {
    name: String,
    /// `created`, `updated` or `unchanged`.
    result: &'static str,
    revision: i64,
    /// What will fail later although the definition is sound.
    warnings: Vec<String>,
}

pub(crate) fn summary(entry: &Entry) -> ToolSummary {
    let data = entry.as_data();
    ToolSummary {
        name: entry.name().to_owned(),
        description: entry.view().map(|view| view.description.to_owned()).unwrap_or_default(),
        origin: entry.origin().as_str(),
        group: entry.group().map(str::to_owned),
        tags: entry.tags().map(str::to_owned).collect(),
        method: data.map(|definition| definition.request.method.as_str()),
        effect: entry.effect().as_str(),
        revision: entry.revision().map(|revision| revision.0),
        version: entry.version(),
        updated_at: entry.updated_at(),
        usage: None,
    }
}

pub(crate) fn not_found(name: &str) -> ApiError {
    ApiError::NotFound { what: "tool", name: name.to_owned() }
}

/// List tools, or search them
#[utoipa::path(get, path = "/v1/tools", tag = "tools", params(ToolQuery), security(("token" = [])),
    responses((status = 200, body = ToolList), (status = 403, body = ProblemBody)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    principal: Principal,
    Query(query): Query<ToolQuery>,
) -> Result<Json<ToolList>, ApiError> {
    principal.may(Access::ReadCatalog)?;
    let most = query.limit.unwrap_or(100).clamp(1, 500) as usize;
    let snapshot = state.registry().snapshot();
    let fits = |entry: &Entry| {
        let tagged = |tag: &String| entry.tags().any(|known| known == tag);
        query.group.as_deref().is_none_or(|group| entry.group() == Some(group)) && query.tag.as_ref().is_none_or(tagged)
    };
    let total = snapshot.tool_count();
    let wanted = Wanted { words: query.q.as_deref(), sort: query.sort.as_deref(), after: query.after.as_deref(), most };
    let page = CatalogPage::read(state.registry(), &snapshot, &wanted, fits)?;
    let mut tools: Vec<ToolSummary> = page.tools.into_iter().map(|entry| summary(entry)).collect();
    if query.usage.unwrap_or(false) {
        add_usage(&state, &mut tools).await?;
    }
    Ok(Json(ToolList { tools, total, next: page.next }))
}

/// Says of each tool how it was used in the last day, and how many agents may use it.
async fn add_usage(state: &ApiState, tools: &mut [ToolSummary]) -> Result<(), ApiError> {
    let (snapshot, store) = (state.registry().snapshot(), state.registry().store());
    state.executor.recorder().flush(FLUSH).await;
    let names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    let uses = store.tool_use(&names, store.clock().now_ms() - DAY_MS).await?;
    for tool in tools {
        let used = uses.iter().find(|used| used.tool == tool.name);
        let entry = snapshot.tool(&tool.name);
        let agents = snapshot.agents().filter(|(_, agent)| entry.is_some_and(|entry| agent.allows(entry))).count();
        tool.usage = Some(UsageBody {
            last_call: used.map(|used| used.last_call),
            calls: used.map_or(0, |used| used.calls),
            errors: used.map_or(0, |used| used.errors),
            agents,
        });
    }
    Ok(())
}

/// Read a tool
#[utoipa::path(get, path = "/v1/tools/{name}", tag = "tools", params(("name" = String, Path)), security(("token" = [])),
    responses((status = 200, body = ToolBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn read(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    principal.may(Access::ReadCatalog)?;
    let snapshot = state.registry().snapshot();
    let entry = snapshot.tool(&name).ok_or_else(|| not_found(&name))?;
    let shown = entry.view().and_then(|view| ProviderFormat::Mcp.tool(view).ok()).unwrap_or_default();
    let body = ToolBody {
        name,
        origin: entry.origin().as_str(),
        revision: entry.revision().map(|revision| revision.0),
        version: entry.version(),
        updated_at: entry.updated_at(),
        definition: entry.as_data().map(|definition| definition.to_json()),
        shown,
        warnings: entry.as_data().map(|definition| warnings_for(&state, definition)).unwrap_or_default(),
        agents: snapshot
            .agents()
            .filter(|(id, agent)| principal.sees_agent(id) && agent.allows(entry))
            .map(|(id, _)| id.to_owned())
            .take(MAX_AGENTS)
            .collect(),
    };
    Ok(match entry.revision() {
        Some(revision) => (etag(revision), Json(body)).into_response(),
        None => Json(body).into_response(),
    })
}

/// Write a tool. It is live when this returns
#[utoipa::path(put, path = "/v1/tools/{name}", tag = "tools", security(("token" = [])),
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "The revision you know, in quotes")),
    request_body(content = Object, description = "A definition"),
    responses((status = 200, body = ToolWritten), (status = 201, body = ToolWritten),
        (status = 412, body = ProblemBody, description = "Somebody else wrote first"),
        (status = 422, body = ProblemBody, description = "Every problem of the definition")))]
pub(crate) async fn write(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
    headers: HeaderMap,
    JsonBody(mut body): JsonBody,
) -> Result<Response, ApiError> {
    principal.may(Access::WriteCatalog)?;
    let expect = expectation(&headers)?;
    name_after_path(&mut body, &name)?;
    let definition = Definition::from_value(&body).map_err(ApiError::Definition)?;
    let written = state.registry().put_tool(&definition, expect, &principal.name).await?;
    let (status, result) = write_result(written.kind);
    let warnings = warnings_for(&state, &definition);
    let body = ToolWritten { name, result, revision: written.revision.0, warnings };
    Ok((status, etag(written.revision), Json(body)).into_response())
}

/// Delete a tool. Its versions stay and can be restored
#[utoipa::path(delete, path = "/v1/tools/{name}", tag = "tools", security(("token" = [])),
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "The revision you know, in quotes")),
    responses((status = 204), (status = 404, body = ProblemBody), (status = 412, body = ProblemBody)))]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    principal.may(Access::WriteCatalog)?;
    match state.registry().delete_tool(&name, expectation(&headers)?).await? {
        Some(_) => Ok(StatusCode::NO_CONTENT),
        None => Err(not_found(&name)),
    }
}
