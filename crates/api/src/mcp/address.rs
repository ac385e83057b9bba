//! The addresses of the MCP server, and who may use them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use toolcrib_definition::{Ctx, CtxField};
use toolcrib_registry::Agent;

use super::parts::CallerKey;
use super::rpc::RpcError;
use super::tools::List;
use super::{current, legacy, subscriptions};
use crate::agents::not_found;
use crate::auth::{Access, Principal};
use crate::body::JsonBody;
use crate::calls::check_ctx;
use crate::extract::Path;
use crate::loopback;
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// The path of the metadata of protected resources (RFC 9728).
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";
/// The longest value of a context header, in bytes.
const MAX_CTX: usize = 4_096;

/// Who asks, and for which agent.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) agent_id: String,
    pub(super) agent: Arc<Agent>,
    pub(super) key: CallerKey,
    /// The name of the token's holder.
    pub(super) name: String,
    pub(super) ctx: Ctx,
    /// Whether an answer may be a stream.
    pub(super) takes_stream: bool,
}

impl Caller {
    /// The agent's tools as they are now.
    pub(super) fn list(&self, state: &ApiState) -> Result<Arc<List>, RpcError> {
        let list = state.mcp_parts.lists.list(&state.registry().snapshot(), &self.agent_id);
        list.ok_or_else(|| RpcError::params("there is no such agent any more"))
    }
}

/// Send a message to the MCP server of an agent
///
/// Streamable HTTP of MCP, in the current era (2026-07-28) and the legacy ones (2025-03-26 to 2025-11-25). The turn
/// context comes in headers: `Toolcrib-Ctx-Chat-Id` and so on.
#[utoipa::path(post, path = "/v1/agents/{id}/mcp", tag = "mcp", params(("id" = String, Path)), security(("token" = [])),
    request_body(content = Object, description = "A JSON-RPC message of MCP"),
    responses((status = 200, body = Object, description = "A JSON-RPC answer, or a stream of messages"),
        (status = 202, description = "A notification was taken"), (status = 400, body = Object),
        (status = 401, body = ProblemBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn post(State(state): State<ApiState>, Path(id): Path<String>, request: Request) -> Response {
    let headers = request.headers().clone();
    let principal = request.extensions().get::<Principal>().cloned();
    let caller = match admit(&state, &id, principal.as_ref(), &headers) {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    let body = match JsonBody::from_request(request, &state).await {
        Ok(JsonBody(body)) => body,
        Err(ApiError::Json(error)) => {
            let message = format!("the body is {error}");
            return RpcError::new(StatusCode::BAD_REQUEST, -32700, message).response(&Value::Null);
        }
        Err(error) => return error.into_response(),
    };
    let Value::Object(message) = body else {
        return RpcError::request("a body is one message, and no batch").response(&Value::Null);
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        let id = message.get("id").cloned().unwrap_or_default();
        return RpcError::request("jsonrpc is \"2.0\"").response(&id);
    }
    if is_current(&headers, &message) {
        current::answer(state, caller, &headers, message).await
    } else {
        legacy::answer(state, caller, &headers, message).await
    }
}

/// Follow the changes of an agent's tools, as a legacy MCP client does
#[utoipa::path(get, path = "/v1/agents/{id}/mcp", tag = "mcp", params(("id" = String, Path)), security(("token" = [])),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 401, body = ProblemBody),
        (status = 405, body = ProblemBody, description = "The current era has no such stream")))]
