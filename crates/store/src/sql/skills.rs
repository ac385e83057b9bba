//! The statements of [`Skills`].

use async_trait::async_trait;
use sqlx::{FromRow, Row as _};

use super::revision::{next_revision, read_row};
use super::{Database, Row, Tx, text_of};
use crate::changes::Change;
use crate::error::StoreError;
use crate::revision::{Expect, Revision, WriteKind, Written};
use crate::skills::{SkillRow, SkillVersionRow, SkillWrite, Skills};
use crate::tools::KEPT_VERSIONS;

impl FromRow<'_, Row> for SkillRow {
    fn from_row(row: &Row) -> Result<Self, sqlx::Error> {
        Ok(Self {
            scope: row.try_get("scope")?,
            name: row.try_get("name")?,
            document: text_of(row, "document")?,
            version: row.try_get("version")?,
            revision: Revision(row.try_get("revision")?),
            actor: row.try_get("actor")?,
            updated_at: row.try_get("updated_at")?,
        })
    }
}

#[async_trait]
impl Skills for Database {
    async fn put_skill(&self, skill: &SkillWrite, expect: Expect, actor: &str) -> Result<Written, StoreError> {
        let mut tx = self.write_catalog().await?;
        let (_, written) = put(&mut tx, skill, expect, actor, self.clock.now_ms()).await?;
        self.commit(tx, Change::Catalog).await?;
        Ok(written)
    }

    async fn seed_skills(&self, skills: &[SkillWrite], root: &str) -> Result<usize, StoreError> {
        let mut tx = self.write_catalog().await?;
        let mut changed = 0;
        for skill in skills {
            let theirs = current(&mut tx, &skill.scope, &skill.name).await?.is_some_and(|row| row.actor != root);
            if !theirs {
                let (_, written) = put(&mut tx, skill, Expect::Anything, root, self.clock.now_ms()).await?;
                changed += usize::from(written.kind != WriteKind::Unchanged);
            }
        }
        self.commit(tx, Change::Catalog).await?;
        Ok(changed)
    }

    async fn delete_skill(
        &self,
        scope: &str,
        name: &str,
        expect: Expect,
        actor: &str,
    ) -> Result<Option<Revision>, StoreError> {
        let mut tx = self.write_catalog().await?;
        let current = current(&mut tx, scope, name).await?.filter(|row| row.document.is_some());
        expect.check(current.as_ref().map(|row| row.revision), || format!("the skill {name}"))?;
        if current.is_none() {
            return Ok(None);
        }
        let revision = delete(&mut tx, scope, name, actor, self.clock.now_ms()).await?;
        self.commit(tx, Change::Catalog).await?;
        Ok(Some(revision))
    }

    async fn skills_changed(
        &self,
        since: Revision,
        upto: Revision,
    ) -> Result<Vec<Result<SkillRow, StoreError>>, StoreError> {
        let sql = "SELECT name, scope, document, version, revision, actor, updated_at FROM skills \
                   WHERE revision > $1 AND revision <= $2 ORDER BY revision";
        let rows = sqlx::query(sql).bind(since.0).bind(upto.0).fetch_all(self.readers()).await?;
        Ok(rows.iter().map(|row| read_row(row, "skills")).collect())
    }

    async fn skill_versions(&self, scope: &str, name: &str) -> Result<Vec<SkillVersionRow>, StoreError> {
        let sql = "SELECT version, document, actor, created_at FROM skill_versions WHERE scope = $1 AND name = $2 \
                   ORDER BY version DESC";
        Ok(sqlx::query_as(sql).bind(scope).bind(name).fetch_all(self.readers()).await?)
    }
}

async fn current(tx: &mut Tx, scope: &str, name: &str) -> Result<Option<SkillRow>, StoreError> {
    let sql = "SELECT scope, name, document, version, revision, actor, updated_at FROM skills \
               WHERE scope = $1 AND name = $2";
    Ok(sqlx::query_as(sql).bind(scope).bind(name).fetch_optional(&mut **tx).await?)
}

/// Writes a skill, and returns its text before.
pub(super) async fn put(
    tx: &mut Tx,
    skill: &SkillWrite,
    expect: Expect,
    actor: &str,
    now: i64,
) -> Result<(Option<String>, Written), StoreError> {
    let SkillWrite { scope, name, document } = skill;
    let current = current(tx, scope, name).await?;
    let live = current.as_ref().filter(|row| row.document.is_some());
    expect.check(live.map(|row| row.revision), || format!("the skill {name}"))?;
    let before = live.and_then(|row| row.document.clone());
    if let Some(row) = live.filter(|row| row.document.as_ref() == Some(document)) {
        return Ok((before, Written { kind: WriteKind::Unchanged, revision: row.revision }));
    }
    let kind = if live.is_some() { WriteKind::Updated } else { WriteKind::Created };
    let version = current.as_ref().map_or(1, |row| row.version + 1);
    let revision = next_revision(tx).await?;
    sqlx::query(
        "INSERT INTO skills (scope, name, document, version, revision, actor, created_at, updated_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $7) \
         ON CONFLICT (scope, name) DO UPDATE SET document = excluded.document, version = excluded.version, \
         revision = excluded.revision, actor = excluded.actor, updated_at = excluded.updated_at",
    )
    .bind(scope)
    .bind(name)
    .bind(document)
    .bind(version)
    .bind(revision.0)
    .bind(actor)
    .bind(now)
    .execute(&mut **tx)
    .await?;
    sqlx::query(
        "INSERT INTO skill_versions (scope, name, version, document, actor, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(scope)
    .bind(name)
    .bind(version)
    .bind(document)
    .bind(actor)
    .bind(now)
    .execute(&mut **tx)
    .await?;
    sqlx::query("DELETE FROM skill_versions WHERE scope = $1 AND name = $2 AND version <= $3")
        .bind(scope)
        .bind(name)
        .bind(version - KEPT_VERSIONS)
        .execute(&mut **tx)
        .await?;
    Ok((before, Written { kind, revision }))
}

/// Deletes a skill that is there.
pub(super) async fn delete(
    tx: &mut Tx,
    scope: &str,
    name: &str,
    actor: &str,
    now: i64,
) -> Result<Revision, StoreError> {
    let revision = next_revision(tx).await?;
    let sql = "UPDATE skills SET document = NULL, revision = $1, updated_at = $2, actor = $3 \
               WHERE scope = $4 AND name = $5";
    sqlx::query(sql).bind(revision.0).bind(now).bind(actor).bind(scope).bind(name).execute(&mut **tx).await?;
    Ok(revision)
}

/// The skills that are an agent's own, with their texts.
pub(super) async fn own(tx: &mut Tx, agent: &str) -> Result<Vec<(String, String)>, StoreError> {
    let sql = "SELECT name, document FROM skills WHERE scope = $1 AND document IS NOT NULL ORDER BY name";
    Ok(sqlx::query_as(sql).bind(agent).fetch_all(&mut **tx).await?)
}
