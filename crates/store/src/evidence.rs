//! The ids that a session may cite.

use async_trait::async_trait;

use crate::error::StoreError;

/// How many ids a session keeps; the oldest go.
pub const MAX_EVIDENCE: i64 = 1_000;

/// The ids that a session may cite.
#[async_trait]
pub trait Evidence: Send + Sync {
    /// Records ids that a tool's result showed in a session.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn record_evidence(&self, session: &str, agent: &str, kind: &str, ids: &[String]) -> Result<(), StoreError>;

    /// The ids of a session, as kind, id and the agent that saw it last, newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn evidence(&self, session: &str) -> Result<Vec<(String, String, String)>, StoreError>;
}
