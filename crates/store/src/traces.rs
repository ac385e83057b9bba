//! Traces: the readable record of each call.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::FromRow;

use crate::error::StoreError;
use crate::revision::Page;

/// A stored trace: what lists and filters need, and the document.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct TraceRow {
    /// The id, 32 hexadecimal digits.
    pub id: String,
    /// The session: the `chat_id` of the context, or empty.
    pub session: String,
    /// The agent.
    pub agent: String,
    /// The tool.
    pub tool: String,
    /// The key of the call.
    pub call_id: String,
    /// The status of the outcome.
    pub status: String,
    /// The code of the egress block, when it was blocked.
    pub blocked: Option<String>,
    /// When the call began, in ms since 1970.
    pub started_at: i64,
    /// How long it took, in ms.
    pub duration_ms: i64,
    /// The whole trace as JSON text.
    pub document: String,
}

/// Which traces are wanted. Empty means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceFilter {
    /// Of this session.
    pub session: Option<String>,
    /// Of this agent.
    pub agent: Option<String>,
    /// Of one of these agents.
    pub agents: Option<Vec<String>>,
    /// Of this tool.
    pub tool: Option<String>,
    /// With this status.
    pub status: Option<String>,
    /// Blocked by the egress policy.
    pub blocked: bool,
    /// Begun at this time or later, in ms since 1970.
    pub since: Option<i64>,
}

/// How long traces are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Traces older than this go.
    pub age: Duration,
    /// More traces than this go, oldest first.
    pub count: u64,
}

/// The calls that began in a span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromRow)]
pub struct CallCount {
    /// All of them.
    pub calls: i64,
    /// Those that ended as `error`.
    pub errors: i64,
    /// Those that the egress policy blocked.
    pub blocked: i64,
}

/// How a tool was used.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ToolUse {
    /// The tool.
    pub tool: String,
    /// When its last call began, in ms since 1970.
    pub last_call: i64,
    /// Its calls since the time that was asked for.
    pub calls: i64,
    /// Those of them that ended as `error`.
    pub errors: i64,
}

/// Traces.
#[async_trait]
pub trait Traces: Send + Sync {
    /// Writes many traces in one transaction.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written; then none is kept.
    async fn insert_traces(&self, traces: &[TraceRow]) -> Result<(), StoreError>;

    /// A trace.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn trace(&self, id: &str) -> Result<Option<TraceRow>, StoreError>;

    /// How often the egress policy blocked calls begun at `since` or later, by tool and code.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn blocked_calls(&self, since: i64) -> Result<Vec<(String, String, i64)>, StoreError>;

    /// How many calls began from one time until before another, in ms since 1970.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn count_calls(&self, from: i64, until: i64) -> Result<CallCount, StoreError>;

    /// How these tools were used since a time. A tool without any call is left out.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn tool_use(&self, tools: &[String], since: i64) -> Result<Vec<ToolUse>, StoreError>;

    /// Traces without their documents, newest first, at most `most`. `after` is the `next` of the page before; one that is
    /// none of ours begins at the newest.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn traces(&self, filter: &TraceFilter, after: Option<&str>, most: u32) -> Result<Page<TraceRow>, StoreError>;

    /// Removes the traces that are older or more than the retention allows, a bounded number at
    /// once, and tells how many went.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn purge_traces(&self, retention: Retention) -> Result<u64, StoreError>;
}
