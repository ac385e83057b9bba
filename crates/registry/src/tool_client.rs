//! What a running tool can tell its caller, and ask of it.

use std::fmt;

use async_trait::async_trait;
use serde_json::Value;

/// How much a log message matters, as RFC 5424 orders it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// For those who look for a fault.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth a look.
    Notice,
    /// May become a fault.
    Warning,
    /// A fault.
    Error,
    /// A fault of something that others need.
    Critical,
    /// Somebody has to act now.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    /// Every level, the least first.
    pub const ALL: [LogLevel; 8] = [
        LogLevel::Debug,
        LogLevel::Info,
        LogLevel::Notice,
        LogLevel::Warning,
        LogLevel::Error,
        LogLevel::Critical,
        LogLevel::Alert,
        LogLevel::Emergency,
    ];

    /// The word in MCP.
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Notice => "notice",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
            LogLevel::Critical => "critical",
            LogLevel::Alert => "alert",
            LogLevel::Emergency => "emergency",
        }
    }

    /// The level with this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// Something that a tool asks of its caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// Input of a person: MCP's `elicitation/create`, with its parameters.
    Elicitation(Value),
    /// A completion by the caller's model: MCP's `sampling/createMessage`, with its parameters.
    Sampling(Value),
    /// The folders that the caller works in: MCP's `roots/list`.
    Roots,
}

impl Ask {
    /// The capability that a caller must have declared.
    pub fn capability(&self) -> &'static str {
        match self {
            Ask::Elicitation(_) => "elicitation",
            Ask::Sampling(_) => "sampling",
            Ask::Roots => "roots",
        }
    }

    /// The method in MCP.
    pub fn method(&self) -> &'static str {
        match self {
            Ask::Elicitation(_) => "elicitation/create",
            Ask::Sampling(_) => "sampling/createMessage",
            Ask::Roots => "roots/list",
        }
    }

    /// The parameters in MCP.
    pub fn params(&self) -> Value {
        match self {
            Ask::Elicitation(params) | Ask::Sampling(params) => params.clone(),
            Ask::Roots => Value::Object(serde_json::Map::new()),
        }
    }
}

/// Why there is no answer yet, or none at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The caller answers with its next request, which runs the tool again from its beginning. Pass it on.
    #[error("the tool waits for an answer")]
    Waits,
    /// The caller did not declare that it can.
    #[error("the caller can't answer {0}")]
    Unsupported(&'static str),
    /// The caller went away, or said that something failed.
    #[error("{0}")]
    Failed(String),
}

impl From<AskError> for crate::code_tool::CodeToolError {
    fn from(error: AskError) -> Self {
        Self(error.to_string())
    }
}

/// The caller of a tool, as far as it listens and answers.
#[async_trait]
pub trait ToolClient: Send + Sync + fmt::Debug {
    /// Tells how far the work is. `total` is what `progress` will be at the end.
    fn progress(&self, _progress: f64, _total: Option<f64>, _message: Option<&str>) {}

    /// Whether anybody listens to progress.
    fn wants_progress(&self) -> bool {
        false
    }

    /// Tells something for a log.
    fn log(&self, _level: LogLevel, _logger: &str, _data: Value) {}

    /// Whether the caller declared a capability: `elicitation`, `sampling` or `roots`.
    fn supports(&self, _capability: &str) -> bool {
        false
    }

    /// Asks several things at once; the answers come in the same order. Each has a name that is the same
    /// when the tool runs again.
    ///
    /// # Errors
    /// [`AskError`]; a tool passes [`AskError::Waits`] on, and runs again with the answers.
    async fn ask(&self, asks: Vec<(String, Ask)>) -> Result<Vec<Value>, AskError> {
        Err(AskError::Unsupported(asks.first().map_or("anything", |(_, ask)| ask.capability())))
    }

    /// Whether the tool ended only to wait for an answer.
    fn waits(&self) -> bool {
        false
    }
}

/// A caller that neither listens nor answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoClient;

impl ToolClient for NoClient {}
