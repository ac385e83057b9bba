//! The live catalog of skills over their rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;
use toolcrib_definition::Problems;
use toolcrib_store::{Expect, Revision, SHARED, SkillRow, SkillWrite, Store, StoreError, Written};

use crate::catalog::SkillCatalog;
use crate::skill::Skill;

/// A stored skill that no longer validates: left out, reported, and never lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenSkill {
    /// Empty for a shared skill, else the id of the agent whose own it is.
    pub scope: String,
    /// The name.
    pub name: String,
    /// What is wrong with it.
    pub problems: Problems,
}

/// What the book shows at one moment.
#[derive(Default)]
struct Shown {
    catalog: Arc<SkillCatalog>,
    revision: Revision,
    broken: BTreeMap<(String, String), Problems>,
    /// By the name of the row.
    unreadable: BTreeMap<String, String>,
}

/// The live catalog of skills. Share it behind an [`Arc`].
pub struct SkillBook {
    store: Store,
    shown: ArcSwap<Shown>,
    refreshing: Mutex<()>,
}

impl SkillBook {
    /// Reads the rows.
    ///
    /// # Errors
    /// The store's.
    pub async fn open(store: Store) -> Result<Arc<Self>, StoreError> {
        let book = Self { store, shown: ArcSwap::default(), refreshing: Mutex::new(()) };
        book.refresh().await?;
        Ok(Arc::new(book))
    }

    /// The skills as they are now.
    pub fn catalog(&self) -> Arc<SkillCatalog> {
        Arc::clone(&self.shown.load().catalog)
    }

    /// Stored skills that no longer validate.
    pub fn broken(&self) -> Vec<BrokenSkill> {
        let broken = |((scope, name), problems): (&(String, String), &Problems)| BrokenSkill {
            scope: scope.clone(),
            name: name.clone(),
            problems: problems.clone(),
        };
        self.shown.load().broken.iter().map(broken).collect()
    }

    /// What is wrong with rows that can't be read.
    pub fn unreadable(&self) -> Vec<String> {
        self.shown.load().unreadable.values().cloned().collect()
    }

    /// Writes a skill. The next turn sees it.
    ///
    /// # Errors
    /// The store's.
    pub async fn put(&self, scope: &str, skill: &Skill, expect: Expect, actor: &str) -> Result<Written, StoreError> {
        let write = SkillWrite {
            scope: scope.to_owned(),
            name: skill.name().to_owned(),
            document: skill.document().to_owned(),
        };
        let written = self.store.put_skill(&write, expect, actor).await?;
        self.refresh_after_write().await;
        Ok(written)
    }

    /// Deletes a skill. `Ok(None)` when there is none.
    ///
    /// # Errors
    /// The store's.
    pub async fn delete(
        &self,
        scope: &str,
        name: &str,
        expect: Expect,
        actor: &str,
    ) -> Result<Option<Revision>, StoreError> {
        let revision = self.store.delete_skill(scope, name, expect, actor).await?;
        self.refresh_after_write().await;
        Ok(revision)
    }

    /// Seeds the shared skills of a disk root: what people wrote or deleted in the store stands over it.
    ///
    /// # Errors
    /// The store's.
    pub async fn seed(&self, skills: &[Skill], root: &str) -> Result<usize, StoreError> {
        let write = |skill: &Skill| SkillWrite {
            scope: SHARED.to_owned(),
            name: skill.name().to_owned(),
            document: skill.document().to_owned(),
        };
        let writes: Vec<SkillWrite> = skills.iter().map(write).collect();
        let changed = self.store.seed_skills(&writes, root).await?;
        self.refresh_after_write().await;
        Ok(changed)
    }

    /// Shows what was written. That it can't be read now is no fault of the write; whoever looks next takes it over.
    pub async fn refresh_after_write(&self) {
        if let Err(error) = self.refresh().await {
            tracing::warn!(error = %error, reason = error.reason(), "skills.refresh failed after a write");
        }
    }

    /// Takes over what changed in the rows, whoever changed it.
    ///
    /// # Errors
    /// The store's; what is shown stays as it was.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.refreshing.lock().await;
        let known = self.shown.load_full();
        let revision = self.store.revision().await?;
        if revision == known.revision {
            return Ok(());
        }
        let rows = self.store.skills_changed(known.revision, revision).await?;
        let mut next = Shown {
            catalog: Arc::clone(&known.catalog),
            revision,
            broken: known.broken.clone(),
            unreadable: known.unreadable.clone(),
        };
        if !rows.is_empty() {
            let mut catalog = SkillCatalog::clone(&known.catalog);
            for row in rows {
                match row {
                    Ok(row) => {
                        next.unreadable.remove(&row.name);
                        apply(&mut catalog, &mut next.broken, &row);
                    }
                    Err(error) => {
                        let name = match &error {
                            StoreError::BadRow { key, .. } => key.clone(),
                            _ => String::new(),
                        };
                        next.unreadable.insert(name, error.to_string());
                    }
                }
            }
            catalog.index();
            next.catalog = Arc::new(catalog);
        }
        self.shown.store(Arc::new(next));
        Ok(())
    }
}

fn apply(catalog: &mut SkillCatalog, broken: &mut BTreeMap<(String, String), Problems>, row: &SkillRow) {
    let key = (row.scope.clone(), row.name.clone());
    broken.remove(&key);
    let Some(document) = &row.document else { return catalog.remove(&row.scope, &row.name) };
    match Skill::from_markdown(&row.name, document) {
        Ok(skill) => catalog.put_row(&row.scope, skill, Some(row.revision)),
        Err(problems) => {
            catalog.remove(&row.scope, &row.name);
            broken.insert(key, problems);
        }
    }
}
