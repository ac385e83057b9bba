//! All skills, in their scopes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use toolcrib_registry::Agent;
use toolcrib_store::{Revision, SHARED};

use crate::agent_skills::AgentSkills;
use crate::skill::Skill;
use crate::triggers::Triggers;

/// Scope and name.
pub(crate) type SkillKey = (Arc<str>, Arc<str>);

/// A skill with the scope it belongs to.
#[derive(Debug, Clone, Copy)]
pub struct ScopedSkill<'a> {
    /// Empty for a shared skill, else the id of the agent whose own it is.
    pub scope: &'a str,
    /// The skill.
    pub skill: &'a Arc<Skill>,
    /// The revision of its row; none when it has no row.
    pub revision: Option<Revision>,
}

#[derive(Clone)]
struct Entry {
    skill: Arc<Skill>,
    revision: Option<Revision>,
}

/// All skills at one moment: the shared ones, and those that are an agent's own.
#[derive(Clone, Default)]
pub struct SkillCatalog {
    skills: BTreeMap<SkillKey, Entry>,
    triggers: Arc<Triggers>,
}

impl SkillCatalog {
    /// Puts a skill in a scope; it has no row. [`SkillCatalog::index`] makes its triggers fire.
    pub fn put(&mut self, scope: &str, skill: Skill) {
        self.put_row(scope, skill, None);
    }

    pub(crate) fn put_row(&mut self, scope: &str, skill: Skill, revision: Option<Revision>) {
        let key = (scope.into(), skill.name().into());
        self.skills.insert(key, Entry { skill: Arc::new(skill), revision });
    }

    pub(crate) fn remove(&mut self, scope: &str, name: &str) {
        self.skills.remove(&(scope.into(), name.into()));
    }

    /// Builds the automaton of triggers anew.
    pub fn index(&mut self) {
        let skills = self.skills.iter().map(|(key, entry)| (key, entry.skill.triggers()));
        self.triggers = Arc::new(Triggers::of(skills));
    }

    /// A skill of one scope.
    pub fn get(&self, scope: &str, name: &str) -> Option<ScopedSkill<'_>> {
        let (key, entry) = self.skills.get_key_value(&(scope.into(), name.into()))?;
        Some(ScopedSkill { scope: &key.0, skill: &entry.skill, revision: entry.revision })
    }

    /// What a name means for an agent: its own skill, else the shared one.
    pub fn resolve(&self, agent: &str, name: &str) -> Option<ScopedSkill<'_>> {
        self.get(agent, name).or_else(|| self.get(SHARED, name))
    }

    /// Every skill, the shared ones first, by name.
    pub fn iter(&self) -> impl Iterator<Item = ScopedSkill<'_>> {
        self.skills.iter().map(|(key, entry)| ScopedSkill {
            scope: &key.0,
            skill: &entry.skill,
            revision: entry.revision,
        })
    }

    /// The skills of one scope, by name.
    pub fn in_scope<'a>(&'a self, scope: &'a str) -> impl Iterator<Item = ScopedSkill<'a>> {
        let from: SkillKey = (scope.into(), "".into());
        self.skills
            .range((Bound::Included(from), Bound::Unbounded))
            .take_while(move |(key, _)| &*key.0 == scope)
            .map(|(key, entry)| ScopedSkill { scope: &key.0, skill: &entry.skill, revision: entry.revision })
    }

    /// How many skills there are.
    pub fn len(&self) -> usize {
        self.skills.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }

    /// The skills of an agent.
    pub fn of<'a>(&'a self, agent_id: &'a str, agent: &'a Agent) -> AgentSkills<'a> {
        AgentSkills::new(self, agent_id, agent)
    }

    pub(crate) fn triggers(&self) -> &Triggers {
        &self.triggers
    }
}
