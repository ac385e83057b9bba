//! MCP servers, and what the last look at each found.

use async_trait::async_trait;
use sqlx::FromRow;

use crate::error::StoreError;
use crate::revision::{Expect, Written};

/// A stored MCP server.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct McpServerRow {
    /// The name.
    pub name: String,
    /// The server as JSON text.
    pub server: String,
    /// What the last look at it found, as JSON text.
    pub state: String,
    /// The revision of the last write of the server itself.
    pub revision: i64,
    /// When the server itself was last written, in ms since 1970.
    pub updated_at: i64,
}

/// MCP servers, and what the last look at each found.
#[async_trait]
pub trait McpServers: Send + Sync {
    /// Writes an MCP server. What was found of it before stays.
    ///
    /// # Errors
    /// [`StoreError::StaleRevision`] when the expectation does not hold.
    async fn put_mcp_server(&self, name: &str, server: &str, expect: Expect) -> Result<Written, StoreError>;

    /// Keeps what a look at a server found. Tells whether there still is such a server.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn set_mcp_state(&self, name: &str, state: &str) -> Result<bool, StoreError>;

    /// Deletes an MCP server. Tells whether there was one.
    ///
    /// # Errors
    /// [`StoreError::StaleRevision`] when the expectation does not hold.
    async fn delete_mcp_server(&self, name: &str, expect: Expect) -> Result<bool, StoreError>;

    /// An MCP server.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn mcp_server(&self, name: &str) -> Result<Option<McpServerRow>, StoreError>;

    /// All MCP servers, by name.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn mcp_servers(&self) -> Result<Vec<McpServerRow>, StoreError>;
}