pub(crate) async fn get(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    principal: Option<axum::Extension<Principal>>,
    headers: HeaderMap,
) -> Response {
    let principal = principal.map(|axum::Extension(principal)| principal);
    let caller = match admit(&state, &id, principal.as_ref(), &headers) {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    let version = headers.get("mcp-protocol-version").and_then(|value| value.to_str().ok());
    if version == Some(current::VERSION) || !caller.takes_stream {
        return ApiError::Method("GET without text/event-stream".to_owned()).into_response();
    }
    subscriptions::legacy(state, caller)
}

/// Where tokens for an address come from (RFC 9728).
pub(crate) async fn metadata(headers: HeaderMap, uri: http::Uri) -> Response {
    let path = uri.path().strip_prefix(METADATA).unwrap_or_default();
    Json(json!({
        "resource": format!("{}{path}", base(&headers)),
        "resource_name": "Toolcrib",
        "bearer_methods_supported": ["header"],
    }))
    .into_response()
}

/// A message of the current era says so itself; a version that is no legacy one is taken for a newer one.
fn is_current(headers: &HeaderMap, message: &Map<String, Value>) -> bool {
    let meta = message.get("params").and_then(|params| params.get("_meta"));
    if meta.and_then(|meta| meta.get(current::META_VERSION)).is_some() {
        return true;
    }
    let version = headers.get("mcp-protocol-version").map(|value| value.to_str().unwrap_or_default());
    let is_handshake = message.get("method").and_then(Value::as_str) == Some("initialize");
    let is_legacy = |version: &str| legacy::VERSIONS.contains(&version) || version < "2026";
    version.is_some_and(|version| !is_handshake && !is_legacy(version))
}

fn admit(
    state: &ApiState,
    id: &str,
    principal: Option<&Principal>,
    headers: &HeaderMap,
) -> Result<Caller, Box<Response>> {
    let refuse = |error: ApiError| Box::new(error.into_response());
    check_origin(headers).map_err(refuse)?;
    let Some(principal) = principal else {
        let error = if headers.contains_key("authorization") { ApiError::TokenInvalid } else { ApiError::TokenMissing };
        let mut response = error.into_response();
        let challenge = format!("Bearer resource_metadata=\"{}{METADATA}/v1/agents/{id}/mcp\"", base(headers));
        if let Ok(challenge) = HeaderValue::from_str(&challenge) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        return Err(Box::new(response));
    };
    principal.may(Access::Call).and_then(|()| principal.may_use_agent(id)).map_err(refuse)?;
    let snapshot = state.registry().snapshot();
    let agent = snapshot.agent(id).ok_or_else(|| refuse(not_found(id)))?;
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let takes_stream = accepts.flat_map(|text| text.split(',')).any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("text/event-stream")
    });
    Ok(Caller {
        agent_id: id.to_owned(),
        agent: Arc::clone(agent),
        key: (principal.token_id.clone(), id.to_owned()),
        name: principal.name.clone(),
        ctx: ctx_of(headers).map_err(refuse)?,
        takes_stream,
    })
}

/// The turn context of the headers, which the caller sets and never the model.
fn ctx_of(headers: &HeaderMap) -> Result<Ctx, ApiError> {
    let mut ctx = Ctx::default();
    for field in CtxField::ALL {
        let name = format!("toolcrib-ctx-{}", field.as_str().replace('_', "-"));
        let Some(value) = headers.get(&name) else { continue };
        match value.to_str() {
            Ok(text) if text.len() <= MAX_CTX => ctx = ctx.with(field, text),
            _ => return Err(ApiError::Request(format!("{name} is text of at most {MAX_CTX} bytes"))),
        }
    }
    check_ctx(&ctx)?;
    Ok(ctx)
}

/// A page of another origin may not use the endpoint, whatever the server listens on.
fn check_origin(headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("unreadable"));
    let Some(origin) = text(ORIGIN) else { return Ok(()) };
    let host = text(HOST).unwrap_or_default();
    let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
    if authority.eq_ignore_ascii_case(host) || (loopback::is_loopback(authority) && loopback::is_loopback(host)) {
        Ok(())
    } else {
        Err(ApiError::Origin(origin.to_owned()))
    }
}

/// The beginning of our addresses as the caller sees them.
fn base(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or("localhost");
    let scheme = headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok());
    let default = if loopback::is_loopback(host) { "http" } else { "https" };
    format!("{}://{host}", scheme.filter(|scheme| matches!(*scheme, "http" | "https")).unwrap_or(default))
}
