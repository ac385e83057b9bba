//! The HTTP client.
//!
//! Reads share pooled connections. A call with a side effect takes a connection of its own, which
//! counts what is written, so that its failure is known to be *not sent* or *in doubt*.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client as PoolClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, timeout};
use tower_service::Service;

use crate::barrier::{Barrier, Withheld};
use crate::body::{self, Completeness};
use crate::counted::Counted;
use crate::error::{EgressError, Phase};
use crate::guard::{Guard, GuardConnector, GuardedStream};
use crate::in_flight::{InFlight, Place};
use crate::limits::Limits;
use crate::policy::Policy;
use crate::streamed::{Driver, Streamed};
use crate::target::Target;
use crate::tls::{TrustError, TrustRoots};

/// A request to a target that the policy allows.
#[derive(Debug, Clone)]
pub struct Outbound {
    /// The method.
    pub method: Method,
    /// Where it goes.
    pub target: Target,
    /// The headers, without those that the client sets. Mark secrets as sensitive.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// An answer, its body read and decompressed.
#[derive(Debug, Clone)]
pub struct Inbound {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, at most as large as the bound.
    pub body: Vec<u8>,
    /// How much of the body that is.
    pub completeness: Completeness,
    /// How long each phase took.
    pub timings: Timings,
}

/// How long each phase of an exchange took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Waiting for a place among the exchanges of the host.
    pub queue: Duration,
    /// DNS, TCP and TLS; zero on a connection from the pool, whose opening is in `first_byte`.
    pub connect: Duration,
    /// From the request to the head of the answer.
    pub first_byte: Duration,
    /// Reading and decompressing the body.
    pub body: Duration,
}

/// What is known of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// No byte of it left.
    Nothing,
    /// It may have arrived.
    InDoubt,
}

/// A request that got no whole answer.
#[derive(Debug, thiserror::Error)]
#[error("the request got no whole answer")]
pub struct SendFailure {
    /// Why.
    #[source]
    pub error: EgressError,
    /// Whether any of it left.
    pub sent: Sent,
    /// How long the phases took that were gone through.
    pub timings: Timings,
}

impl SendFailure {
    fn unsent(error: impl Into<EgressError>) -> Self {
        Self { error: error.into(), sent: Sent::Nothing, timings: Timings::default() }
    }

    /// The same failure with the phases that were gone through before it.
    fn after(self, timings: Timings) -> Self {
        Self { timings, ..self }
    }
}

/// The client of one policy. Another policy is another client, so no connection outlives the rules
/// it was opened under. Cloning is cheap and shares the pool.
#[derive(Clone)]
pub struct Client {
    guard: Guard,
    limits: Arc<Limits>,
    connector: HttpsConnector<GuardConnector>,
    pool: PoolClient<HttpsConnector<GuardConnector>, Full<Bytes>>,
    in_flight: Arc<InFlight>,
}

impl Client {
    /// A client behind this guard.
    ///
    /// # Errors
    /// [`TrustError`] when the trust roots can't be loaded.
    pub fn new(guard: Guard, limits: Limits, roots: &TrustRoots) -> Result<Self, TrustError> {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(roots.client_config()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(GuardConnector(guard.clone()));
        let pool = PoolClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits.idle)
            .http1_max_buf_size(limits.head_bytes.max(8 << 10))
            .build(connector.clone());
        let in_flight = Arc::new(InFlight::new(limits.in_flight_per_host));
        Ok(Self { guard, limits: Arc::new(limits), connector, pool, in_flight })
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        self.guard.policy()
    }

    /// The bounds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sends a request that changes nothing, over the pool. A redirect is an answer like any other.
    ///
    /// # Errors
    /// [`SendFailure`] when there is no whole head of an answer by `deadline`.
    pub async fn read(&self, request: &Outbound, deadline: Instant) -> Result<Inbound, SendFailure> {
        Ok(self.send_pooled(request, body::ACCEPT_ENCODING, deadline).await?.collect(deadline).await)
    }

