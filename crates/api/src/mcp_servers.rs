//! MCP servers: list, read, write, delete, and the `mcpServers` document of desktop clients.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::Value;
use toolcrib_mcp_ingest::{McpServer, RefusedServer, ServersImport, read_servers, write_servers};
use toolcrib_store::{Expect, McpServerRow, Revision};
use utoipa::ToSchema;

use crate::auth::{Access, Principal};
use crate::body::{JsonBody, name_after_path};
use crate::extract::Path;
use crate::ingestion::{self, ServerState};
use crate::problem::{ApiError, ProblemBody};
use crate::revision::{etag, expectation, write_result};
use crate::state::ApiState;

/// All MCP servers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServerList {
    servers: Vec<ServerBody>,
}

/// An MCP server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServerBody {
    name: String,
    revision: i64,
    /// The server as it was written, with every default.
    #[schema(value_type = Object)]
    server: Value,
    /// What the last look at it found; of changes that wait, the names.
    #[schema(value_type = Object)]
    state: Value,
}

/// What a write did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServerWritten {
    name: String,
    /// `created`, `updated` or `unchanged`.
    result: &'static str,
    revision: i64,
    /// What will fail later.
    warnings: Vec<String>,
}

/// What an `mcpServers` document gave.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServersImported {
    /// The servers that were written.
    written: Vec<ServerWritten>,
    /// Those that were not, with the reason.
    #[schema(value_type = Vec<Object>)]
    refused: Vec<RefusedServer>,
    /// Secrets to set in the environment: their values were dropped.
    secrets: Vec<String>,
}

pub(crate) fn not_found(name: &str) -> ApiError {
    ApiError::NotFound { what: "MCP server", name: name.to_owned() }
}

/// A stored server, read.
pub(crate) fn server_of(row: &McpServerRow) -> Result<McpServer, ApiError> {
    let broken = |reason: String| ApiError::Upstream {
        code: "mcp.row",
        message: format!("the row of the MCP server {} can't be read: {reason}; write it anew", row.name),
    };
    let value = serde_json::from_str(&row.server).map_err(|error| broken(error.to_string()))?;
    McpServer::from_value(&value).map_err(|problems| broken(problems.to_string()))
}

fn body_of(row: &McpServerRow) -> ServerBody {
    ServerBody {
        name: row.name.clone(),
        revision: row.revision,
        server: serde_json::from_str(&row.server).unwrap_or_default(),
        state: ServerState::of(row).summary(),
    }
}

/// List MCP servers
#[utoipa::path(get, path = "/v1/mcp/servers", tag = "mcp", security(("token" = [])),
    responses((status = 200, body = ServerList)))]
pub(crate) async fn list(State(state): State<ApiState>, principal: Principal) -> Result<Json<ServerList>, ApiError> {
    principal.may(Access::ReadCatalog)?;
    let rows = state.registry().store().mcp_servers().await?;
    Ok(Json(ServerList { servers: rows.iter().map(body_of).collect() }))
}

/// Read an MCP server
#[utoipa::path(get, path = "/v1/mcp/servers/{name}", tag = "mcp", params(("name" = String, Path)), security(("token" = [])),
    responses((status = 200, body = ServerBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn read(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    principal.may(Access::ReadCatalog)?;
    let row = state.registry().store().mcp_server(&name).await?.ok_or_else(|| not_found(&name))?;
    Ok((etag(Revision(row.revision)), Json(body_of(&row))).into_response())
}

/// Write an MCP server. Its tools come with the next ingestion
#[utoipa::path(put, path = "/v1/mcp/servers/{name}", tag = "mcp", security(("token" = [])),
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "The revision you know, in quotes")),
    request_body(content = Object, description = "{url, transport, headers, enabled, hold, trust_annotations, timeout}"),
    responses((status = 200, body = ServerWritten), (status = 201, body = ServerWritten),
        (status = 412, body = ProblemBody), (status = 422, body = ProblemBody)))]
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
    let server = McpServer::from_value(&body).map_err(ApiError::Definition)?;
    let (status, written) = put(&state, &server, expect, &principal.name).await?;
    Ok((status, etag(Revision(written.revision)), Json(written)).into_response())
}

async fn put(
    state: &ApiState,
    server: &McpServer,
    expect: Expect,
    actor: &str,
) -> Result<(StatusCode, ServerWritten), ApiError> {
    let _writing = state.ingesting.lock().await;
    let store = state.registry().store();
    let written = store.put_mcp_server(&server.name, &server.to_json().to_string(), expect).await?;
    ingestion::switch(state, server, actor).await?;
    let (status, result) = write_result(written.kind);
    let warnings = ingestion::forecast(state, server);
    Ok((status, ServerWritten { name: server.name.clone(), result, revision: written.revision.0, warnings }))
}

/// Delete an MCP server and all its tools. Their versions stay
#[utoipa::path(delete, path = "/v1/mcp/servers/{name}", tag = "mcp", security(("token" = [])),
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "The revision you know, in quotes")),
    responses((status = 204), (status = 404, body = ProblemBody), (status = 412, body = ProblemBody)))]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    principal.may(Access::WriteCatalog)?;
    let expect = expectation(&headers)?;
    let _writing = state.ingesting.lock().await;
    let store = state.registry().store();
    let row = store.mcp_server(&name).await?.ok_or_else(|| not_found(&name))?;
    // The row goes last, so that a delete that fails half way can be made again. The precondition is held
    // against it before anything goes.
    store.put_mcp_server(&name, &row.server, expect).await?;
    for (tool, _) in ingestion::rows_of(&state, &name) {
        state.registry().delete_tool(tool.name.as_str(), Expect::Anything).await?;
    }
    store.delete_mcp_server(&name, Expect::Anything).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Import the mcpServers document of a desktop client. Secrets become references
#[utoipa::path(post, path = "/v1/mcp/import", tag = "mcp", security(("token" = [])),
    request_body(content = Object, description = "{mcpServers: {name: {url, type, headers}}}"),
    responses((status = 200, body = ServersImported), (status = 400, body = ProblemBody)))]
pub(crate) async fn import(
    State(state): State<ApiState>,
    principal: Principal,
    JsonBody(body): JsonBody,
) -> Result<Json<ServersImported>, ApiError> {
    principal.may(Access::WriteCatalog)?;
    let ServersImport { servers, refused, secrets } = read_servers(&body).map_err(ApiError::Request)?;
    let mut written = Vec::with_capacity(servers.len());
    for server in servers {
        // What the document can't say stays as it is.
        let known = state.registry().store().mcp_server(&server.name).await?;
        let server = match known.map(|row| server_of(&row)) {
            Some(Ok(known)) => McpServer {
                prefix: known.prefix,
                hold: known.hold,
                trust_annotations: known.trust_annotations,
                timeout: known.timeout,
                ..server
            },
            _ => server,
        };
        written.push(put(&state, &server, Expect::Anything, &principal.name).await?.1);
    }
    Ok(Json(ServersImported { written, refused, secrets }))
}

/// Export the servers as the mcpServers document of a desktop client
#[utoipa::path(get, path = "/v1/mcp/export", tag = "mcp", security(("token" = [])),
    responses((status = 200, body = Object)))]
pub(crate) async fn export(State(state): State<ApiState>, principal: Principal) -> Result<Json<Value>, ApiError> {
    principal.may(Access::ReadCatalog)?;
    let rows = state.registry().store().mcp_servers().await?;
    let servers: Vec<McpServer> = rows.iter().map(server_of).collect::<Result<_, _>>()?;
    Ok(Json(write_servers(&servers)))
}
