//! The MCP client: sessions that are shared, made again once when lost, and forgotten when too many.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, broadcast};
use tokio::time::Instant;
use toolcrib_egress::{Client, Policy, Sent, Timings};

use crate::endpoint::{Endpoint, SessionKey};
use crate::error::{McpError, McpFailure};
use crate::exchange::{Exchange, Mode, ProgressListener};
use crate::handler::{ClientHandler, NoCapabilities};
use crate::oauth::{Authorizer, Challenge};
use crate::session::{Session, negotiate};

/// How many sessions are kept; the one used longest ago goes first.
const MAX_SESSIONS: usize = 1_024;
/// How long a session may have been idle and still be trusted with a call that is sent once.
const FRESH: Duration = Duration::from_secs(5);
/// How often a token is obtained for one request.
const MAX_AUTHORIZATIONS: usize = 3;
/// How often a tool may ask for input in one call.
const MAX_ROUNDS: usize = 8;
/// The largest answer, in bytes, when nothing else is said.
const MAX_ANSWER: usize = 8 << 20;

/// A client for any number of MCP servers. Cloning is cheap and shares the sessions.
#[derive(Clone)]
pub struct McpClient(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) http: Client,
    pub(crate) handler: Arc<dyn ClientHandler>,
    pub(crate) next_id: AtomicU64,
    pub(crate) max_answer: usize,
    sessions: Mutex<HashMap<SessionKey, Arc<Slot>>>,
    authorizer: Option<Arc<dyn Authorizer>>,
    /// Tokens that were obtained, by the address of their server.
    tokens: Mutex<HashMap<String, HeaderValue>>,
    changed: broadcast::Sender<String>,
}

/// The place of a session, so that concurrent calls share one handshake.
pub(crate) struct Slot {
    session: Mutex<Option<Session>>,
    used: std::sync::Mutex<Instant>,
}

/// A request to an MCP server.
pub struct McpRequest<'a> {
    /// The method, such as `tools/call`.
    pub method: &'a str,
    /// Its parameters.
    pub params: Map<String, Value>,
    /// Headers that repeat arguments, for servers of the current era.
    pub param_headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether it may be sent again.
    pub mode: Mode<'a>,
    /// When it must have ended.
    pub deadline: Instant,
    /// Is told how far the work is, by a server that says.
    pub progress: Option<&'a ProgressListener<'a>>,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct McpResult {
    /// The result as the server gave it.
    pub result: Value,
    /// How long the phases took.
    pub timings: Timings,
    /// How often the request itself was sent.
    pub sends: u32,
    /// Whether the server speaks the current era.
    pub is_current: bool,
}

impl McpClient {
    /// A client over the guarded HTTP client, which declares no capabilities.
    pub fn new(http: Client) -> Self {
        Self::with_parts(http, Arc::new(NoCapabilities), None)
    }

    /// A client that answers what servers ask, and obtains tokens where one is wanted.
    pub fn with_parts(http: Client, handler: Arc<dyn ClientHandler>, authorizer: Option<Arc<dyn Authorizer>>) -> Self {
        let (changed, _) = broadcast::channel(256);
        Self(Arc::new(Inner {
            http,
            handler,
            next_id: AtomicU64::new(1),
            max_answer: MAX_ANSWER,
            sessions: Mutex::new(HashMap::new()),
            authorizer,
            tokens: Mutex::new(HashMap::new()),
            changed,
        }))
    }

    /// The egress policy that all servers are under.
    pub fn policy(&self) -> &Policy {
        self.0.http.policy()
    }

    /// The names of servers that said that their tools changed.
    pub fn changes(&self) -> broadcast::Receiver<String> {
        self.0.changed.subscribe()
    }

    /// The protocol version that is spoken with a server, after a handshake if there was none yet.
    ///
    /// # Errors
    /// [`McpFailure`] when the server can't be reached or speaks nothing that we do.
    pub async fn version(&self, endpoint: &Endpoint, deadline: Instant) -> Result<String, McpFailure> {
        Ok(self.session(endpoint, deadline).await?.1.version().to_owned())
    }

    /// Asks whether the server is there.
    ///
    /// # Errors
    /// [`McpFailure`] when it is not.
    pub async fn ping(&self, endpoint: &Endpoint, deadline: Instant) -> Result<(), McpFailure> {
        // The current era has no ping; discovery is as cheap.
        let (_, session) = self.session(endpoint, deadline).await?;
        let method = if matches!(session, Session::Current) { "server/discover" } else { "ping" };
        let request = McpRequest {
            method,
            params: Map::new(),
            param_headers: Vec::new(),
            mode: Mode::Repeatable,
            deadline,
            progress: None,
        };
        self.request(endpoint, request).await.map(drop)
    }

