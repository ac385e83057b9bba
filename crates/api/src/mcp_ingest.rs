//! The addresses of ingestion: take over, show the difference, accept, ping.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Access, Principal};
use crate::body::{JsonBody, Keys};
use crate::extract::{Path, Query};
use crate::ingestion::{self, IngestBody, accept as accept_changes, endpoint_of, failed};
use crate::mcp_servers::{not_found, server_of};
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// How an ingestion is to be made.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct IngestQuery {
    /// Show what would change, and write nothing; false when left out
    dry_run: Option<bool>,
}

/// What was accepted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AcceptedBody {
    server: String,
    accepted: Vec<String>,
}

/// The server answered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PingBody {
    server: String,
    /// The protocol version that is spoken.
    version: String,
    /// How long the answer took, in ms.
    duration_ms: u64,
}

/// Take over the tools of an MCP server, or show what would change
///
/// Doing it twice changes nothing. A tool that can't be a row is reported and hides no other.
#[utoipa::path(post, path = "/v1/mcp/servers/{name}/ingest", tag = "mcp", params(("name" = String, Path), IngestQuery),
    security(("token" = [])),
    responses((status = 200, body = IngestBody), (status = 404, body = ProblemBody),
        (status = 502, body = ProblemBody, description = "The server can't be looked at")))]
pub(crate) async fn ingest(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
    Query(query): Query<IngestQuery>,
) -> Result<Json<IngestBody>, ApiError> {
    principal.may(Access::WriteCatalog)?;
    Ok(Json(ingestion::ingest(&state, &name, query.dry_run.unwrap_or(false), &principal.name).await?))
}

/// Accept changes that wait, and what was flagged for review: all of them, or {tools: [names]}
///
/// For changes that wait, `mark` says which were looked at: an ingestion and the server's state show it.
#[utoipa::path(post, path = "/v1/mcp/servers/{name}/accept", tag = "mcp", params(("name" = String, Path)),
    security(("token" = [])), request_body(content = Object, description = "{tools, mark}"),
    responses((status = 200, body = AcceptedBody), (status = 404, body = ProblemBody),
        (status = 412, body = ProblemBody, description = "Other changes wait than the mark says")))]
pub(crate) async fn accept(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<AcceptedBody>, ApiError> {
    principal.may(Access::WriteCatalog)?;
    let mut keys = Keys::of(body, &["tools", "mark"])?;
    let mark = keys.text("mark")?;
    let tools = match keys.take("tools") {
        None => None,
        Some(list) => {
            Some(serde_json::from_value(list).map_err(|_| ApiError::Request("tools is a list of names".to_owned()))?)
        }
    };
    let accepted = accept_changes(&state, &name, tools, mark, &principal.name).await?;
    Ok(Json(AcceptedBody { server: name, accepted }))
}

/// Ask whether an MCP server is there
#[utoipa::path(post, path = "/v1/mcp/servers/{name}/ping", tag = "mcp", params(("name" = String, Path)),
    security(("token" = [])),
    responses((status = 200, body = PingBody), (status = 404, body = ProblemBody), (status = 502, body = ProblemBody)))]
pub(crate) async fn ping(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Json<PingBody>, ApiError> {
    principal.may(Access::WriteCatalog)?;
    let row = state.registry().store().mcp_server(&name).await?.ok_or_else(|| not_found(&name))?;
    let endpoint = endpoint_of(&state, &server_of(&row)?)?;
    let started = Instant::now();
    let deadline = started + std::time::Duration::from_secs(30);
    let version = state.mcp.version(&endpoint, deadline).await.map_err(|failure| failed(&failure))?;
    state.mcp.ping(&endpoint, deadline).await.map_err(|failure| failed(&failure))?;
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(Json(PingBody { server: name, version, duration_ms }))
}
