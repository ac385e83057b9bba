//! The current era, 2026-07-28: every request stands alone and says what it is in its headers too.

use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use toolcrib_mcp_ingest::decode_param_header;
use toolcrib_registry::LogLevel;

use super::address::Caller;
use super::calls::{Call, Era};
use super::rpc::{RpcError, accepted, is_id, json_response, take_params};
use super::subscriptions;
use crate::state::ApiState;

/// The version of this era.
pub(super) const VERSION: &str = "2026-07-28";
/// The keys of `_meta` that every request has.
pub(super) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
/// How long a client may keep a list, in ms. Every change is told to those who listen, and a list costs
/// next to nothing.
const TTL_MS: u32 = 0;

/// Who this server is.
pub(super) fn server_info() -> Value {
    json!({ "name": "toolcrib", "title": "Toolcrib", "version": env!("CARGO_PKG_VERSION") })
}

/// Answers one message.
pub(super) async fn answer(
    state: ApiState,
    caller: Caller,
    headers: &HeaderMap,
    mut message: Map<String, Value>,
) -> Response {
    let id = message.get("id").cloned().unwrap_or_default();
    let method = match message.get("method") {
        Some(Value::String(method)) => method.clone(),
        _ => return RpcError::request("a message has a method").response(&id),
    };
    if id.is_null() {
        return accepted();
    }
    if !is_id(&id) {
        return RpcError::request("an id is a number, or a string of at most 256 bytes").response(&Value::Null);
    }
    let params = match take_params(&mut message) {
        Ok(params) => params,
        Err(error) => return error.response(&id),
    };
    if let Err(error) = check(headers, &method, &params) {
        return error.response(&id);
    }
    match method.as_str() {
        "server/discover" => {
            let inside = format!(
                "\"resultType\":\"complete\",\"supportedVersions\":[\"{VERSION}\"],\
                 \"capabilities\":{{\"tools\":{{\"listChanged\":true}},\"logging\":{{}}}},{}",
                common()
            );
            object(&id, &inside)
        }
        "tools/list" => match caller.list(&state).and_then(|list| list.page(params.get("cursor"))) {
            Ok(page) => object(&id, &format!("\"resultType\":\"complete\",{page},{}", common())),
            Err(error) => error.response(&id),
        },
        "tools/call" => {
            let meta = params.get("_meta").cloned().unwrap_or_default();
            let level = meta.get(META_LOG_LEVEL).and_then(Value::as_str).and_then(LogLevel::named);
            let capabilities = meta.get(META_CAPABILITIES).cloned().unwrap_or_default();
            let era = Era { is_current: true, level, capabilities };
            match Call::read(&state, &caller, era, &id, &params) {
                Ok(call) => call.run(state, caller, CancellationToken::new(), None).await,
                Err(error) => error.response(&id),
            }
        }
        "subscriptions/listen" => subscriptions::listen(state, caller, id, &params),
        other => RpcError::method(other).response(&id),
    }
}

/// What the results of lists have in common.
fn common() -> String {
    format!("\"ttlMs\":{TTL_MS},\"cacheScope\":\"private\",\"_meta\":{{\"{META_SERVER}\":{}}}", server_info())
}

fn object(id: &Value, inside: &str) -> Response {
    json_response(StatusCode::OK, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{{inside}}}}}"))
}

/// Holds the headers against the body, in the order that the errors of the specification follow from.
fn check(headers: &HeaderMap, method: &str, params: &Map<String, Value>) -> Result<(), RpcError> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let Some(version) = header("mcp-protocol-version") else {
        return Err(RpcError::header("the header MCP-Protocol-Version is missing"));
    };
    let meta = params.get("_meta").and_then(Value::as_object);
    let said = meta.and_then(|meta| meta.get(META_VERSION)).and_then(Value::as_str);
    let Some(said) = said else {
        return Err(RpcError::params(format!("_meta has to say {META_VERSION}")));
    };
    if !meta.and_then(|meta| meta.get(META_CAPABILITIES)).is_some_and(Value::is_object) {
        return Err(RpcError::params(format!("_meta has to say {META_CAPABILITIES}, if only {{}}")));
    }
    if said != version {
        return Err(RpcError::header("MCP-Protocol-Version and _meta name different versions"));
    }
    if version != VERSION {
        let message = format!("the version {VERSION} is spoken here");
        let data = json!({ "supported": [VERSION], "requested": version });
        return Err(RpcError::new(StatusCode::BAD_REQUEST, -32022, message).with_data(data));
    }
    if header("mcp-method") != Some(method) {
        return Err(RpcError::header("Mcp-Method does not name the method of the body"));
    }
    if method == "tools/call" {
        let name = params.get("name").and_then(Value::as_str);
        let told = header("mcp-name").and_then(decode_param_header);
        if told.is_none() || told.as_deref() != name {
            return Err(RpcError::header("Mcp-Name does not name the tool of the body"));
        }
    }
    Ok(())
}
