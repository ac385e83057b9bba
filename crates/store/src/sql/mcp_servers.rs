//! The statements of [`McpServers`].

use async_trait::async_trait;

use super::Database;
use super::revision::next_revision;
use crate::changes::Change;
use crate::error::StoreError;
use crate::mcp_servers::{McpServerRow, McpServers};
use crate::revision::{Expect, Revision, WriteKind, Written};

const COLUMNS: &str = "SELECT name, server, state, revision, updated_at FROM mcp_servers";

#[async_trait]
impl McpServers for Database {
    async fn put_mcp_server(&self, name: &str, server: &str, expect: Expect) -> Result<Written, StoreError> {
        let mut tx = self.write_catalog().await?;
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
        self.commit(tx, Change::Catalog).await?;
        Ok(Written { kind, revision })
    }

    async fn set_mcp_state(&self, name: &str, state: &str) -> Result<bool, StoreError> {
        let mut tx = self.write_catalog().await?;
        let done = sqlx::query("UPDATE mcp_servers SET state = $1 WHERE name = $2")
            .bind(state)
            .bind(name)
            .execute(&mut *tx)
            .await?;
        self.commit(tx, Change::Catalog).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn delete_mcp_server(&self, name: &str, expect: Expect) -> Result<bool, StoreError> {
        let mut tx = self.write_catalog().await?;
        let current: Option<i64> = sqlx::query_scalar("SELECT revision FROM mcp_servers WHERE name = $1")
            .bind(name)
            .fetch_optional(&mut *tx)
            .await?;
        expect.check(current.map(Revision), || format!("the MCP server {name}"))?;
        sqlx::query("DELETE FROM mcp_servers WHERE name = $1").bind(name).execute(&mut *tx).await?;
        self.commit(tx, Change::Catalog).await?;
        Ok(current.is_some())
    }

    async fn mcp_server(&self, name: &str) -> Result<Option<McpServerRow>, StoreError> {
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS} WHERE name = $1"));
        Ok(sqlx::query_as(sql).bind(name).fetch_optional(self.readers()).await?)
    }

    async fn mcp_servers(&self) -> Result<Vec<McpServerRow>, StoreError> {
        let sql = sqlx::AssertSqlSafe(format!("{COLUMNS} ORDER BY name"));
        Ok(sqlx::query_as(sql).fetch_all(self.readers()).await?)
    }
}
