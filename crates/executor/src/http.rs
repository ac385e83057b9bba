//! Calls over HTTP, through the guarded client.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::time::Instant;
use toolcrib_definition::{EffectMode, RenderedRequest};
use toolcrib_egress::{
    Client, Completeness, EgressError, Inbound, Outbound, Phase, Policy, SendFailure, Sent, Target, Timings,
};

use crate::breaker::{BreakerReport, Breakers};
use crate::dispatch::{Cut, Dispatch, DispatchFailure, Dispatched, FailureKind, PreparedCall, UpstreamAnswer};
use crate::retry::{MAX_SENDS, RetryBudget, is_retryable_status, wait_before};

/// Makes calls over HTTP.
pub struct HttpDispatch {
    client: Client,
    breakers: Breakers,
    budget: RetryBudget,
}

impl HttpDispatch {
    /// Calls over this client.
    pub fn new(client: Client) -> Self {
        Self { client, breakers: Breakers::default(), budget: RetryBudget::default() }
    }

    async fn send(&self, outbound: &Outbound, call: PreparedCall<'_>) -> Result<Inbound, SendFailure> {
        match call.definition.effect() {
            EffectMode::Idempotent => self.client.read(outbound, call.deadline).await,
            EffectMode::AtMostOnce | EffectMode::Transactional => {
                let connection = self.client.connect(&outbound.target, call.deadline).await?;
                connection.past(call.barrier).await?.send(outbound).await
            }
        }
    }

    /// Sends until there is an answer that stands, or nothing more may be sent.
    async fn send_with_retries(&self, outbound: &Outbound, call: PreparedCall<'_>, host: &str) -> (Sending, u32) {
        let (mut tries, mut sends) = (0, 0);
        let mut last = None;
        loop {
            if let Err(pause) = self.breakers.admit(host, Instant::now()) {
                let paused = Sending::Paused(pause);
                return (last.map_or(paused, Sending::Done), sends);
            }
            tries += 1;
            let result = self.send(outbound, call).await;
            // A try that found no host, or no connection, has sent nothing.
            sends += u32::from(result.as_ref().map_or_else(|failure| failure.sent == Sent::InDoubt, |_| true));
            let wait = match &result {
                _ if !call.is_repeatable() || tries == MAX_SENDS => None,
                Ok(inbound) if is_retryable_status(inbound.status.as_u16()) => {
                    let after = inbound.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
                    wait_before(tries, after)
                }
                Ok(_) => None,
                Err(failure) if failure.error.retryable() => wait_before(tries, None),
                Err(_) => None,
            };
            let wait = wait.filter(|wait| Instant::now() + *wait < call.deadline);
            match wait {
                Some(wait) if self.budget.spend() => {
                    tokio::time::sleep(wait).await;
                    last = Some(result);
                }
                _ => {
                    self.note(host, &result);
                    return (Sending::Done(result), sends);
                }
            }
        }
    }

    /// Tells the breaker how the host did with a call, however often that was sent. A refusal by our own policy says nothing of the host, and
    /// neither does a host that was never asked.
    fn note(&self, host: &str, result: &Result<Inbound, SendFailure>) {
        match result {
            Ok(inbound) if matches!(inbound.status.as_u16(), 502..=504) => self.breakers.failed(host, Instant::now()),
            Ok(_) => self.breakers.succeeded(host),
            Err(failure) => match &failure.error {
                EgressError::Blocked(_)
                | EgressError::Request { .. }
                | EgressError::Withheld { .. }
                | EgressError::Timeout { phase: Phase::Queue, .. } => self.breakers.unasked(host),
                _ => self.breakers.failed(host, Instant::now()),
            },
        }
    }
}

enum Sending {
    Done(Result<Inbound, SendFailure>),
    Paused(Duration),
}

