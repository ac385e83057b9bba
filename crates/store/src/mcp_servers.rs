//! MCP servers, and what the last look at each found.

use sqlx::FromRow;

use crate::error::StoreError;
use crate::pool::Store;
use crate::revision::{Expect, Revision, WriteKind, Written, next_revision};

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

const COLUMNS: &str = "SELECT name, server, state, revision, updated_at FROM mcp_servers";

impl Store {
    /// Writes an MCP server. What was found of it before stays.
    ///
    /// # Errors
    /// [`StoreError::StaleRevision`] when the expectation does not hold.
    pub async fn put_mcp_server(&self, name: &str, server: &str, expect: Expect) -> Result<Written, StoreError> {
        let mut tx = self.write().await?;
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS} WHERE name = $1"));
        let current: Option<McpServerRow> = sqlx::query_as(sql).bind(name).fetch_optional(&mut *tx).await?;
        expect.check(current.as_ref().map(|row| Revision(row.revision)), || format!("the MCP server {name}"))?;
        if let Some(row) = current.as_ref().filter(|row| row.server == server) {
            return Ok(Written { kind: WriteKind::Unchanged, revision: Revision(row.revision) });
        }
        let kind = if current.is_some() { WriteKind::Updated } else { WriteKind::Created };
        let revision = next_revision(&mut tx).await?;
        sqlx::query(
            "INSERT INTO mcp_servers (name, server, state, revision, created_at, updated_at) \
             VALUES ($1, $2, '{}', $3, $4, $4) \
             ON CONFLICT (name) DO UPDATE SET server = excluded.server, revision = excluded.revision, \
             updated_at = excluded.updated_at",
        )
        .bind(name)
        .bind(server)
        .bind(revision.0)
        .bind(self.clock.now_ms())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(Written { kind, revision })
    }

    /// Keeps what a look at a server found. Tells whether there still is such a server.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    pub async fn set_mcp_state(&self, name: &str, state: &str) -> Result<bool, StoreError> {
        let mut tx = self.write().await?;
        let done = sqlx::query("UPDATE mcp_servers SET state = $1 WHERE name = $2")
            .bind(state)
            .bind(name)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    /// Deletes an MCP server. Tells whether there was one.
    ///
    /// # Errors
    /// [`StoreError::StaleRevision`] when the expectation does not hold.
    pub async fn delete_mcp_server(&self, name: &str, expect: Expect) -> Result<bool, StoreError> {
        let mut tx = self.write().await?;
        let current: Option<i64> = sqlx::query_scalar("SELECT revision FROM mcp_servers WHERE name = $1")
            .bind(name)
            .fetch_optional(&mut *tx)
            .await?;
        expect.check(current.map(Revision), || format!("the MCP server {name}"))?;
        sqlx::query("DELETE FROM mcp_servers WHERE name = $1").bind(name).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(current.is_some())
    }

    /// An MCP server.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    pub async fn mcp_server(&self, name: &str) -> Result<Option<McpServerRow>, StoreError> {
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS} WHERE name = $1"));
        Ok(sqlx::query_as(sql).bind(name).fetch_optional(self.readers()).await?)
    }

    /// All MCP servers, by name.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    pub async fn mcp_servers(&self) -> Result<Vec<McpServerRow>, StoreError> {
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS} ORDER BY name"));
        Ok(sqlx::query_as(sql).fetch_all(self.readers()).await?)
    }
}
