//! Packs: an agent with its tools and its own skills, written together.

use async_trait::async_trait;
use toolcrib_definition::Definition;

use crate::error::StoreError;
use crate::revision::{Expect, Revision, WriteKind};
use crate::skills::SkillWrite;

/// A pack as rows.
#[derive(Debug, Clone)]
pub struct PackRows {
    /// The id of the agent.
    pub agent: String,
    /// Its profile as JSON text.
    pub profile: String,
    /// Its tools.
    pub tools: Vec<Definition>,
    /// Its own skills: all of them, so that others of its own are deleted.
    pub skills: Vec<SkillWrite>,
}

/// What a row of a pack is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackPart {
    /// The agent.
    Agent,
    /// One of its tools.
    Tool,
    /// One of its own skills.
    Skill,
}

/// What became of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackChange {
    /// What it is.
    pub part: PackPart,
    /// Its id or name.
    pub name: String,
    /// What the write did; none for a row that was deleted.
    pub kind: Option<WriteKind>,
    /// Its text before, when there was one.
    pub before: Option<String>,
    /// Its text after, when there is one.
    pub after: Option<String>,
}

/// What a pack changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackApplied {
    /// Each row, the agent first, then tools, then skills.
    pub changes: Vec<PackChange>,
    /// The revision of the agent's row: after the write, or of a dry run before it. None when there is none.
    pub revision: Option<Revision>,
}

/// Packs.
#[async_trait]
pub trait Packs: Send + Sync {
    /// Writes a pack in one transaction: all of it, or nothing. With `dry`, nothing is written, and the answer is what
    /// would be.
    ///
    /// # Errors
    /// [`StoreError::StaleRevision`] when the expectation of the agent's row does not hold.
    async fn apply_pack(
        &self,
        pack: &PackRows,
        expect: Expect,
        actor: &str,
        dry: bool,
    ) -> Result<PackApplied, StoreError>;
}
