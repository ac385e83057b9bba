//! Agents: who may use what. A profile is JSON text; the registry reads it.

use async_trait::async_trait;

use crate::error::StoreError;
use crate::revision::{Expect, Revision, Written};

/// A stored agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    /// The id.
    pub id: String,
    /// The profile as JSON text; none when the agent was deleted.
    pub profile: Option<String>,
    /// The revision of the last write.
    pub revision: Revision,
    /// When it was last written, in ms since 1970.
    pub updated_at: i64,
}

/// Agents.
#[async_trait]
pub trait Agents: Send + Sync {
    /// Writes an agent's profile.
    ///
    /// # Errors
    /// [`StoreError::StaleRevision`] when the expectation does not hold.
    async fn put_agent(&self, id: &str, profile: &str, expect: Expect) -> Result<Written, StoreError>;

    /// Deletes an agent. `Ok(None)` when there is none.
    ///
    /// # Errors
    /// [`StoreError::StaleRevision`] when the expectation does not hold.
    async fn delete_agent(&self, id: &str, expect: Expect) -> Result<Option<Revision>, StoreError>;

    /// The rows above `since` and up to `upto`, deleted ones included, lowest revision first.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn agents_changed(
        &self,
        since: Revision,
        upto: Revision,
    ) -> Result<Vec<Result<AgentRow, StoreError>>, StoreError>;
}
