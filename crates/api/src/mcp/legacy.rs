//! The legacy era: 2025-11-25 and before. A handshake that nothing depends on, and no session.

use axum::response::Response;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use toolcrib_registry::LogLevel;

use super::address::Caller;
use super::calls::{Call, Era};
use super::current::server_info;
use super::parts::Running;
use super::rpc::{RpcError, accepted, is_id, json_response, result, take_params};
use crate::state::ApiState;

/// The versions that are spoken, newest first.
pub(super) const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

/// Answers one message.
pub(super) async fn answer(
    state: ApiState,
    caller: Caller,
    headers: &HeaderMap,
    mut message: Map<String, Value>,
) -> Response {
    let id = message.get("id").cloned().unwrap_or_default();
    let Some(Value::String(method)) = message.get("method").cloned() else {
        // No method: the reply to a question of ours.
        state.mcp_parts.questions.answer(&caller.key, &Value::Object(message));
        return accepted();
    };
    let params = match take_params(&mut message) {
        Ok(params) => params,
        Err(error) => return error.response(&id),
    };
    if let Some(version) = headers.get("mcp-protocol-version").filter(|_| method != "initialize") {
        let known = version.to_str().is_ok_and(|version| VERSIONS.contains(&version));
        if !known {
            let message = format!("MCP-Protocol-Version is one of {}", VERSIONS.join(", "));
            return RpcError::request(message).response(&id);
        }
    }
    if id.is_null() {
        if method == "notifications/cancelled" {
            state.mcp_parts.cancel(&caller.key, &id_text(params.get("requestId").unwrap_or(&Value::Null)));
        }
        return accepted();
    }
    if !is_id(&id) {
        return RpcError::request("an id is a number, or a string of at most 256 bytes").response(&Value::Null);
    }
    match handle(&state, &caller, &method, &id, &params) {
        Ok(Handled::Text(text)) => {
            let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{{text}}}}}");
            json_response(StatusCode::OK, body)
        }
        Ok(Handled::Value(value)) => json_response(StatusCode::OK, result(&id, value).to_string()),
        Ok(Handled::Call(call)) => {
            let cancellation = CancellationToken::new();
            let running = Running::begin(&state, &caller.key, &id_text(&id), cancellation.clone());
            call.run(state, caller, cancellation, Some(running)).await
        }
        // In this era a JSON-RPC error is an answer like any other.
        Err(error) => RpcError { status: StatusCode::OK, ..error }.response(&id),
    }
}

enum Handled {
    Value(Value),
    /// The inside of an object, written out already.
    Text(String),
    Call(Box<Call>),
}

fn handle(
    state: &ApiState,
    caller: &Caller,
    method: &str,
    id: &Value,
    params: &Map<String, Value>,
) -> Result<Handled, RpcError> {
    Ok(match method {
        "initialize" => {
            let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
            let version = VERSIONS.into_iter().find(|version| *version == asked).unwrap_or(VERSIONS[0]);
            Handled::Value(json!({
                "protocolVersion": version,
                "capabilities": { "tools": { "listChanged": true }, "logging": {} },
                "serverInfo": server_info(),
            }))
        }
        "ping" => Handled::Value(json!({})),
        "logging/setLevel" => {
            let level = params.get("level").and_then(Value::as_str).and_then(LogLevel::named);
            let level = level.ok_or_else(|| {
                RpcError::params("level is debug, info, notice, warning, error, critical, alert or emergency")
            })?;
            state.mcp_parts.set_level(caller.key.clone(), level);
            Handled::Value(json!({}))
        }
        "tools/list" => Handled::Text(caller.list(state)?.page(params.get("cursor"))?),
        "tools/call" => {
            let era = Era {
                is_current: false,
                level: Some(state.mcp_parts.level(&caller.key)),
                // Without a session nobody knows what a client declared; one that can't answer says so.
                capabilities: json!({ "elicitation": {}, "sampling": {}, "roots": {} }),
            };
            Handled::Call(Box::new(Call::read(state, caller, era, id, params)?))
        }
        other => return Err(RpcError::method(other)),
    })
}

fn id_text(id: &Value) -> String {
    id.to_string()
}
