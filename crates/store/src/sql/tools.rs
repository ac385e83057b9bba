//! The statements of [`Tools`].

use async_trait::async_trait;
use sqlx::{FromRow, Row as _};
use toolcrib_definition::Definition;

use super::revision::{next_revision, read_row};
use super::{Database, Row, Tx, text_of};
use crate::changes::Change;
use crate::error::StoreError;
use crate::revision::{Expect, Revision, WriteKind, Written};
use crate::tools::{KEPT_VERSIONS, ToolRow, Tools, VersionRow};

impl FromRow<'_, Row> for ToolRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self {
            name: row.try_get("name")?,
            definition: text_of(row, "definition")?,
            version: row.try_get("version")?,
            revision: Revision(row.try_get("revision")?),
            created_at: row.try_get("created_at")?,
            updated_at: row.try_get("updated_at")?,
        })
    }
}

impl Database {
    async fn put_all<'a>(
        &self,
        tools: impl Iterator<Item = (&'a Definition, Expect)>,
        actor: &str,
    ) -> Result<Vec<Written>, StoreError> {
        let mut tx = self.write_catalog().await?;
        let now = self.clock.now_ms();
        let mut written = Vec::with_capacity(tools.size_hint().0);
        for (tool, expect) in tools {
            written.push(put(&mut tx, tool, expect, actor, now).await?);
        }
        self.commit(tx, Change::Catalog).await?;
        Ok(written)
    }
}

#[async_trait]
impl Tools for Database {
    async fn put_tool(&self, tool: &Definition, expect: Expect, actor: &str) -> Result<Written, StoreError> {
        let mut tx = self.write_catalog().await?;
        let written = put(&mut tx, tool, expect, actor, self.clock.now_ms()).await?;
        self.commit(tx, Change::Catalog).await?;
        Ok(written)
    }

    async fn put_tools(&self, tools: &[Definition], actor: &str) -> Result<Vec<Written>, StoreError> {
        self.put_all(tools.iter().map(|tool| (tool, Expect::Anything)), actor).await
    }

    async fn put_tools_expecting(
        &self,
        tools: &[(Definition, Expect)],
        actor: &str,
    ) -> Result<Vec<Written>, StoreError> {
        self.put_all(tools.iter().map(|(tool, expect)| (tool, *expect)), actor).await
    }

    async fn delete_tool(&self, name: &str, expect: Expect) -> Result<Option<Revision>, StoreError> {
        let mut tx = self.write_catalog().await?;
        let Some(current) = current(&mut tx, name).await?.filter(|row| row.definition.is_some()) else {
            expect.check(None, || format!("the tool {name}"))?;
            return Ok(None);
        };
        expect.check(Some(current.revision), || format!("the tool {name}"))?;
        let revision = next_revision(&mut tx).await?;
        sqlx::query("UPDATE tools SET definition = NULL, revision = $1, updated_at = $2 WHERE name = $3")
            .bind(revision.0)
            .bind(self.clock.now_ms())
            .bind(name)
            .execute(&mut *tx)
            .await?;
        self.commit(tx, Change::Catalog).await?;
        Ok(Some(revision))
    }

    async fn tool(&self, name: &str) -> Result<Option<ToolRow>, StoreError> {
        let sql = "SELECT name, definition, version, revision, created_at, updated_at FROM tools \
                   WHERE name = $1 AND definition IS NOT NULL";
        Ok(sqlx::query_as(sql).bind(name).fetch_optional(self.readers()).await?)
    }

    async fn tools_changed(
        &self,
        since: Revision,
        upto: Revision,
        most: u32,
    ) -> Result<Vec<Result<ToolRow, StoreError>>, StoreError> {
        let sql = "SELECT name, definition, version, revision, created_at, updated_at FROM tools \
                   WHERE revision > $1 AND revision <= $2 ORDER BY revision LIMIT $3";
        let rows = sqlx::query(sql).bind(since.0).bind(upto.0).bind(i64::from(most)).fetch_all(self.readers()).await?;
        Ok(rows.iter().map(|row| read_row(row, "tools")).collect())
    }