    /// Makes a request. A session that the server forgot is made again once, and a request that may be sent
    /// only once is then not sent again: nobody knows what became of it.
    ///
    /// # Errors
    /// [`McpFailure`], which says whether the request may have arrived.
    pub async fn request(&self, endpoint: &Endpoint, request: McpRequest<'_>) -> Result<McpResult, McpFailure> {
        let mut authorizations = 0;
        loop {
            let with_token = self.with_token(endpoint).await;
            let failure = match self.request_with(&with_token, &request).await {
                Ok(done) => return Ok(done),
                Err(failure) => McpFailure { error: endpoint.clean_error(failure.error), ..failure },
            };
            let McpError::Auth { status, challenge } = &failure.error else { return Err(failure) };
            let Some(authorizer) = &self.0.authorizer else { return Err(failure) };
            let wants_more = Challenge::read(challenge).error.as_deref() == Some("insufficient_scope");
            if authorizations == MAX_AUTHORIZATIONS || !(*status == 401 || wants_more) {
                return Err(failure);
            }
            authorizations += 1;
            // A request that was refused for its token was not carried out.
            let url = endpoint.target.uri().to_string();
            let token = authorizer.token(&self.0.http, &url, challenge, request.deadline).await;
            let token = token.map_err(McpFailure::unsent)?;
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
                .map_err(|_| McpFailure::unsent(McpError::OAuth("the token can't be a header".to_owned())))?;
            value.set_sensitive(true);
            self.0.tokens.lock().await.insert(url, value);
        }
    }

