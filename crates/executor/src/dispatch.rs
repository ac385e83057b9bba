//! How a call is made, as a trait: over plain HTTP (`http.rs`) or over MCP (`mcp.rs`).

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use toolcrib_definition::{Definition, EffectMode, RenderedRequest};
use toolcrib_egress::{Barrier, Blocked, Policy, Timings};
use toolcrib_registry::ToolClient;

/// A data call that was checked and rendered.
#[derive(Clone, Copy)]
pub struct PreparedCall<'a> {
    /// The tool.
    pub definition: &'a Definition,
    /// The exact request.
    pub request: &'a RenderedRequest,
    /// When the whole exchange must have ended.
    pub deadline: Instant,
    /// The caller, to tell it how far the work is.
    pub client: &'a dyn ToolClient,
    /// Is crossed before the first byte of a call with a side effect.
    pub barrier: &'a dyn Barrier,
}

impl PreparedCall<'_> {
    /// Whether it may be sent again when nobody knows whether it arrived: it changes nothing, or the upstream knows it by
    /// its key.
    pub fn is_repeatable(&self) -> bool {
        self.definition.effect() == EffectMode::Idempotent || self.definition.idempotency_key_header.is_some()
    }
}

/// Makes calls.
#[async_trait]
pub trait Dispatch: Send + Sync {
    /// Makes one call. Never panics; what goes wrong is in [`Dispatched::result`].
    async fn dispatch(&self, call: PreparedCall<'_>) -> Dispatched;

    /// The policy that calls are under.
    fn policy(&self) -> &Policy;

    /// The hosts that failed lately.
    fn breakers(&self) -> Vec<crate::BreakerReport>;
}

/// How a call went.
#[derive(Debug)]
pub struct Dispatched {
    /// The answer, or why there is none.
    pub result: Result<UpstreamAnswer, DispatchFailure>,
    /// How long the phases of the last send took.
    pub timings: Timings,
    /// How often the request was sent.
    pub sends: u32,
}

/// An answer of the upstream.
#[derive(Debug, Clone)]
pub struct UpstreamAnswer {
    /// The status.
    pub status: u16,
    /// The `Location` header.
    pub location: Option<String>,
    /// The `Content-Type` header.
    pub content_type: Option<String>,
    /// The body as text.
    pub body: String,
    /// Set when the body is not whole.
    pub cut: Option<Cut>,
}

/// Why a body is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It is larger than this many bytes.
    TooLarge(usize),
    /// The connection ended before it did.
    BrokenOff,
    /// The time was over before it was.
    TimedOut,
    /// It is compressed in a way that can't be read.
    Unreadable,
}

/// A call that got no answer.
#[derive(Debug, Clone)]
pub struct DispatchFailure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The stable code.
    pub code: &'static str,
    /// What the model reads.
    pub message: Cow<'static, str>,
    /// What the operator reads beside it.
    pub reason: Option<String>,
}

impl DispatchFailure {
    /// The host failed repeatedly, and is left alone for a moment.
    pub(crate) fn paused(host: &str, pause: Duration) -> Self {
        let seconds = pause.as_secs().max(1);
        Self {
            kind: FailureKind::NotSent,
            code: "call.paused",
            message: "the upstream fails repeatedly; calls to it are paused for a moment".into(),
            reason: Some(format!("the breaker of {host} is open for {seconds} s more")),
        }
    }
}

/// The kind of a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureKind {
    /// The policy refused; nothing was sent.
    Blocked(Blocked),
    /// Nothing was sent.
    NotSent,
    /// The request may have arrived.
    InDoubt,
}
