//! Which era a server speaks, and the session that a legacy server may hand out.

use std::sync::Arc;

use http::header::HeaderValue;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::client::Inner;
use crate::endpoint::{Endpoint, Transport};
use crate::error::{McpError, McpFailure};
use crate::exchange::{Exchange, Mode, Reply};
use crate::legacy_sse::LegacySse;
use crate::message::{self, CURRENT, LEGACY};

/// How a server is spoken to from now on.
#[derive(Clone)]
pub(crate) enum Session {
    /// 2026-07-28: every request stands alone.
    Current,
    /// 2025-11-25 and before over streamable HTTP.
    Legacy { version: String, id: Option<HeaderValue> },
    /// HTTP with SSE, as before 2025-03-26.
    Sse(Arc<LegacySse>),
}

impl Session {
    /// The protocol version, for people.
    pub(crate) fn version(&self) -> &str {
        match self {
            Session::Current => CURRENT,
            Session::Legacy { version, .. } => version,
            Session::Sse(session) => session.version(),
        }
    }

    /// Whether two are the same session.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Session::Current, Session::Current) => true,
            (Session::Legacy { version, id }, Session::Legacy { version: other, id: other_id }) => {
                version == other && id == other_id
            }
            (Session::Sse(one), Session::Sse(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    pub(crate) fn has_id(&self) -> bool {
        matches!(self, Session::Legacy { id: Some(_), .. })
    }

    /// Whether it can still be used.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Session::Sse(session) => session.is_alive(),
            _ => true,
        }
    }
}

/// Finds out how a server is spoken to: the current era first, then the legacy handshake, then the older
/// transport.
pub(crate) async fn negotiate(
    inner: &Arc<Inner>,
    endpoint: &Endpoint,
    deadline: Instant,
) -> Result<Session, McpFailure> {
    if endpoint.transport == Transport::Sse {
        return Ok(Session::Sse(LegacySse::connect(inner, endpoint, deadline).await?));
    }
    if discover(inner, endpoint, deadline).await? {
        return Ok(Session::Current);
    }
    match initialize(inner, endpoint, deadline).await {
        Err(McpFailure { error: McpError::Http { status: 400 | 404 | 405 | 406, .. }, .. }) => {
            Ok(Session::Sse(LegacySse::connect(inner, endpoint, deadline).await?))
        }
        other => other,
    }
}

/// Asks whether the server speaks the current era.
async fn discover(inner: &Arc<Inner>, endpoint: &Endpoint, deadline: Instant) -> Result<bool, McpFailure> {
    let mut asked_again = false;
    loop {
        let exchange =
            Exchange { inner, endpoint, session: &Session::Current, mode: Mode::Repeatable, deadline, progress: None };
        let reply = exchange.request("server/discover", Map::new(), Vec::new()).await;
        let error = match reply {
            Ok(Reply { result, .. }) => {
                let versions = result.get("supportedVersions").and_then(Value::as_array);
                return Ok(versions.is_some_and(|versions| versions.iter().any(|version| version == CURRENT)));
            }
            Err(failure) => failure,
        };
        match error.error {
            McpError::Rpc { code: -32022, data, .. } if !asked_again => {
                let supported = data.as_ref().and_then(|data| data.get("supported")).and_then(Value::as_array);
                if !supported.is_some_and(|versions| versions.iter().any(|version| version == CURRENT)) {
                    return Ok(false);
                }
                // It speaks this version and says so: it is asked once more.
                asked_again = true;
            }
            McpError::Rpc { .. } | McpError::Http { .. } | McpError::Protocol(_) => return Ok(false),
            _ => return Err(error),
        }
    }
}

/// The legacy handshake.
async fn initialize(inner: &Arc<Inner>, endpoint: &Endpoint, deadline: Instant) -> Result<Session, McpFailure> {
    let bare = Session::Legacy { version: String::new(), id: None };
    let exchange = Exchange { inner, endpoint, session: &bare, mode: Mode::Repeatable, deadline, progress: None };
    let reply = exchange.request("initialize", initialize_params(inner), Vec::new()).await?;
    let version = agreed_version(&reply.result)?;
    let session = Session::Legacy { version, id: reply.session_id };
    let exchange = Exchange { inner, endpoint, session: &session, mode: Mode::Repeatable, deadline, progress: None };
    exchange.notify(&message::notification("notifications/initialized", json!({}))).await?;
    Ok(session)
}

pub(crate) fn initialize_params(inner: &Inner) -> Map<String, Value> {
    Map::from_iter([
        ("protocolVersion".to_owned(), LEGACY[0].into()),
        ("capabilities".to_owned(), inner.handler.capabilities()),
        ("clientInfo".to_owned(), message::client_info()),
    ])
}

/// The version that a server answered the handshake with.
pub(crate) fn agreed_version(result: &Value) -> Result<String, McpFailure> {
    let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or("no version");
    if LEGACY.contains(&version) {
        Ok(version.to_owned())
    } else {
        Err(McpFailure::unsent(McpError::Version(version.chars().take(64).collect())))
    }
}
