//! The statements of [`Agents`].

use async_trait::async_trait;
use sqlx::{FromRow, Row as _};

use super::revision::{next_revision, read_row};
use super::{Database, Row, Tx, skills};
use crate::agents::{AgentRow, Agents};
use crate::changes::Change;
use crate::error::StoreError;
use crate::revision::{Expect, Revision, WriteKind, Written};

impl FromRow<'_, Row> for AgentRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            profile: row.try_get("profile")?,
            revision: Revision(row.try_get("revision")?),
            updated_at: row.try_get("updated_at")?,
        })
    }
}

#[async_trait]
impl Agents for Database {
    async fn put_agent(&self, id: &str, profile: &str, expect: Expect) -> Result<Written, StoreError> {
        let mut tx = self.write_catalog().await?;
        let (_, written) = put(&mut tx, id, profile, expect, self.clock.now_ms()).await?;
        self.commit(tx, Change::Catalog).await?;
        Ok(written)
    }

    async fn delete_agent(&self, id: &str, expect: Expect) -> Result<Option<Revision>, StoreError> {
        let mut tx = self.write_catalog().await?;
        let sql = "SELECT revision FROM agents WHERE id = $1 AND profile IS NOT NULL";
        let current: Option<i64> = sqlx::query_scalar(sql).bind(id).fetch_optional(&mut *tx).await?;
        expect.check(current.map(Revision), || format!("the agent {id}"))?;
        if current.is_none() {
            return Ok(None);
        }
        let revision = next_revision(&mut tx).await?;
        sqlx::query("UPDATE agents SET profile = NULL, revision = $1, updated_at = $2 WHERE id = $3")
            .bind(revision.0)
            .bind(self.clock.now_ms())
            .bind(id)
            .execute(&mut *tx)
            .await?;
        // What was its own goes with it: another agent of this id begins with nothing.
        for (name, _) in skills::own(&mut tx, id).await? {
            skills::delete(&mut tx, id, &name, "deleted with its agent", self.clock.now_ms()).await?;
        }
        let sql = "UPDATE turns SET cancelled = 1 WHERE agent = $1 AND state IN ('queued', 'running', 'parked')";
        sqlx::query(sql).bind(id).execute(&mut *tx).await?;
        let sql = "UPDATE turns SET place = NULL WHERE agent = $1 AND place IS NOT NULL";
        sqlx::query(sql).bind(id).execute(&mut *tx).await?;
        self.commit(tx, Change::Catalog).await?;
        Ok(Some(revision))
    }

    async fn agents_changed(
        &self,
        since: Revision,
        upto: Revision,
    ) -> Result<Vec<Result<AgentRow, StoreError>>, StoreError> {
        let sql = "SELECT id, profile, revision, updated_at FROM agents \
                   WHERE revision > $1 AND revision <= $2 ORDER BY revision";
        let rows = sqlx::query(sql).bind(since.0).bind(upto.0).fetch_all(self.readers()).await?;
        Ok(rows.iter().map(|row| read_row(row, "agents")).collect())
    }
}

/// Writes a profile, and returns the one before.
pub(super) async fn put(
    tx: &mut Tx,
    id: &str,
    profile: &str,
    expect: Expect,
    now: i64,
) -> Result<(Option<String>, Written), StoreError> {
    let sql = "SELECT id, profile, revision, updated_at FROM agents WHERE id = $1 AND profile IS NOT NULL";
    let current: Option<AgentRow> = sqlx::query_as(sql).bind(id).fetch_optional(&mut **tx).await?;
    expect.check(current.as_ref().map(|row| row.revision), || format!("the agent {id}"))?;
    if let Some(row) = current.as_ref().filter(|row| row.profile.as_deref() == Some(profile)) {
        return Ok((Some(profile.to_owned()), Written { kind: WriteKind::Unchanged, revision: row.revision }));
    }
    let kind = if current.is_some() { WriteKind::Updated } else { WriteKind::Created };
    let revision = next_revision(tx).await?;
    sqlx::query(
        "INSERT INTO agents (id, profile, revision, created_at, updated_at) VALUES ($1, $2, $3, $4, $4) \
         ON CONFLICT (id) DO UPDATE SET profile = excluded.profile, revision = excluded.revision, \
         updated_at = excluded.updated_at",
    )
    .bind(id)
    .bind(profile)
    .bind(revision.0)
    .bind(now)
    .execute(&mut **tx)
    .await?;
    Ok((current.and_then(|row| row.profile), Written { kind, revision }))
}
