//! What a server may ask or tell its client while a request runs.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

/// Answers what MCP servers ask. The default declares no capability and answers nothing but `ping`.
#[async_trait]
pub trait ClientHandler: Send + Sync {
    /// The client capabilities that are declared, as MCP writes them.
    fn capabilities(&self) -> Value {
        Value::Object(Map::new())
    }

    /// Answers a request of the server, such as `elicitation/create`; none when it can't be answered.
    async fn answer(&self, _method: &str, _params: &Value) -> Option<Value> {
        None
    }

    /// Is told what the server tells while a request runs.
    fn notified(&self, _method: &str, _params: &Value) {}
}

/// Declares nothing and answers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCapabilities;

impl ClientHandler for NoCapabilities {}

/// The reply to a request of the server, as JSON-RPC.
pub(crate) async fn reply(handler: &dyn ClientHandler, id: &Value, method: &str, params: &Value) -> Value {
    let result = match method {
        "ping" => Some(json!({})),
        _ => handler.answer(method, params).await,
    };
    match result {
        Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        None => json!({
            "jsonrpc": "2.0",
            "id": id,
            "error": { "code": -32601, "message": format!("this client does not answer {method}") },
        }),
    }
}