    /// The same, with a body that is read as it comes. It is asked for without compression.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub async fn open(&self, request: &Outbound, deadline: Instant) -> Result<Streamed, SendFailure> {
        self.send_pooled(request, "identity", deadline).await
    }

    async fn send_pooled(
        &self,
        request: &Outbound,
        encodings: &'static str,
        deadline: Instant,
    ) -> Result<Streamed, SendFailure> {
        let mut timings = Timings::default();
        let place = self.enter(&request.target, deadline, &mut timings).await?;
        let message = build(request, encodings, false)?;
        let started = Instant::now();
        let answered = within(self.limits.first_byte, Phase::FirstByte, deadline, self.pool.request(message)).await;
        let failed = |error: EgressError| {
            let sent = if is_before_sending(&error) { Sent::Nothing } else { Sent::InDoubt };
            SendFailure { error, sent, timings: Timings { first_byte: started.elapsed(), ..timings } }
        };
        let response = answered.map_err(failed)?.map_err(|error| {
            let unsent = error.is_connect();
            let error = from_chain(&error, &request.target);
            let sent = if unsent || is_before_sending(&error) { Sent::Nothing } else { Sent::InDoubt };
            SendFailure { error, sent, timings: Timings { first_byte: started.elapsed(), ..timings } }
        })?;
        timings.first_byte = started.elapsed();
        Ok(Streamed::new(response, timings, self.limits.body_bytes, place, None))
    }

    /// Opens a connection for one request with a side effect. Until [`Dedicated::send`] is called,
    /// nothing of it can have left.
    ///
    /// # Errors
    /// [`SendFailure`], always [`Sent::Nothing`].
    pub async fn connect(&self, target: &Target, deadline: Instant) -> Result<Dedicated, SendFailure> {
        let mut timings = Timings::default();
        let place = self.enter(target, deadline, &mut timings).await?;
        let started = Instant::now();
        let mut connector = self.connector.clone();
        let connecting = within(self.limits.connect, Phase::Connect, deadline, connector.call(target.uri().clone()));
        let stream = connecting
            .await
            .map_err(SendFailure::unsent)
            .and_then(|result| result.map_err(|error| SendFailure::unsent(from_source(Some(error.as_ref()), target))));
        timings.connect = started.elapsed();
        let stream = stream.map_err(|failure| failure.after(timings))?;
        Ok(Dedicated { client: self.clone(), stream, timings, deadline, place })
    }

    async fn enter(&self, target: &Target, deadline: Instant, timings: &mut Timings) -> Result<Place, SendFailure> {
        let started = Instant::now();
        let limit = deadline.saturating_duration_since(started);
        let entered = timeout(limit, self.in_flight.enter(Arc::clone(target.authority()))).await;
        timings.queue = started.elapsed();
        entered.map_err(|_| SendFailure::unsent(EgressError::Timeout { phase: Phase::Queue, limit }))
    }
}

/// A connection for one request, with TLS done and nothing sent.
pub struct Dedicated {
    client: Client,
    stream: MaybeHttpsStream<GuardedStream>,
    timings: Timings,
    deadline: Instant,
    place: Place,
}

impl Dedicated {
    /// Goes past a barrier: from here on the request may be sent.
    ///
    /// # Errors
    /// [`SendFailure`], always [`Sent::Nothing`], when the barrier withholds it.
    pub async fn past(self, barrier: &dyn Barrier) -> Result<Self, SendFailure> {
        match barrier.cross().await {
            Ok(()) => Ok(self),
            Err(Withheld(reason)) => Err(SendFailure::unsent(EgressError::Withheld { reason }).after(self.timings)),
        }
    }

    /// Sends the request.
    ///
    /// # Errors
    /// [`SendFailure`], which says whether any byte left.
    pub async fn send(self, request: &Outbound) -> Result<Inbound, SendFailure> {
        let deadline = self.deadline;
        Ok(self.exchange(request, body::ACCEPT_ENCODING).await?.collect(deadline).await)
    }

    /// The same, with a body that is read as it comes. It is asked for without compression.
    ///
    /// # Errors
    /// As [`Dedicated::send`].
    pub async fn open(self, request: &Outbound) -> Result<Streamed, SendFailure> {
        self.exchange(request, "identity").await
    }

