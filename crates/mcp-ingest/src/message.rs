//! JSON-RPC messages of MCP.

use serde_json::{Map, Value, json};
use toolcrib_definition::json::{ReadOptions, read};

use crate::error::McpError;

/// The current era.
pub(crate) const CURRENT: &str = "2026-07-28";
/// The legacy versions that are spoken, newest first.
pub(crate) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// How much of an error message of a server is kept, in characters.
const MAX_MESSAGE: usize = 2_000;

/// What a server sent.
#[derive(Debug)]
pub(crate) enum Received {
    /// A result or an error, with the id of its request.
    Response { id: Value, result: Result<Value, McpError> },
    /// A request of the server.
    Request { id: Value, method: String, params: Value },
    /// A notification.
    Notification { method: String, params: Value },
}

/// Reads one message.
pub(crate) fn receive(text: &[u8]) -> Result<Received, McpError> {
    let value =
        read(text, ReadOptions::for_answers()).map_err(|error| McpError::protocol(format!("a message is {error}")))?;
    let Value::Object(mut map) = value else { return Err(McpError::protocol("a message is no JSON object")) };
    let params = map.shift_remove("params").unwrap_or_else(|| Value::Object(Map::new()));
    let id = map.shift_remove("id").unwrap_or_default();
    match map.shift_remove("method") {
        Some(Value::String(method)) if id.is_null() => return Ok(Received::Notification { method, params }),
        Some(Value::String(method)) => return Ok(Received::Request { id, method, params }),
        _ => {}
    }
    if let Some(error) = map.shift_remove("error").filter(|error| !error.is_null()) {
        return Ok(Received::Response { id, result: Err(rpc_error(&error)) });
    }
    match map.shift_remove("result") {
        Some(result) => Ok(Received::Response { id, result: Ok(result) }),
        None => Err(McpError::protocol("a message is neither request nor result nor error")),
    }
}

fn rpc_error(error: &Value) -> McpError {
    let message = error.get("message").and_then(Value::as_str).unwrap_or("no message");
    McpError::Rpc {
        code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
        message: message.chars().filter(|ch| !ch.is_control()).take(MAX_MESSAGE).collect(),
        data: error.get("data").cloned(),
    }
}

/// A request. In the current era each carries the version and what the client can do.
pub(crate) fn request(id: u64, method: &str, params: &Map<String, Value>) -> Value {
    // Built by hand: the macro would read the numbers of the arguments anew.
    Value::Object(Map::from_iter([
        ("jsonrpc".to_owned(), "2.0".into()),
        ("id".to_owned(), id.into()),
        ("method".to_owned(), method.into()),
        ("params".to_owned(), Value::Object(params.clone())),
    ]))
}

/// A notification.
pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// Who we say we are.
pub(crate) fn client_info() -> Value {
    json!({ "name": "toolcrib", "version": env!("CARGO_PKG_VERSION") })
}

/// Adds to the parameters what every request of the current era has.
pub(crate) fn with_current_meta(mut params: Map<String, Value>, capabilities: &Value) -> Map<String, Value> {
    let meta = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(meta) = meta {
        meta.insert("io.modelcontextprotocol/protocolVersion".into(), CURRENT.into());
        meta.insert("io.modelcontextprotocol/clientInfo".into(), client_info());
        meta.insert("io.modelcontextprotocol/clientCapabilities".into(), capabilities.clone());
    }
    params
}