    /// The endpoint with the token that was obtained for it, when it has no credentials of its own.
    async fn with_token<'a>(&self, endpoint: &'a Endpoint) -> Cow<'a, Endpoint> {
        if self.0.authorizer.is_none() || endpoint.headers.contains_key(AUTHORIZATION) {
            return Cow::Borrowed(endpoint);
        }
        match self.0.tokens.lock().await.get(&endpoint.target.uri().to_string()) {
            None => Cow::Borrowed(endpoint),
            Some(token) => {
                let mut endpoint = endpoint.clone();
                endpoint.headers.insert(AUTHORIZATION, token.clone());
                Cow::Owned(endpoint)
            }
        }
    }

    async fn request_with(&self, endpoint: &Endpoint, request: &McpRequest<'_>) -> Result<McpResult, McpFailure> {
        let McpRequest { method, params, param_headers, mode, deadline, progress } = request;
        let (mode, deadline, progress) = (*mode, *deadline, *progress);
        let mut sends = 0;
        loop {
            let (mut slot, mut session) = self.session(endpoint, deadline).await?;
            if mode.is_once() && !self.is_trusted(&slot, &session, endpoint, deadline).await {
                self.forget(&slot, &session).await;
                (slot, session) = self.session(endpoint, deadline).await?;
            }
            slot.touch();
            sends += 1;
            let sent = match &session {
                Session::Sse(session) => session.request(method, params.clone(), mode, deadline).await,
                session => {
                    let exchange = Exchange { inner: &self.0, endpoint, session, mode, deadline, progress };
                    let reply = exchange.request(method, params.clone(), param_headers.clone()).await;
                    reply.map(|reply| (reply.result, reply.timings))
                }
            };
            let failure = match sent {
                Ok((result, timings)) => {
                    let is_current = matches!(session, Session::Current);
                    return Ok(McpResult { result, timings, sends, is_current });
                }
                Err(failure) => failure,
            };
            let lost = match &failure.error {
                McpError::Http { status: 400 | 404, .. } => {
                    // A server that went back to an older version knows nothing of the newer one's requests.
                    session.has_id() || (matches!(session, Session::Current) && !mode.is_once())
                }
                McpError::SessionLost => true,
                McpError::Rpc { code: -32022, .. } => matches!(session, Session::Current),
                _ => false,
            };
            if !lost {
                return Err(failure);
            }
            self.forget(&slot, &session).await;
            if sends > 1 {
                return Err(failure);
            }
            if mode.is_once() && failure.sent == Sent::InDoubt {
                return Err(McpFailure { error: McpError::SessionLost, ..failure });
            }
        }
    }

    /// Calls a tool. What the tool asks for on the way (`input_required` of the current era) is answered by
    /// the handler.
    ///
    /// # Errors
    /// [`McpFailure`]; [`McpError::InputRequired`] when the handler has no answer.
    pub async fn call_tool(&self, endpoint: &Endpoint, call: McpRequest<'_>) -> Result<McpResult, McpFailure> {
        let McpRequest { method, params, param_headers, mode, deadline, progress } = call;
        let mut inputs = Map::new();
        let mut sends = 0;
        for _ in 0..MAX_ROUNDS {
            let mut params = params.clone();
            params.extend(inputs);
            let request = McpRequest { method, params, param_headers: param_headers.clone(), mode, deadline, progress };
            let done = self.request(endpoint, request).await?;
            sends += done.sends;
            // Only the current era has this; a legacy server that says so says nothing.
            if !done.is_current || done.result.get("resultType").and_then(Value::as_str) != Some("input_required") {
                return Ok(McpResult { sends, ..done });
            }
            let asked = done.result.get("inputRequests").and_then(Value::as_object).cloned().unwrap_or_default();
            let state = done.result.get("requestState");
            if asked.is_empty() && state.is_none() {
                let words = "the tool waits for an answer and asks nothing";
                return Err(McpFailure::in_doubt(McpError::protocol(words), done.timings));
            }
            let mut responses = Map::new();
            for (key, asked) in &asked {
                let method = asked.get("method").and_then(Value::as_str).unwrap_or_default();
                let params = asked.get("params").cloned().unwrap_or_default();
                let Some(answer) = self.0.handler.answer(method, &params).await else {
                    // The tool asked before it did anything.
                    let error = endpoint.clean_error(McpError::InputRequired(format!("an answer to {method}")));
                    return Err(McpFailure { error, sent: Sent::Nothing, timings: done.timings });
                };
                responses.insert(key.clone(), answer);
            }
            inputs = Map::from_iter([("inputResponses".to_owned(), Value::Object(responses))]);
            if let Some(state) = state {
                inputs.insert("requestState".to_owned(), state.clone());
            }
        }
        let error = McpError::InputRequired(format!("input more than {MAX_ROUNDS} times"));
        Err(McpFailure::in_doubt(error, Timings::default()))
    }

    pub(crate) async fn session(
        &self,
        endpoint: &Endpoint,
        deadline: Instant,
    ) -> Result<(Arc<Slot>, Session), McpFailure> {
        let slot = self.slot(endpoint).await;
        let mut place = tokio::time::timeout_at(deadline, slot.session.lock())
            .await
            .map_err(|_| McpFailure::unsent(McpError::Timeout))?;
        if let Some(session) = place.as_ref().filter(|session| session.is_alive()) {
            let session = session.clone();
            drop(place);
            return Ok((slot, session));
        }
        let session = negotiate(&self.0, endpoint, deadline).await.map_err(|failure| {
            // Nothing of the caller's own request has left yet.
            McpFailure { error: endpoint.clean_error(failure.error), sent: Sent::Nothing, ..failure }
        })?;
        *place = Some(session.clone());
        slot.touch();
        drop(place);
        Ok((slot, session))
    }

    async fn slot(&self, endpoint: &Endpoint) -> Arc<Slot> {
        let key = endpoint.session_key();
        let mut sessions = self.0.sessions.lock().await;
        if let Some(slot) = sessions.get(&key) {
            return Arc::clone(slot);
        }
        if sessions.len() >= MAX_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, slot)| slot.last_used()).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                sessions.remove(&oldest);
            }
        }
        let slot = Arc::new(Slot { session: Mutex::new(None), used: std::sync::Mutex::new(Instant::now()) });
        sessions.insert(key, Arc::clone(&slot));
        slot
    }

    /// A session that was idle may be gone. It is asked before a call that can't be sent again.
    async fn is_trusted(&self, slot: &Slot, session: &Session, endpoint: &Endpoint, deadline: Instant) -> bool {
        if !session.has_id() || slot.last_used().elapsed() < FRESH {
            return true;
        }
        let exchange = Exchange { inner: &self.0, endpoint, session, mode: Mode::Repeatable, deadline, progress: None };
        !matches!(
            exchange.request("ping", Map::new(), Vec::new()).await,
            Err(McpFailure { error: McpError::Http { status: 400 | 404, .. }, .. })
        )
    }

    /// Forgets a session, unless another request has made a new one meanwhile.
    pub(crate) async fn forget(&self, slot: &Slot, session: &Session) {
        let mut place = slot.session.lock().await;
        if place.as_ref().is_some_and(|known| known.is(session)) {
            *place = None;
        }
    }
}

impl Slot {
    fn touch(&self) {
        if let Ok(mut used) = self.used.lock() {
            *used = Instant::now();
        }
    }

    fn last_used(&self) -> Instant {
        self.used.lock().map_or_else(|poisoned| *poisoned.into_inner(), |used| *used)
    }
}

impl Inner {
    /// Takes what a server tells.
    pub(crate) fn notified(&self, endpoint: &Endpoint, method: &str, params: &Value) {
        if method == "notifications/tools/list_changed" {
            // Nobody need be listening.
            let _ = self.changed.send(endpoint.server.clone());
        }
        self.handler.notified(method, params);
    }
}
