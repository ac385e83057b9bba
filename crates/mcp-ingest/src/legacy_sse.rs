//! HTTP with SSE, the transport before 2025-03-26: one stream that stays open, and a POST for each message.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use toolcrib_egress::{Outbound, Timings};

use crate::client::Inner;
use crate::endpoint::Endpoint;
use crate::error::{McpError, McpFailure};
use crate::events::{events, is_event_stream};
use crate::exchange::{Mode, challenge_of};
use crate::handler;
use crate::message::{self, Received};
use crate::session::{agreed_version, initialize_params};

/// How long a stream is kept before it is opened anew.
const MAX_LIFE: Duration = Duration::from_secs(24 * 3600);
/// How much a stream may bring in its life, in bytes.
const MAX_BYTES: usize = 256 << 20;

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Result<Value, McpError>>>>>;

/// An open stream with the address that messages go to.
pub(crate) struct LegacySse {
    inner: Arc<Inner>,
    /// The endpoint with the address for messages as its target.
    messages: Endpoint,
    waiting: Waiting,
    alive: Arc<AtomicBool>,
    over: Arc<Notify>,
    version: OnceLock<String>,
    reader: tokio::task::AbortHandle,
}

impl Drop for LegacySse {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl LegacySse {
    /// Opens the stream and makes the handshake.
    pub(crate) async fn connect(
        inner: &Arc<Inner>,
        endpoint: &Endpoint,
        deadline: Instant,
    ) -> Result<Arc<Self>, McpFailure> {
        let mut headers = endpoint.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let outbound = Outbound { method: Method::GET, target: endpoint.target.clone(), headers, body: Bytes::new() };
        let answer = inner.http.open(&outbound, deadline).await?;
        let status = answer.status.as_u16();
        if matches!(status, 401 | 403) {
            return Err(McpFailure::unsent(McpError::Auth { status, challenge: challenge_of(&answer.headers) }));
        }
        if !answer.status.is_success() || !is_event_stream(&answer.headers) {
            let body = "neither streamable HTTP nor HTTP with SSE is spoken here".to_owned();
            return Err(McpFailure::unsent(McpError::Http { status, body }));
        }
        let mut stream = events(answer.bounded(MAX_BYTES).without_place(), Instant::now() + MAX_LIFE, inner.max_answer);
        let first = async {
            loop {
                let event = stream.next().await.ok_or_else(|| McpError::protocol("the stream ended at once"))??;
                if event.event.as_deref() == Some("endpoint") {
                    return Ok::<String, McpError>(event.data.unwrap_or_default());
                }
            }
        };
        let place =
            tokio::time::timeout_at(deadline, first).await.map_err(|_| McpFailure::unsent(McpError::Timeout))?;
        let messages = messages_endpoint(inner, endpoint, &place.map_err(McpFailure::unsent)?)?;

        let waiting = Waiting::default();
        let (alive, over) = (Arc::new(AtomicBool::new(true)), Arc::new(Notify::new()));
        let reader = {
            let (inner, messages, waiting) = (Arc::clone(inner), messages.clone(), Arc::clone(&waiting));
            let (alive, over) = (Arc::clone(&alive), Arc::clone(&over));
            tokio::spawn(async move {
                while let Some(Ok(event)) = stream.next().await {
                    take(&inner, &messages, &waiting, event.data.unwrap_or_default().as_bytes()).await;
                }
                alive.store(false, Ordering::SeqCst);
                // Whoever waits learns that nothing comes any more.
                waiting.lock().map(|mut waiting| waiting.clear()).unwrap_or_default();
                over.notify_waiters();
            })
            .abort_handle()
        };
        let session = Arc::new(Self {
            inner: Arc::clone(inner),
            messages,
            waiting,
            alive,
            over,
            version: OnceLock::new(),
            reader,
        });
        let (result, _) = session.request("initialize", initialize_params(inner), Mode::Repeatable, deadline).await?;
        let version = agreed_version(&result)?;
        session.version.get_or_init(|| version);
        post(
            inner,
            &session.messages,
            &message::notification("notifications/initialized", json!({})),
            Mode::Repeatable,
            deadline,
        )
        .await?;
        Ok(session)
    }

    pub(crate) fn version(&self) -> &str {
        self.version.get().map_or("no version yet", String::as_str)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }

