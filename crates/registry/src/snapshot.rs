//! An immutable picture of the catalog.

use std::sync::Arc;

use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericOrdMap, GenericOrdSet};
use toolcrib_definition::Problems;
use toolcrib_store::Revision;

use crate::agent::Agent;
use crate::entry::Entry;

type OrdMap<K, V> = GenericOrdMap<K, V, DefaultSharedPtr>;
type OrdSet<K> = GenericOrdSet<K, DefaultSharedPtr>;

/// A stored row that no longer validates: left out, reported, and never lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenRow {
    /// The revision of the row.
    pub revision: Revision,
    /// What is wrong with it.
    pub problems: Problems,
}

/// The catalog as it was at one revision. Maps are persistent: a new snapshot shares all that did
/// not change with the old one.
#[derive(Clone, Default)]
pub struct Snapshot {
    revision: Revision,
    tools: OrdMap<Arc<str>, Arc<Entry>>,
    groups: OrdMap<Arc<str>, OrdSet<Arc<str>>>,
    agents: OrdMap<Arc<str>, Arc<Agent>>,
    agent_revisions: OrdMap<Arc<str>, Revision>,
    broken: OrdMap<Arc<str>, BrokenRow>,
    broken_agents: OrdMap<Arc<str>, BrokenRow>,
    shadowed: OrdSet<Arc<str>>,
    unreadable: OrdSet<String>,
}

impl Snapshot {
    /// The revision that the snapshot shows.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// A tool.
    pub fn tool(&self, name: &str) -> Option<&Arc<Entry>> {
        self.tools.get(name)
    }

    /// How many tools there are.
    pub fn tool_count(&self) -> usize {
        self.tools.len()
    }

    /// The tools in the order of their names, from the first after `after`.
    pub fn tools_after(&self, after: &str) -> impl Iterator<Item = &Arc<Entry>> {
        let from = (std::ops::Bound::Excluded(Arc::<str>::from(after)), std::ops::Bound::Unbounded);
        self.tools.range(from).map(|(_, entry)| entry)
    }

    /// All tools in the order of their names.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.tools.values()
    }

    /// The groups with how many tools each has.
    pub fn groups(&self) -> impl Iterator<Item = (&str, usize)> {
        self.groups.iter().map(|(group, names)| (group.as_ref(), names.len()))
    }

    /// An agent.
    pub fn agent(&self, id: &str) -> Option<&Arc<Agent>> {
        self.agents.get(id)
    }

    /// The revision of an agent's row.
    pub fn agent_revision(&self, id: &str) -> Option<Revision> {
        self.agent_revisions.get(id).copied()
    }

    /// All agents in the order of their ids.
    pub fn agents(&self) -> impl Iterator<Item = (&str, &Arc<Agent>)> {
        self.agents.iter().map(|(id, agent)| (id.as_ref(), agent))
    }

    /// The tools an agent may use, in the order of their names. What it costs grows with the lists of
    /// the agent, and with the catalog only when both lists are absent.
    pub fn allowed<'a>(&'a self, agent: &'a Agent) -> Vec<&'a Arc<Entry>> {
        let (allow, groups) = (agent.tools_allow(), agent.tools_allow_groups());
        if allow.is_none() && groups.is_none() {
            return self.tools.values().filter(|tool| agent.allows(tool)).collect();
        }
        let in_groups = groups.into_iter().flatten().filter_map(|group| self.groups.get(group.as_str())).flatten();
        let named = allow.into_iter().flatten().map(String::as_str);
        let mut names: Vec<&str> = in_groups.map(AsRef::as_ref).chain(named).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().filter_map(|name| self.tools.get(name)).filter(|tool| agent.allows(tool)).collect()
    }

    /// Rows of tools that no longer validate.
    pub fn broken(&self) -> impl Iterator<Item = (&str, &BrokenRow)> {
        self.broken.iter().map(|(name, row)| (name.as_ref(), row))
    }

    /// Rows of agents that no longer validate.
    pub fn broken_agents(&self) -> impl Iterator<Item = (&str, &BrokenRow)> {
        self.broken_agents.iter().map(|(id, row)| (id.as_ref(), row))
    }

    /// Rows whose name belongs to a code tool, which wins.
    pub fn shadowed(&self) -> impl Iterator<Item = &str> {
        self.shadowed.iter().map(AsRef::as_ref)
    }

    /// Rows that could not be read at all, in words.
    pub fn unreadable(&self) -> impl Iterator<Item = &str> {
        self.unreadable.iter().map(String::as_str)
    }

    pub(crate) fn put_unreadable(&mut self, what: String) {
        self.unreadable.insert(what);
    }

    pub(crate) fn set_revision(&mut self, revision: Revision) {
        self.revision = revision;
    }

    pub(crate) fn put_tool(&mut self, entry: Entry) {
        let name: Arc<str> = entry.name().into();
        self.remove_tool(&name);
        if let Some(group) = entry.group() {
            let group: Arc<str> = group.into();
            let mut names = self.groups.get(&group).cloned().unwrap_or_default();
            names.insert(Arc::clone(&name));
            self.groups.insert(group, names);
        }
        self.tools.insert(name, Arc::new(entry));
    }

    pub(crate) fn remove_tool(&mut self, name: &str) {
        self.broken.remove(name);
        self.shadowed.remove(name);
        let Some(old) = self.tools.remove(name) else { return };
        let Some(group) = old.group() else { return };
        if let Some(mut names) = self.groups.get(group).cloned() {
            names.remove(name);
            if names.is_empty() {
                self.groups.remove(group);
            } else {
                self.groups.insert(group.into(), names);
            }
        }
    }

    pub(crate) fn put_broken(&mut self, name: &str, row: BrokenRow) {
        self.remove_tool(name);
        self.broken.insert(name.into(), row);
    }

    pub(crate) fn put_shadowed(&mut self, name: &str) {
        self.shadowed.insert(name.into());
    }

    pub(crate) fn remove_shadowed(&mut self, name: &str) {
        self.shadowed.remove(name);
    }

    pub(crate) fn put_agent(&mut self, id: &str, agent: Agent, revision: Revision) {
        self.broken_agents.remove(id);
        self.agents.insert(id.into(), Arc::new(agent));
        self.agent_revisions.insert(id.into(), revision);
    }

    pub(crate) fn remove_agent(&mut self, id: &str) {
        self.broken_agents.remove(id);
        self.agents.remove(id);
        self.agent_revisions.remove(id);
    }

    pub(crate) fn put_broken_agent(&mut self, id: &str, row: BrokenRow) {
        self.remove_agent(id);
        self.broken_agents.insert(id.into(), row);
    }
}
