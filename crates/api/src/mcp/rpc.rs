//! JSON-RPC answers of the MCP server.

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Map, Value, json};

/// A JSON-RPC error with the HTTP status that carries it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RpcError {
    pub(super) status: StatusCode,
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

impl RpcError {
    pub(super) fn new(status: StatusCode, code: i64, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), data: None }
    }

    /// -32602: the parameters are not what the method takes.
    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, -32602, message)
    }

    /// -32601: there is no such method.
    pub(super) fn method(method: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, -32601, format!("there is no method {method:?} here"))
    }

    /// -32600: the message is no request.
    pub(super) fn request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, -32600, message)
    }

    /// -32020: a header and the body say different things.
    pub(super) fn header(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, -32020, message)
    }

    pub(super) fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// The error as a message.
    pub(super) fn message(&self, id: &Value) -> Value {
        let mut error = Map::new();
        error.insert("code".into(), self.code.into());
        error.insert("message".into(), self.message.as_str().into());
        if let Some(data) = &self.data {
            error.insert("data".into(), data.clone());
        }
        let mut out = Map::new();
        out.insert("jsonrpc".into(), "2.0".into());
        // An id that is not known is left out: null is no id of MCP.
        if !id.is_null() {
            out.insert("id".into(), id.clone());
        }
        out.insert("error".into(), Value::Object(error));
        Value::Object(out)
    }

    pub(super) fn response(&self, id: &Value) -> Response {
        json_response(self.status, self.message(id).to_string())
    }
}

/// Takes the parameters out of a message: an object, which may be left out.
pub(super) fn take_params(message: &mut Map<String, Value>) -> Result<Map<String, Value>, RpcError> {
    match message.shift_remove("params") {
        Some(Value::Object(params)) => Ok(params),
        None | Some(Value::Null) => Ok(Map::new()),
        Some(_) => Err(RpcError::params("params is an object")),
    }
}

/// Whether a value can be the id of a request.
pub(super) fn is_id(id: &Value) -> bool {
    match id {
        Value::String(text) => text.len() <= 256,
        Value::Number(number) => number.as_str().len() <= 256,
        _ => false,
    }
}

/// A result as a message.
pub(super) fn result(id: &Value, result: Value) -> Value {
    let mut out = Map::new();
    out.insert("jsonrpc".into(), "2.0".into());
    out.insert("id".into(), id.clone());
    out.insert("result".into(), result);
    Value::Object(out)
}

/// A notification as a message.
pub(super) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

pub(super) fn json_response(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// 202 without a body: the message was taken.
pub(super) fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}
