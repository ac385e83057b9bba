//! A small HTTP API: each tool is an address, with the answer that the scenario gives it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// What a tool answers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub delay_ms: u64,
}

impl Default for Answer {
    fn default() -> Self {
        Self { status: 200, body: serde_json::json!({"ok": true}), delay_ms: 0 }
    }
}

#[derive(Clone)]
pub struct Upstream {
    pub address: SocketAddr,
    answers: Arc<Mutex<BTreeMap<String, Answer>>>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    pub async fn start(tasks: &mut JoinSet<()>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let upstream = Self { address, answers: Arc::default(), calls: Arc::default() };
        let router = Router::new().fallback(answer).with_state(upstream.clone());
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        upstream
    }

    pub fn set(&self, tool: &str, answer: Answer) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.to_owned(), answer);
    }

    /// The calls that came, as `METHOD tool body`.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn answer(State(upstream): State<Upstream>, method: Method, uri: Uri, body: Bytes) -> Response {
    let tool = uri.path().trim_start_matches('/').to_owned();
    let line = match body.is_empty() {
        true => format!("{method} {}", uri.path_and_query().map_or("", |path| path.as_str())),
        false => format!("{method} {} {}", uri.path(), String::from_utf8_lossy(&body)),
    };
    upstream.calls.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    let answer = upstream.answers.lock().unwrap_or_else(PoisonError::into_inner).get(&tool).cloned();
    let Some(Answer { status, body, delay_ms }) = answer else { return StatusCode::NOT_FOUND.into_response() };
    tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
}