    async fn exchange(self, request: &Outbound, encodings: &'static str) -> Result<Streamed, SendFailure> {
        let Dedicated { client, stream, mut timings, deadline, place } = self;
        let message = build(request, encodings, true)?;
        let (stream, written) = Counted::new(stream);
        let failed = |written: &AtomicU64, error: EgressError, timings: Timings| {
            let sent = if written.load(Ordering::SeqCst) == 0 { Sent::Nothing } else { Sent::InDoubt };
            SendFailure { error, sent, timings }
        };
        let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(client.limits.head_bytes.max(8 << 10))
            .handshake(stream)
            .await
            .map_err(|error| failed(&written, from_chain(&error, &request.target), timings))?;
        let started = Instant::now();
        if started >= deadline {
            let limit = Duration::ZERO;
            return Err(SendFailure::unsent(EgressError::Timeout { phase: Phase::Exchange, limit }).after(timings));
        }
        let mut driver = Driver(tokio::spawn(connection));
        let sending = within(client.limits.first_byte, Phase::FirstByte, deadline, sender.send_request(message));
        let error = match sending.await {
            Ok(Ok(response)) => {
                timings.first_byte = started.elapsed();
                return Ok(Streamed::new(response, timings, client.limits.body_bytes, place, Some(driver)));
            }
            Ok(Err(error)) => from_chain(&error, &request.target),
            Err(error) => error,
        };
        // The count is final only when nothing can write any more.
        driver.stop().await;
        timings.first_byte = started.elapsed();
        Err(failed(&written, error, timings))
    }
}

/// Runs `future` for at most `limit` and until `deadline`.
async fn within<F: Future>(
    limit: Duration,
    phase: Phase,
    deadline: Instant,
    future: F,
) -> Result<F::Output, EgressError> {
    let left = deadline.saturating_duration_since(Instant::now());
    let (limit, phase) = if left < limit { (left, Phase::Exchange) } else { (limit, phase) };
    timeout(limit, future).await.map_err(|_| EgressError::Timeout { phase, limit })
}

fn build(
    request: &Outbound,
    encodings: &'static str,
    own_connection: bool,
) -> Result<http::Request<Full<Bytes>>, SendFailure> {
    let mut builder = http::Request::builder().method(request.method.clone());
    // A pooled client takes the whole URI; a connection of its own wants the origin form.
    builder = if own_connection {
        let path = request.target.uri().path_and_query().map_or("/", |path| path.as_str());
        builder.uri(path)
    } else {
        builder.uri(request.target.uri().clone())
    };
    let wrong = |error: http::Error| SendFailure::unsent(EgressError::Request { reason: error.to_string() });
    let mut message = builder.body(Full::new(request.body.clone())).map_err(wrong)?;
    let headers = message.headers_mut();
    *headers = request.headers.clone();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encodings));
    headers.entry(HeaderName::from_static("user-agent")).or_insert(HeaderValue::from_static("toolcrib"));
    if own_connection {
        let host = request.target.uri().authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(host).map_err(|error| wrong(error.into()))?;
        headers.insert(HOST, host);
    }
    Ok(message)
}

/// Whether an error of ours can only come before the first byte of a request.
fn is_before_sending(error: &EgressError) -> bool {
    match error {
        EgressError::Blocked(_)
        | EgressError::Resolve { .. }
        | EgressError::Connect { .. }
        | EgressError::Tls { .. }
        | EgressError::Request { .. }
        | EgressError::Withheld { .. } => true,
        EgressError::Timeout { phase, .. } => matches!(phase, Phase::Queue | Phase::Connect),
        EgressError::Protocol { .. } => false,
    }
}

fn from_chain(error: &(dyn std::error::Error + 'static), target: &Target) -> EgressError {
    from_source(Some(error), target)
}

/// Finds our own error, or TLS's, in the chain of causes that the HTTP libraries wrap around it.
fn from_source(mut cause: Option<&(dyn std::error::Error + 'static)>, target: &Target) -> EgressError {
    let mut last = String::new();
    while let Some(error) = cause {
        if let Some(ours) = error.downcast_ref::<EgressError>() {
            return ours.clone();
        }
        let io = error.downcast_ref::<std::io::Error>();
        if let Some(inner) = io.and_then(std::io::Error::get_ref) {
            if let Some(tls) = inner.downcast_ref::<rustls::Error>() {
                return EgressError::Tls { host: target.authority().to_string(), reason: tls.to_string() };
            }
            if let Some(ours) = inner.downcast_ref::<EgressError>() {
                return ours.clone();
            }
        }
        last = error.to_string();
        cause = error.source();
    }
    EgressError::Protocol { reason: last }
}
