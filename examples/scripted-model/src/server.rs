//! The server.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::script::{Fault, Script, Step};
use crate::wire::Wire;

/// A request that came.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Its address.
    pub path: String,
    /// Its body.
    pub body: Value,
}

/// A model whose answers are written down. Cloning is cheap and is the same model.
#[derive(Clone)]
pub struct ScriptedModel {
    script: Arc<Script>,
    /// How many faults of a step have happened.
    faults: Arc<Mutex<HashMap<(usize, usize), usize>>>,
    requests: Arc<Mutex<Vec<Recorded>>>,
}

impl ScriptedModel {
    /// A model with this script.
    pub fn new(script: Script) -> Self {
        Self { script: Arc::new(script), faults: Arc::default(), requests: Arc::default() }
    }

    /// The requests that came, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves on an address until the future is dropped. `ready` is told the real address.
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn serve(self, address: SocketAddr, ready: impl FnOnce(SocketAddr)) -> io::Result<()> {
        let listener = TcpListener::bind(address).await?;
        ready(listener.local_addr()?);
        axum::serve(listener, Router::new().fallback(answer).with_state(self)).await
    }

    /// The step that comes next in a conversation, with its place.
    fn step(&self, user: &str, answers: usize) -> (Step, (usize, usize)) {
        for (number, turn) in self.script.turns.iter().enumerate() {
            if user.contains(&turn.when) {
                let place = if turn.endless { answers.min(turn.steps.len().saturating_sub(1)) } else { answers };
                let silent = || Step { text: "(the script ends here)".to_owned(), ..Step::default() };
                return (turn.steps.get(place).cloned().unwrap_or_else(silent), (number, place));
            }
        }
        (Step { text: format!("(no script for {user:?})"), ..Step::default() }, (usize::MAX, answers))
    }

    fn next_fault(&self, step: &Step, place: (usize, usize)) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let happened = faults.entry(place).or_default();
        let fault = step.faults.get(*happened).cloned();
        *happened += usize::from(fault.is_some());
        fault
    }
}

async fn answer(State(model): State<ScriptedModel>, uri: Uri, body: Bytes) -> Response {
    let path = uri.path().to_owned();
    if path == "/requests" {
        let all: Vec<Value> = model.requests().into_iter().map(|r| json!({"path": r.path, "body": r.body})).collect();
        return axum::Json(all).into_response();
    }
    let Some(wire) = Wire::of_path(&path) else { return StatusCode::NOT_FOUND.into_response() };
    let Ok(body) = serde_json::from_slice::<Value>(&body) else { return StatusCode::BAD_REQUEST.into_response() };
    model.requests.lock().unwrap_or_else(PoisonError::into_inner).push(Recorded { path, body: body.clone() });
    if let Some(why) = wire.refused(&body) {
        return (StatusCode::BAD_REQUEST, axum::Json(wire.refusal(400, why))).into_response();
    }
    let (user, answers) = wire.conversation(&body).place();
    let (step, place) = model.step(&user, answers);
    tokio::time::sleep(Duration::from_millis(step.delay_ms)).await;
    let mut events = wire.events(&body, &step, answers);
    let mut broken = false;
    match model.next_fault(&step, place) {
        None => {}
        Some(Fault::Status { code, retry_after }) => {
            let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response =
                (status, axum::Json(wire.refusal(code, &format!("the script says {code}")))).into_response();
            if let Some(value) = retry_after.and_then(|text| text.parse().ok()) {
                response.headers_mut().insert("retry-after", value);
            }
            return response;
        }
        Some(Fault::Reset { after }) => {
            events.truncate(after);
            broken = true;
        }
        Some(Fault::End { after }) => events.truncate(after),
        Some(Fault::Garbage {}) => events.insert(1, "data: {no json\n\n".to_owned()),
    }
    let pieces = events.into_iter().map(|event| Ok(Bytes::from(event)));
    let reset = broken.then(|| Err(io::Error::new(io::ErrorKind::ConnectionReset, "the script resets the connection")));
    let body = Body::from_stream(stream::iter(pieces.chain(reset)));
    ([("content-type", "text/event-stream; charset=utf-8")], body).into_response()
}
