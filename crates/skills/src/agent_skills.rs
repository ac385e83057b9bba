//! The skills of one agent: what it is shown, and what is in its prompt and why.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use toolcrib_registry::{Agent, SkillsEager};
use toolcrib_store::SHARED;

use crate::catalog::SkillCatalog;
use crate::skill::Skill;

/// Why a skill's text is in the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The agent has it always.
    Eager,
    /// The message holds this trigger, as its author wrote it.
    Trigger(String),
    /// This skill brings it along.
    Companion(String),
    /// The model asked for it.
    LoadSkill,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Eager => f.write_str("eager"),
            Reason::Trigger(phrase) => write!(f, "trigger:{phrase}"),
            Reason::Companion(of) => write!(f, "companion:{of}"),
            Reason::LoadSkill => f.write_str("load_skill"),
        }
    }
}

/// A skill whose text is in the prompt, or is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Active {
    /// The skill.
    pub skill: Arc<Skill>,
    /// Why.
    pub reason: Reason,
}

/// Why the model is not given a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotLoaded {
    /// The model is told the same of a skill that is not there and of one that the agent may not use.
    #[error("there is no skill {0:?} that this agent may use")]
    Unknown(String),
    /// Its text is in the prompt already.
    #[error("the skill {0:?} is in the prompt already; read it there")]
    Present(String),
}

/// The skills that an agent may use.
pub struct AgentSkills<'a> {
    catalog: &'a SkillCatalog,
    agent_id: &'a str,
    agent: &'a Agent,
}

impl<'a> AgentSkills<'a> {
    pub(crate) fn new(catalog: &'a SkillCatalog, agent_id: &'a str, agent: &'a Agent) -> Self {
        Self { catalog, agent_id, agent }
    }

    /// A skill that the agent may use: its own, else the shared one of that name.
    pub fn get(&self, name: &str) -> Option<&'a Arc<Skill>> {
        if !self.agent.may_load(name) {
            return None;
        }
        self.catalog.resolve(self.agent_id, name).map(|found| found.skill)
    }

    /// All that the agent may use, by name.
    pub fn list(&self) -> Vec<&'a Arc<Skill>> {
        match self.agent.skills() {
            Some(names) => {
                let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
                names.sort_unstable();
                names.into_iter().filter_map(|name| self.get(name)).collect()
            }
            None => {
                let mut all = BTreeMap::new();
                let own = self.catalog.in_scope(self.agent_id);
                for found in self.catalog.in_scope(SHARED).chain(own) {
                    all.insert(found.skill.name(), found.skill);
                }
                all.into_values().collect()
            }
        }
    }

    /// What the agent has always, with the companions of each.
    pub fn eager(&self) -> Vec<Active> {
        let eager: Vec<_> = match self.agent.skills_eager() {
            SkillsEager::None => Vec::new(),
            SkillsEager::All => self.list(),
            SkillsEager::Names(names) => names.iter().filter_map(|name| self.get(name)).collect(),
        };
        let mut active = Vec::new();
        let mut present = HashSet::new();
        for skill in &eager {
            push(&mut active, &mut present, skill, Reason::Eager);
        }
        for skill in eager {
            self.push_companions(&mut active, &mut present, skill);
        }
        active
    }

    /// What a message brings: skills with a trigger in it, and their companions. `present` are those whose text is in the
    /// prompt already, eager ones among them.
    pub fn activate(&self, message: &str, present: &HashSet<String>) -> Vec<Active> {
        let mut active = Vec::new();
        let mut present = present.clone();
        let mut triggered = Vec::new();
        for found in self.catalog.triggers().find(message) {
            let (scope, name) = found.skill;
            // A shared skill below one of the agent's own does not count, nor does another agent's.
            let meant = self.agent.may_load(name)
                && self.catalog.resolve(self.agent_id, name).is_some_and(|meant| *meant.scope == **scope);
            if let Some(skill) = self.get(name).filter(|_| meant) {
                let reason = Reason::Trigger(found.phrase.to_owned());
                if push(&mut active, &mut present, skill, reason) {
                    triggered.push(skill);
                }
            }
        }
        for skill in triggered {
            self.push_companions(&mut active, &mut present, skill);
        }
        active
    }

    /// What the model is given when it asks for a skill: the skill first, then the companions that are not in the prompt.
    ///
    /// # Errors
    /// [`NotLoaded`], which the model reads.
    pub fn load(&self, name: &str, present: &HashSet<String>) -> Result<Vec<Active>, NotLoaded> {
        let skill = self.get(name).ok_or_else(|| NotLoaded::Unknown(name.to_owned()))?;
        if present.contains(skill.name()) {
            return Err(NotLoaded::Present(name.to_owned()));
        }
        let (mut active, mut present) = (Vec::new(), present.clone());
        push(&mut active, &mut present, skill, Reason::LoadSkill);
        self.push_companions(&mut active, &mut present, skill);
        Ok(active)
    }

    /// One level: what a companion would bring stays out.
    fn push_companions(&self, active: &mut Vec<Active>, present: &mut HashSet<String>, of: &Skill) {
        for companion in of.companions().iter().filter_map(|name| self.get(name)) {
            push(active, present, companion, Reason::Companion(of.name().to_owned()));
        }
    }
}

fn push(active: &mut Vec<Active>, present: &mut HashSet<String>, skill: &Arc<Skill>, reason: Reason) -> bool {
    let new = present.insert(skill.name().to_owned());
    if new {
        active.push(Active { skill: Arc::clone(skill), reason });
    }
    new
}
