//! The statements of [`Packs`].

use async_trait::async_trait;

use super::{Database, agents, skills, tools};
use crate::changes::Change;
use crate::error::StoreError;
use crate::packs::{PackApplied, PackChange, PackPart, PackRows, Packs};
use crate::revision::{Expect, Revision};

#[async_trait]
impl Packs for Database {
    async fn apply_pack(
        &self,
        pack: &PackRows,
        expect: Expect,
        actor: &str,
        dry: bool,
    ) -> Result<PackApplied, StoreError> {
        let mut tx = self.write_catalog().await?;
        let now = self.clock.now_ms();
        let mut changes = Vec::with_capacity(1 + pack.tools.len());
        let known: Option<i64> =
            sqlx::query_scalar("SELECT revision FROM agents WHERE id = $1 AND profile IS NOT NULL")
                .bind(&pack.agent)
                .fetch_optional(&mut *tx)
                .await?;
        let (before, written) = agents::put(&mut tx, &pack.agent, &pack.profile, expect, now).await?;
        let revision = if dry { known.map(Revision) } else { Some(written.revision) };
        let mut change = |part, name: &str, kind, before, after| {
            changes.push(PackChange { part, name: name.to_owned(), kind, before, after });
        };
        change(PackPart::Agent, &pack.agent, Some(written.kind), before, Some(pack.profile.clone()));
        for tool in &pack.tools {
            let name = tool.name.as_str();
            let before = tools::current(&mut tx, name).await?.and_then(|row| row.definition);
            let written = tools::put(&mut tx, tool, Expect::Anything, actor, now).await?;
            change(PackPart::Tool, name, Some(written.kind), before, Some(tool.to_json().to_string()));
        }
        for (name, document) in skills::own(&mut tx, &pack.agent).await? {
            if !pack.skills.iter().any(|skill| skill.name == name) {
                skills::delete(&mut tx, &pack.agent, &name, actor, now).await?;
                change(PackPart::Skill, &name, None, Some(document), None);
            }
        }
        for skill in &pack.skills {
            let (before, written) = skills::put(&mut tx, skill, Expect::Anything, actor, now).await?;
            change(PackPart::Skill, &skill.name, Some(written.kind), before, Some(skill.document.clone()));
        }
        if dry {
            tx.rollback().await?;
        } else {
            self.commit(tx, Change::Catalog).await?;
        }
        Ok(PackApplied { changes, revision })
    }
}
