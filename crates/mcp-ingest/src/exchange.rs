//! One request over streamable HTTP, to its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Map, Value};
use tokio::time::Instant;
use toolcrib_egress::{Barrier, Completeness, Outbound, Sent, Streamed, Timings};

use crate::client::Inner;
use crate::endpoint::Endpoint;
use crate::error::{McpError, McpFailure};
use crate::events::{events, is_event_stream};
use crate::handler;
use crate::message::{self, CURRENT, Received};
use crate::session::Session;

/// How much of an unexpected body is kept for the operator, in bytes.
const MAX_SHOWN: usize = 500;
/// The longest pause that a server may ask for before its stream is opened again.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// How often a stream that ended without an answer is opened again.
const MAX_RESUMES: usize = 3;

/// Whether a request may be sent again when nobody knows whether it arrived.
#[derive(Clone, Copy)]
pub enum Mode<'a> {
    /// It changes nothing.
    Repeatable,
    /// It may be sent once, on a connection of its own, past this barrier.
    Once(&'a dyn Barrier),
}

impl Mode<'_> {
    /// Whether it may be sent once only.
    pub fn is_once(self) -> bool {
        matches!(self, Mode::Once(_))
    }
}

/// A request under way: where, in which session, how, until when.
pub(crate) struct Exchange<'a> {
    pub(crate) inner: &'a Arc<Inner>,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) session: &'a Session,
    pub(crate) mode: Mode<'a>,
    pub(crate) deadline: Instant,
    /// Is told how far the work is.
    pub(crate) progress: Option<&'a ProgressListener<'a>>,
}

/// Takes the parameters of a progress notification.
pub type ProgressListener<'a> = dyn Fn(&Value) + Send + Sync + 'a;

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) result: Value,
    pub(crate) session_id: Option<HeaderValue>,
    pub(crate) timings: Timings,
}