    /// Waits until the stream is over.
    pub(crate) async fn ended(&self) {
        let over = self.over.notified();
        if self.is_alive() {
            over.await;
        }
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        params: Map<String, Value>,
        mode: Mode<'_>,
        deadline: Instant,
    ) -> Result<(Value, Timings), McpFailure> {
        let id = self.inner.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, waiter) = oneshot::channel();
        if let Ok(mut waiting) = self.waiting.lock() {
            waiting.insert(id, answer);
        }
        let _forget = Forget { waiting: &self.waiting, id };
        if !self.is_alive() {
            return Err(McpFailure::unsent(McpError::SessionLost));
        }
        let started = Instant::now();
        let mut timings =
            post(&self.inner, &self.messages, &message::request(id, method, &params), mode, deadline).await?;
        let answered = tokio::time::timeout_at(deadline, waiter).await;
        timings.body = started.elapsed().saturating_sub(timings.first_byte);
        match answered {
            Ok(Ok(Ok(result))) => Ok((result, timings)),
            Ok(Ok(Err(error))) => Err(McpFailure::in_doubt(error, timings)),
            Ok(Err(_)) => Err(McpFailure::in_doubt(McpError::SessionLost, timings)),
            Err(_) => Err(McpFailure::in_doubt(McpError::Timeout, timings)),
        }
    }
}

/// Takes the place of a request away when nobody waits any more.
struct Forget<'a> {
    waiting: &'a Waiting,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Ok(mut waiting) = self.waiting.lock() {
            waiting.remove(&self.id);
        }
    }
}

/// The address for messages: relative to the stream's, and of the same origin.
fn messages_endpoint(inner: &Inner, endpoint: &Endpoint, place: &str) -> Result<Endpoint, McpFailure> {
    let wrong = |words: &str| McpFailure::unsent(McpError::protocol(words));
    let base = url::Url::parse(&endpoint.target.uri().to_string()).map_err(|_| wrong("its own address"))?;
    let url = base.join(place.trim()).map_err(|_| wrong("the address for messages is no URL"))?;
    if url.origin() != base.origin() {
        return Err(wrong("the address for messages is of another origin"));
    }
    let target = inner
        .http
        .policy()
        .check_url(url.as_str())
        .map_err(|blocked| McpFailure::unsent(toolcrib_egress::EgressError::from(blocked)))?;
    Ok(Endpoint { target, ..endpoint.clone() })
}

async fn post(
    inner: &Inner,
    messages: &Endpoint,
    message: &Value,
    mode: Mode<'_>,
    deadline: Instant,
) -> Result<Timings, McpFailure> {
    let mut headers = messages.headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let body = Bytes::from(message.to_string());
    let outbound = Outbound { method: Method::POST, target: messages.target.clone(), headers, body };
    let answer = match mode {
        Mode::Repeatable => inner.http.open(&outbound, deadline).await?,
        Mode::Once(barrier) => {
            inner.http.connect(&outbound.target, deadline).await?.past(barrier).await?.open(&outbound).await?
        }
    };
    let (status, timings) = (answer.status, answer.timings);
    match status.as_u16() {
        200..=299 => Ok(timings),
        status @ (401 | 403) => {
            let challenge = challenge_of(&answer.headers);
            Err(McpFailure::in_doubt(McpError::Auth { status, challenge }, timings))
        }
        status => {
            let body = "the message was not taken".to_owned();
            Err(McpFailure::in_doubt(McpError::Http { status, body }, timings))
        }
    }
}

/// Takes a message of the stream.
async fn take(inner: &Inner, messages: &Endpoint, waiting: &Waiting, data: &[u8]) {
    match message::receive(data) {
        Ok(Received::Response { id, result }) => {
            let waiter = id.as_u64().and_then(|id| waiting.lock().ok()?.remove(&id));
            if let Some(waiter) = waiter {
                // The one who waited may have given up just now.
                let _ = waiter.send(result);
            }
        }
        Ok(Received::Notification { method, params }) => inner.notified(messages, &method, &params),
        Ok(Received::Request { id, method, params }) => {
            let reply = handler::reply(inner.handler.as_ref(), &id, &method, &params).await;
            let deadline = Instant::now() + Duration::from_secs(10);
            if let Err(failure) = post(inner, messages, &reply, Mode::Repeatable, deadline).await {
                tracing::debug!(server = %messages.server, error = failure.error.code(), "a reply was not taken");
            }
        }
        Err(error) => tracing::debug!(server = %messages.server, error = error.code(), "a message can't be read"),
    }
}