#[async_trait]
impl Dispatch for HttpDispatch {
    async fn dispatch(&self, call: PreparedCall<'_>) -> Dispatched {
        self.budget.earn();
        let unsent = |failure| Dispatched { result: Err(failure), timings: Timings::default(), sends: 0 };
        let target = match self.client.policy().check_url(&call.request.url) {
            Ok(target) => target,
            Err(blocked) => return unsent(failure_of(&EgressError::Blocked(blocked), Sent::Nothing)),
        };
        let host = Arc::clone(target.authority());
        let outbound = match outbound_of(call.request, target) {
            Ok(outbound) => outbound,
            Err(error) => return unsent(failure_of(&error, Sent::Nothing)),
        };
        let (sending, sends) = self.send_with_retries(&outbound, call, &host).await;
        match sending {
            Sending::Paused(pause) => {
                Dispatched { result: Err(DispatchFailure::paused(&host, pause)), timings: Timings::default(), sends }
            }
            Sending::Done(Ok(inbound)) => {
                let timings = inbound.timings;
                Dispatched { result: Ok(answer_of(inbound, call.request)), timings, sends }
            }
            Sending::Done(Err(failure)) => {
                let mut told = failure_of(&failure.error, failure.sent);
                told.reason = told.reason.map(|reason| call.request.scrub(&reason).into_owned());
                told.message = call.request.scrub(&told.message).into_owned().into();
                Dispatched { result: Err(told), timings: failure.timings, sends }
            }
        }
    }

    fn policy(&self) -> &Policy {
        self.client.policy()
    }

    fn breakers(&self) -> Vec<BreakerReport> {
        self.breakers.report(Instant::now())
    }
}

fn outbound_of(request: &RenderedRequest, target: Target) -> Result<Outbound, EgressError> {
    let mut headers = HeaderMap::with_capacity(request.headers.len());
    for header in &request.headers {
        let wrong =
            |what: &str| EgressError::Request { reason: format!("the {what} of {} can't be sent", header.name) };
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| wrong("name"))?;
        let mut value = HeaderValue::from_bytes(header.expose().as_bytes()).map_err(|_| wrong("value"))?;
        value.set_sensitive(header.secret.is_some());
        headers.append(name, value);
    }
    let method = Method::from_bytes(request.method.as_str().as_bytes())
        .map_err(|error| EgressError::Request { reason: error.to_string() })?;
    let body = request.body.as_ref().map_or_else(Bytes::new, |body| Bytes::copy_from_slice(body.as_bytes()));
    Ok(Outbound { method, target, headers, body })
}

/// Takes the answer over. Bytes that are not UTF-8 are replaced, and a secret of the request that
/// the upstream repeats is masked before anybody reads it.
fn answer_of(inbound: Inbound, request: &RenderedRequest) -> UpstreamAnswer {
    let Inbound { status, headers, body, completeness, .. } = inbound;
    let scrubbed = |text: String| match request.scrub(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    };
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let header = |name| headers.get(name).map(|value| lossy(value.as_bytes()));
    let body = String::from_utf8(body).unwrap_or_else(|error| lossy(error.as_bytes()));
    UpstreamAnswer {
        status: status.as_u16(),
        location: header(LOCATION).map(scrubbed),
        content_type: header(CONTENT_TYPE).map(scrubbed),
        body: if completeness == Completeness::Whole { scrubbed(body) } else { request.scrub_cut(&body) },
        cut: match completeness {
            Completeness::Whole => None,
            Completeness::BrokenOff => Some(Cut::BrokenOff),
            Completeness::TimedOut => Some(Cut::TimedOut),
            Completeness::Unreadable => Some(Cut::Unreadable),
            Completeness::OverBound(bytes) => Some(Cut::TooLarge(bytes)),
        },
    }
}

fn failure_of(error: &EgressError, sent: Sent) -> DispatchFailure {
    let kind = match (error, sent) {
        (EgressError::Blocked(blocked), _) => FailureKind::Blocked(blocked.clone()),
        (_, Sent::Nothing) => FailureKind::NotSent,
        (_, Sent::InDoubt) => FailureKind::InDoubt,
    };
    // The model learns that the policy refused, and not which address a name leads to.
    let message = match error {
        EgressError::Blocked(blocked) => format!("blocked by the egress policy ({})", blocked.reason.code()).into(),
        EgressError::Request { .. } => Cow::Borrowed("the request can't be written"),
        EgressError::Withheld { .. } => Cow::Borrowed("the call was not sent: the ledger did not let it go"),
        EgressError::Protocol { .. } => Cow::Borrowed("the upstream broke off or sent no valid HTTP"),
        other => other.to_string().into(),
    };
    let reason = match error {
        EgressError::Blocked(blocked) => Some(blocked.to_string()),
        other => other.reason().map(str::to_owned),
    };
    DispatchFailure { kind, code: error.code(), message, reason }
}
