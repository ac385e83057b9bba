//! What can go wrong with an MCP server.

use toolcrib_egress::{Completeness, EgressError, SendFailure, Sent, Timings};

/// Why a request to an MCP server has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The request got no whole answer.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// The server wants other credentials.
    #[error("the MCP server refuses the credentials (HTTP {status})")]
    Auth {
        /// 401 or 403.
        status: u16,
        /// The `WWW-Authenticate` header.
        challenge: String,
    },
    /// No token could be obtained.
    #[error("no token for the MCP server: {0}")]
    OAuth(String),
    /// An HTTP status that no MCP server should give here.
    #[error("the MCP server answered HTTP {status}")]
    Http {
        /// The status.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// A JSON-RPC error.
    #[error("the MCP server says: {message} ({code})")]
    Rpc {
        /// The code of JSON-RPC or MCP.
        code: i64,
        /// The message, cut to a bound.
        message: String,
        /// The data.
        data: Option<serde_json::Value>,
    },
    /// The server broke the protocol.
    #[error("the MCP server broke the protocol: {0}")]
    Protocol(String),
    /// The answer is over its bound.
    #[error("the answer of the MCP server is larger than {bytes} bytes")]
    TooLarge {
        /// The bound.
        bytes: usize,
    },
    /// The answer did not come in time.
    #[error("the MCP server did not answer in time")]
    Timeout,
    /// The session ended while the request was under way.
    #[error("the MCP session ended during the call")]
    SessionLost,
    /// The server speaks no version that we do.
    #[error("the MCP server speaks only {0}, which is not known here")]
    Version(String),
    /// A secret of the server's headers is not configured.
    #[error(
        "the secret {name:?} of the MCP server is not configured; set it in the environment or in the folder of secrets"
    )]
    Secret {
        /// Its name.
        name: String,
    },
    /// The tool asks for something that can't be given here.
    #[error("the tool asks for {0}, which can't be given here")]
    InputRequired(String),
}

/// The codes of [`McpError`] with what they mean, for the reference.
pub const MCP_CODES: &[(&str, &str)] = &[
    ("mcp.auth", "The MCP server refuses the credentials of its row."),
    ("mcp.oauth", "No token could be obtained for an MCP server; the message says at which step."),
    ("mcp.mark", "What waits to be accepted is something else than the mark says; look at it again."),
    ("mcp.changing", "The rows of an MCP server changed each time it was looked at; try again in a moment."),
    ("mcp.row", "The row of an MCP server can't be read; write it anew."),
    ("mcp.http", "The MCP server answered with an HTTP status that is none of MCP."),
    ("mcp.rpc", "The MCP server answered with a JSON-RPC error."),
    ("mcp.protocol", "The MCP server broke the protocol; the message says how."),
    ("mcp.too_large", "The answer of the MCP server is larger than its bound."),
    ("mcp.timeout", "The MCP server did not answer in time."),
    ("mcp.session", "The MCP session ended during a call; a call with a side effect is not sent again."),
    ("mcp.version", "The MCP server speaks no protocol version that is known here."),
    ("mcp.secret", "A secret of an MCP server's headers is not configured."),
    ("mcp.input", "A tool asked for sampling, elicitation or roots, which can't be given here."),
];

impl McpError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            McpError::Egress(error) => error.code(),
            McpError::Auth { .. } => "mcp.auth",
            McpError::OAuth(_) => "mcp.oauth",
            McpError::Http { .. } => "mcp.http",
            McpError::Rpc { .. } => "mcp.rpc",
            McpError::Protocol(_) => "mcp.protocol",
            McpError::TooLarge { .. } => "mcp.too_large",
            McpError::Timeout => "mcp.timeout",
            McpError::SessionLost => "mcp.session",
            McpError::Version(_) => "mcp.version",
            McpError::Secret { .. } => "mcp.secret",
            McpError::InputRequired(_) => "mcp.input",
        }
    }

    /// Whether the same request may succeed a moment later.
    pub fn retryable(&self) -> bool {
        match self {
            McpError::Egress(error) => error.retryable(),
            McpError::Http { status, .. } => matches!(status, 408 | 429 | 502..=504),
            McpError::Timeout => true,
            McpError::Auth { .. }
            | McpError::OAuth(_)
            | McpError::Rpc { .. }
            | McpError::Protocol(_)
            | McpError::TooLarge { .. }
            | McpError::SessionLost
            | McpError::Version(_)
            | McpError::Secret { .. }
            | McpError::InputRequired(_) => false,
        }
    }

    pub(crate) fn protocol(words: impl Into<String>) -> Self {
        McpError::Protocol(words.into())
    }
}

impl From<Completeness> for McpError {
    fn from(completeness: Completeness) -> Self {
        match completeness {
            Completeness::OverBound(bytes) => McpError::TooLarge { bytes },
            Completeness::TimedOut => McpError::Timeout,
            Completeness::Unreadable => McpError::protocol("the answer is compressed, which was not asked for"),
            Completeness::Whole | Completeness::BrokenOff => McpError::protocol("the answer broke off"),
        }
    }
}

/// A request without a result, and whether any of it may have arrived.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct McpFailure {
    /// Why.
    #[source]
    pub error: McpError,
    /// Whether any of the request itself left; a handshake before it does not count.
    pub sent: Sent,
    /// How long the phases took that were gone through.
    pub timings: Timings,
}

impl McpFailure {
    /// A failure before anything was sent.
    pub fn before(error: impl Into<McpError>) -> Self {
        Self::unsent(error)
    }

    pub(crate) fn unsent(error: impl Into<McpError>) -> Self {
        Self { error: error.into(), sent: Sent::Nothing, timings: Timings::default() }
    }

    pub(crate) fn in_doubt(error: impl Into<McpError>, timings: Timings) -> Self {
        Self { error: error.into(), sent: Sent::InDoubt, timings }
    }
}

impl From<SendFailure> for McpFailure {
    fn from(failure: SendFailure) -> Self {
        Self { error: failure.error.into(), sent: failure.sent, timings: failure.timings }
    }
}