impl Exchange<'_> {
    /// Sends a request and waits for its answer.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: Map<String, Value>,
        param_headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<Reply, McpFailure> {
        let id = self.inner.next_id.fetch_add(1, Ordering::Relaxed);
        let name = params.get("name").and_then(Value::as_str).map(str::to_owned);
        let mut headers = self.headers()?;
        let mut params = params;
        if self.progress.is_some() {
            let meta = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
            meta["progressToken"] = id.into();
        }
        let params = match self.session {
            Session::Current => {
                let value = |text: &str| HeaderValue::from_str(&crate::param_headers::encode(text));
                let wrong = |_| McpFailure::unsent(McpError::protocol("a name can't be a header"));
                headers.insert(HeaderName::from_static("mcp-method"), value(method).map_err(wrong)?);
                if let Some(name) = name.filter(|_| method == "tools/call") {
                    headers.insert(HeaderName::from_static("mcp-name"), value(&name).map_err(wrong)?);
                }
                headers.extend(param_headers);
                message::with_current_meta(params, &self.inner.handler.capabilities())
            }
            _ => params,
        };
        let mut cancel = Cancel::armed(self, id, method);
        let answer = match self.post(&message::request(id, method, &params), headers).await {
            Ok(answer) => answer,
            Err(failure) => {
                if failure.sent == Sent::Nothing {
                    cancel.disarm();
                }
                return Err(failure);
            }
        };
        let result = self.answer_to(id, answer).await;
        // A server that answered has nothing left to cancel.
        if !matches!(&result, Err(McpFailure { error: McpError::Timeout, .. })) {
            cancel.disarm();
        }
        result
    }

    /// Sends a notification, or the reply to a request of the server.
    pub(crate) async fn notify(&self, message: &Value) -> Result<(), McpFailure> {
        let once = Exchange { mode: Mode::Repeatable, progress: None, ..*self };
        let answer = once.post(message, self.headers()?).await?;
        let (status, timings) = (answer.status, answer.timings);
        if status.is_success() { Ok(()) } else { Err(unexpected(answer, timings, self.deadline).await) }
    }

    fn headers(&self) -> Result<HeaderMap, McpFailure> {
        let mut headers = self.endpoint.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let version = HeaderName::from_static("mcp-protocol-version");
        match self.session {
            Session::Current => {
                headers.insert(version, HeaderValue::from_static(CURRENT));
            }
            Session::Legacy { version: agreed, id } => {
                if !agreed.is_empty() {
                    let agreed = HeaderValue::from_str(agreed);
                    headers.insert(version, agreed.map_err(|_| McpFailure::unsent(McpError::protocol("a version")))?);
                }
                if let Some(id) = id {
                    headers.insert(HeaderName::from_static("mcp-session-id"), id.clone());
                }
            }
            Session::Sse(_) => {}
        }
        Ok(headers)
    }

    async fn post(&self, message: &Value, headers: HeaderMap) -> Result<Streamed, McpFailure> {
        let body = Bytes::from(message.to_string());
        let outbound = Outbound { method: Method::POST, target: self.endpoint.target.clone(), headers, body };
        let http = &self.inner.http;
        let answer = match self.mode {
            Mode::Repeatable => http.open(&outbound, self.deadline).await?,
            Mode::Once(barrier) => {
                http.connect(&outbound.target, self.deadline).await?.past(barrier).await?.open(&outbound).await?
            }
        };
        Ok(answer.bounded(self.inner.max_answer))
    }

    /// Reads the answer to the request `id` out of a body, whether it is JSON or a stream.
    async fn answer_to(&self, id: u64, answer: Streamed) -> Result<Reply, McpFailure> {
        let started = Instant::now();
        let mut timings = answer.timings;
        let session_id = answer.headers.get("mcp-session-id").cloned();
        let wrong = |error: McpError| McpFailure::in_doubt(error, timings);
        if !answer.status.is_success() {
            return Err(unexpected(answer, timings, self.deadline).await);
        }
        if answer.status == StatusCode::ACCEPTED {
            return Err(wrong(McpError::protocol("a request was answered with HTTP 202 and no result")));
        }
        let result = if is_event_stream(&answer.headers) {
            self.answer_in(id, answer).await.map_err(wrong)?
        } else {
            let inbound = answer.collect(self.deadline).await;
            if inbound.completeness != Completeness::Whole {
                return Err(wrong(inbound.completeness.into()));
            }
            match message::receive(&inbound.body).map_err(wrong)? {
                Received::Response { id: answered, result } if is_answer(&answered, id, &result) => {
                    result.map_err(wrong)?
                }
                _ => return Err(wrong(McpError::protocol("the answer is to another request"))),
            }
        };
        timings.body = started.elapsed();
        Ok(Reply { result, session_id, timings })
    }

    async fn answer_in(&self, id: u64, answer: Streamed) -> Result<Value, McpError> {
        let mut stream = events(answer, self.deadline, self.inner.max_answer);
        let mut last_id: Option<String> = None;
        let mut pause = Duration::from_secs(1);
        let mut resumes = 0;
        loop {
            let Some(event) = stream.next().await else {
                // A legacy server may end a stream early and go on when it is asked for the rest.
                let Some(last) = last_id.clone().filter(|_| resumes < MAX_RESUMES) else {
                    return Err(McpError::protocol("the stream ended without the answer"));
                };
                resumes += 1;
                stream = events(self.resume(&last, pause).await?, self.deadline, self.inner.max_answer);
                continue;
            };
            let event = event?;
            if let Some(ms) = event.retry {
                pause = Duration::from_millis(ms).min(MAX_PAUSE);
            }
            if event.id.is_some() {
                last_id = event.id;
            }
            // The first event of a stream may hold nothing but its id.
            let Some(data) = event.data.filter(|data| !data.trim().is_empty()) else { continue };
            match message::receive(data.as_bytes())? {
                Received::Response { id: answered, result } if is_answer(&answered, id, &result) => return result,
                Received::Response { .. } => {}
                Received::Notification { method, params } => self.notified(id, &method, &params),
                Received::Request { id: asked, method, params } => {
                    if matches!(self.session, Session::Current) {
                        return Err(McpError::protocol("the server sent a request, which the current era forbids"));
                    }
                    let reply = handler::reply(self.inner.handler.as_ref(), &asked, &method, &params).await;
                    if let Err(failure) = self.notify(&reply).await {
                        tracing::debug!(server = %self.endpoint.server, error = failure.error.code(), "a reply was not taken");
                    }
                }
            }
        }
    }

    fn notified(&self, id: u64, method: &str, params: &Value) {
        match self.progress {
            Some(listener) if method == "notifications/progress" => {
                if params.get("progressToken").and_then(Value::as_u64) == Some(id) {
                    listener(params);
                }
            }
            _ => self.inner.notified(self.endpoint, method, params),
        }
    }

    async fn resume(&self, last_id: &str, pause: Duration) -> Result<Streamed, McpError> {
        tokio::time::timeout_at(self.deadline, tokio::time::sleep(pause)).await.map_err(|_| McpError::Timeout)?;
        let answer = self.get_stream(Some(last_id), self.deadline).await.map_err(|failure| failure.error)?;
        if answer.status.is_success() && is_event_stream(&answer.headers) {
            Ok(answer.bounded(self.inner.max_answer))
        } else {
            Err(McpError::protocol("the stream ended without the answer, and can't be resumed"))
        }
    }

    /// Opens the stream that a legacy server tells things on.
    pub(crate) async fn get_stream(&self, last_id: Option<&str>, until: Instant) -> Result<Streamed, McpFailure> {
        let mut headers = self.headers()?;
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last_id) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(HeaderName::from_static("last-event-id"), last_id);
        }
        let target = self.endpoint.target.clone();
        let outbound = Outbound { method: Method::GET, target, headers, body: Bytes::new() };
        Ok(self.inner.http.open(&outbound, until).await?)
    }

    /// Opens a stream with a POST, in the current era.
    pub(crate) async fn listen(&self, method: &str, params: Map<String, Value>) -> Result<Streamed, McpFailure> {
        let id = self.inner.next_id.fetch_add(1, Ordering::Relaxed);
        let mut headers = self.headers()?;
        if let Ok(value) = HeaderValue::from_str(method) {
            headers.insert(HeaderName::from_static("mcp-method"), value);
        }
        let params = message::with_current_meta(params, &self.inner.handler.capabilities());
        self.post(&message::request(id, method, &params), headers).await
    }
}