    async fn tool_versions(&self, name: &str) -> Result<Vec<VersionRow>, StoreError> {
        let sql = "SELECT version, definition, actor, created_at FROM tool_versions WHERE name = $1 \
                   ORDER BY version DESC";
        Ok(sqlx::query_as(sql).bind(name).fetch_all(self.readers()).await?)
    }

    async fn tool_version(&self, name: &str, version: i64) -> Result<Option<VersionRow>, StoreError> {
        let sql = "SELECT version, definition, actor, created_at FROM tool_versions WHERE name = $1 AND version = $2";
        Ok(sqlx::query_as(sql).bind(name).bind(version).fetch_optional(self.readers()).await?)
    }
}

pub(super) async fn current(tx: &mut Tx, name: &str) -> Result<Option<ToolRow>, StoreError> {
    let sql = "SELECT name, definition, version, revision, created_at, updated_at FROM tools WHERE name = $1";
    Ok(sqlx::query_as(sql).bind(name).fetch_optional(&mut **tx).await?)
}

/// Keeps a text that another hand wrote into the row as a version of its own, and returns the number of
/// the last version.
async fn keep_foreign_text(tx: &mut Tx, row: &ToolRow, now: i64) -> Result<i64, StoreError> {
    let Some(definition) = &row.definition else { return Ok(row.version) };
    let sql = "SELECT definition FROM tool_versions WHERE name = $1 AND version = $2";
    let kept: Option<String> =
        sqlx::query_scalar(sql).bind(&row.name).bind(row.version).fetch_optional(&mut **tx).await?;
    let version = match kept {
        Some(kept) if kept == *definition => return Ok(row.version),
        Some(_) => row.version + 1,
        None => row.version,
    };
    keep_version(tx, &row.name, version, definition, "unknown", now).await?;
    Ok(version)
}

async fn keep_version(
    tx: &mut Tx,
    name: &str,
    version: i64,
    definition: &str,
    actor: &str,
    now: i64,
) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO tool_versions (name, version, definition, actor, created_at) VALUES ($1, $2, $3, $4, $5)")
        .bind(name)
        .bind(version)
        .bind(definition)
        .bind(actor)
        .bind(now)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

pub(super) async fn put(
    tx: &mut Tx,
    tool: &Definition,
    expect: Expect,
    actor: &str,
    now: i64,
) -> Result<Written, StoreError> {
    let name = tool.name.as_str();
    let definition = tool.to_json().to_string();
    let current = current(tx, name).await?;
    let live = current.as_ref().filter(|row| row.definition.is_some());
    expect.check(live.map(|row| row.revision), || format!("the tool {name}"))?;
    if let Some(row) = live.filter(|row| row.definition.as_ref() == Some(&definition)) {
        return Ok(Written { kind: WriteKind::Unchanged, revision: row.revision });
    }
    let kind = if live.is_some() { WriteKind::Updated } else { WriteKind::Created };
    let version = match &current {
        None => 1,
        Some(row) => keep_foreign_text(tx, row, now).await? + 1,
    };
    let revision = next_revision(tx).await?;
    sqlx::query(
        "INSERT INTO tools (name, definition, version, revision, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $5) \
         ON CONFLICT (name) DO UPDATE SET definition = excluded.definition, version = excluded.version, \
         revision = excluded.revision, updated_at = excluded.updated_at",
    )
    .bind(name)
    .bind(&definition)
    .bind(version)
    .bind(revision.0)
    .bind(now)
    .execute(&mut **tx)
    .await?;
    keep_version(tx, name, version, &definition, actor, now).await?;
    sqlx::query("DELETE FROM tool_versions WHERE name = $1 AND version <= $2")
        .bind(name)
        .bind(version - KEPT_VERSIONS)
        .execute(&mut **tx)
        .await?;
    Ok(Written { kind, revision })
}
