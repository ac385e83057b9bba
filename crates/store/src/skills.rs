//! Skills and their versions. A skill is the text of its `SKILL.md`; another crate reads it.

use async_trait::async_trait;
use sqlx::FromRow;

use crate::error::StoreError;
use crate::revision::{Expect, Revision, Written};

/// The scope of skills that belong to no agent.
pub const SHARED: &str = "";

/// A stored skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillRow {
    /// [`SHARED`], or the id of the agent whose own it is.
    pub scope: String,
    /// The name.
    pub name: String,
    /// The text of its `SKILL.md`; none when the skill was deleted.
    pub document: Option<String>,
    /// The version, from 1.
    pub version: i64,
    /// The revision of the last write.
    pub revision: Revision,
    /// Who wrote it last.
    pub actor: String,
    /// When it was last written, in ms since 1970.
    pub updated_at: i64,
}

/// A version of a skill.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct SkillVersionRow {
    /// The version, from 1.
    pub version: i64,
    /// The text of its `SKILL.md`.
    pub document: String,
    /// Who wrote it: the name of a token.
    pub actor: String,
    /// When it was written, in ms since 1970.
    pub created_at: i64,
}

/// A skill to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillWrite {
    /// [`SHARED`], or the id of the agent whose own it is.
    pub scope: String,
    /// The name.
    pub name: String,
    /// The text of its `SKILL.md`.
    pub document: String,
}

/// Skills and their versions.
#[async_trait]
pub trait Skills: Send + Sync {
    /// Writes a skill and keeps the version before it.
    ///
    /// # Errors
    /// [`StoreError::StaleRevision`] when the expectation does not hold.
    async fn put_skill(&self, skill: &SkillWrite, expect: Expect, actor: &str) -> Result<Written, StoreError>;

    /// Writes what a disk root holds, under the name of that root: only skills that were never there, and those that
    /// the same root wrote last. What a person wrote or deleted stays. Returns how many rows changed.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn seed_skills(&self, skills: &[SkillWrite], root: &str) -> Result<usize, StoreError>;

    /// Deletes a skill and keeps its versions. `Ok(None)` when there is none.
    ///
    /// # Errors
    /// [`StoreError::StaleRevision`] when the expectation does not hold.
    async fn delete_skill(
        &self,
        scope: &str,
        name: &str,
        expect: Expect,
        actor: &str,
    ) -> Result<Option<Revision>, StoreError>;

    /// The rows above `since` and up to `upto`, deleted ones included, lowest revision first.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn skills_changed(
        &self,
        since: Revision,
        upto: Revision,
    ) -> Result<Vec<Result<SkillRow, StoreError>>, StoreError>;

    /// The versions of a skill, newest first, also of a deleted one.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn skill_versions(&self, scope: &str, name: &str) -> Result<Vec<SkillVersionRow>, StoreError>;
}
