//! Tools and their versions.

use async_trait::async_trait;
use sqlx::FromRow;
use toolcrib_definition::Definition;

use crate::error::StoreError;
use crate::revision::{Expect, Revision, Written};

/// How many versions of a tool are kept.
pub const KEPT_VERSIONS: i64 = 20;

/// A stored tool. The definition is text, so that one which no longer validates is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRow {
    /// The name.
    pub name: String,
    /// The stored form of the definition; none when the tool was deleted.
    pub definition: Option<String>,
    /// The version, from 1.
    pub version: i64,
    /// The revision of the last write.
    pub revision: Revision,
    /// When it was first written, in ms since 1970.
    pub created_at: i64,
    /// When it was last written, in ms since 1970.
    pub updated_at: i64,
}

/// A version of a tool.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct VersionRow {
    /// The version, from 1.
    pub version: i64,
    /// The stored form of the definition.
    pub definition: String,
    /// Who wrote it: the name of a token.
    pub actor: String,
    /// When it was written, in ms since 1970.
    pub created_at: i64,
}

/// Tools and their versions.
#[async_trait]
pub trait Tools: Send + Sync {
    /// Writes a tool and keeps the version before it.
    ///
    /// # Errors
    /// [`StoreError::StaleRevision`] when the expectation does not hold.
    async fn put_tool(&self, tool: &Definition, expect: Expect, actor: &str) -> Result<Written, StoreError>;

    /// Writes many tools in one transaction: all of them, or none.
    ///
    /// # Errors
    /// [`StoreError`] of the first that fails.
    async fn put_tools(&self, tools: &[Definition], actor: &str) -> Result<Vec<Written>, StoreError>;

    /// The same, each tool with what the writer believes of its row.
    ///
    /// # Errors
    /// [`StoreError::StaleRevision`] when one expectation does not hold; then none is written.
    async fn put_tools_expecting(
        &self,
        tools: &[(Definition, Expect)],
        actor: &str,
    ) -> Result<Vec<Written>, StoreError>;

    /// Deletes a tool and keeps its versions. `Ok(None)` when there is none.
    ///
    /// # Errors
    /// [`StoreError::StaleRevision`] when the expectation does not hold.
    async fn delete_tool(&self, name: &str, expect: Expect) -> Result<Option<Revision>, StoreError>;

    /// A tool, when there is one that was not deleted.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn tool(&self, name: &str) -> Result<Option<ToolRow>, StoreError>;

    /// At most `most` rows above `since` and up to `upto`, deleted ones included, lowest revision first. A
    /// row that can't be read is a [`StoreError::BadRow`] among them.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn tools_changed(
        &self,
        since: Revision,
        upto: Revision,
        most: u32,
    ) -> Result<Vec<Result<ToolRow, StoreError>>, StoreError>;

    /// The kept versions of a tool, newest first; also of one that was deleted.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn tool_versions(&self, name: &str) -> Result<Vec<VersionRow>, StoreError>;

    /// One version of a tool.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn tool_version(&self, name: &str, version: i64) -> Result<Option<VersionRow>, StoreError>;
}