/// Whether a response is to the request `id`. An error without an id is taken for an answer too: a server
/// that could not read the request can't repeat its id.
fn is_answer(answered: &Value, id: u64, result: &Result<Value, McpError>) -> bool {
    answered.as_u64() == Some(id) || (answered.is_null() && result.is_err())
}

/// The `WWW-Authenticate` header of an answer.
pub(crate) fn challenge_of(headers: &HeaderMap) -> String {
    let text = headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    text.unwrap_or_default().to_owned()
}

/// What an answer other than 2xx means.
async fn unexpected(answer: Streamed, timings: Timings, deadline: Instant) -> McpFailure {
    let status = answer.status.as_u16();
    if matches!(status, 401 | 403) {
        let challenge = challenge_of(&answer.headers);
        return McpFailure::in_doubt(McpError::Auth { status, challenge }, timings);
    }
    let inbound = answer.collect(deadline).await;
    if let Ok(Received::Response { result: Err(error), .. }) = message::receive(&inbound.body) {
        return McpFailure::in_doubt(McpStatus { status, error }.into_error(), timings);
    }
    let text = String::from_utf8_lossy(&inbound.body);
    let body = text.chars().filter(|ch| !ch.is_control()).take(MAX_SHOWN).collect();
    McpFailure::in_doubt(McpError::Http { status, body }, timings)
}

/// A JSON-RPC error that came with an HTTP status.
struct McpStatus {
    status: u16,
    error: McpError,
}

impl McpStatus {
    /// A lost session is known by its status alone, so that is kept; every other error speaks for itself.
    fn into_error(self) -> McpError {
        match self.error {
            McpError::Rpc { code: -32000 | -32600 | -32001, message, .. } if matches!(self.status, 400 | 404) => {
                McpError::Http { status: self.status, body: message }
            }
            // A server that failed on the way may have done anything.
            McpError::Rpc { message, .. } if self.status >= 500 => {
                McpError::Http { status: self.status, body: message }
            }
            error => error,
        }
    }
}

/// Tells a legacy server when a request is given up before it is answered.
struct Cancel {
    inner: Arc<Inner>,
    endpoint: Endpoint,
    session: Session,
    id: Option<u64>,
}

impl Cancel {
    fn armed(exchange: &Exchange<'_>, id: u64, method: &str) -> Self {
        // In the current era the end of the connection says it; initialize can't be cancelled.
        let tells = matches!(exchange.session, Session::Legacy { .. }) && method != "initialize";
        Self {
            inner: Arc::clone(exchange.inner),
            endpoint: exchange.endpoint.clone(),
            session: exchange.session.clone(),
            id: tells.then_some(id),
        }
    }

    fn disarm(&mut self) {
        self.id = None;
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id, tokio::runtime::Handle::try_current()) else { return };
        let (inner, endpoint, session) = (Arc::clone(&self.inner), self.endpoint.clone(), self.session.clone());
        runtime.spawn(async move {
            let params = serde_json::json!({ "requestId": id, "reason": "the call was given up" });
            let message = message::notification("notifications/cancelled", params);
            let deadline = Instant::now() + Duration::from_secs(5);
            let exchange = Exchange {
                inner: &inner,
                endpoint: &endpoint,
                session: &session,
                mode: Mode::Repeatable,
                deadline,
                progress: None,
            };
            if let Err(failure) = exchange.notify(&message).await {
                tracing::debug!(server = %endpoint.server, error = failure.error.code(), "a cancellation was not taken");
            }
        });
    }
}
