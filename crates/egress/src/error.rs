//! What can go wrong on the way out.

use std::time::Duration;

use crate::blocked::Blocked;

/// A request that got no whole answer. No variant holds a header, a body or a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// The policy refused.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// The name did not resolve.
    #[error("{host} does not resolve")]
    Resolve {
        /// The host.
        host: String,
        /// What the resolver says.
        reason: String,
    },
    /// No address could be connected to.
    #[error("no connection to {host}")]
    Connect {
        /// Host and port.
        host: String,
        /// What the operating system says of the last address.
        reason: String,
    },
    /// The TLS handshake failed.
    #[error("no TLS connection to {host}")]
    Tls {
        /// Host and port.
        host: String,
        /// What the TLS library says.
        reason: String,
    },
    /// A phase took longer than its limit.
    #[error("{phase} took longer than {} ms", limit.as_millis())]
    Timeout {
        /// The phase.
        phase: Phase,
        /// The limit.
        limit: Duration,
    },
    /// The peer broke the protocol or closed the connection.
    #[error("the upstream broke off: {reason}")]
    Protocol {
        /// What the HTTP library says.
        reason: String,
    },
    /// The barrier before the first byte withheld the request.
    #[error("the call was not sent: {reason}")]
    Withheld {
        /// Why.
        reason: String,
    },
    /// A header or the URL can't be put on the wire.
    #[error("the request can't be written: {reason}")]
    Request {
        /// Why.
        reason: String,
    },
}

/// A phase of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Waiting for one of the places that a host has.
    Queue,
    /// DNS, TCP and TLS.
    Connect,
    /// From the request to the first byte of the answer.
    FirstByte,
    /// The whole exchange.
    Exchange,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Phase::Queue => "waiting for a free connection to the host",
            Phase::Connect => "connecting",
            Phase::FirstByte => "waiting for the first byte",
            Phase::Exchange => "the whole exchange",
        })
    }
}

/// The codes of [`EgressError`] with what they mean, for the reference. Blocks have their own.
pub const EGRESS_CODES: &[(&str, &str)] = &[
    ("upstream.resolve", "The host of the tool's URL does not resolve."),
    ("upstream.connect", "No address of the host accepts a connection."),
    ("upstream.tls", "The TLS handshake with the host failed."),
    ("upstream.timeout", "A phase of the exchange took longer than its limit."),
    ("upstream.protocol", "The upstream broke the HTTP protocol or closed the connection."),
    (
        "call.withheld",
        "The ledger did not let the first byte go: the call was somebody else's by then, or the database failed.",
    ),
    ("upstream.request", "A header or the URL of the request can't be put on the wire."),
];

impl EgressError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            EgressError::Blocked(blocked) => blocked.reason.code(),
            EgressError::Resolve { .. } => "upstream.resolve",
            EgressError::Connect { .. } => "upstream.connect",
            EgressError::Tls { .. } => "upstream.tls",
            EgressError::Timeout { .. } => "upstream.timeout",
            EgressError::Protocol { .. } => "upstream.protocol",
            EgressError::Request { .. } => "upstream.request",
            EgressError::Withheld { .. } => "call.withheld",
        }
    }

    /// Whether the same request may succeed a moment later.
    pub fn retryable(&self) -> bool {
        match self {
            EgressError::Resolve { .. }
            | EgressError::Connect { .. }
            | EgressError::Timeout { .. }
            | EgressError::Protocol { .. } => true,
            EgressError::Blocked(_)
            | EgressError::Tls { .. }
            | EgressError::Request { .. }
            | EgressError::Withheld { .. } => false,
        }
    }

    /// What the operator may read beside the message: the words of the library underneath.
    pub fn reason(&self) -> Option<&str> {
        match self {
            EgressError::Resolve { reason, .. }
            | EgressError::Connect { reason, .. }
            | EgressError::Tls { reason, .. }
            | EgressError::Protocol { reason }
            | EgressError::Request { reason }
            | EgressError::Withheld { reason } => Some(reason),
            EgressError::Blocked(_) | EgressError::Timeout { .. } => None,
        }
    }
}
