//! Why an agent may use a tool, or may not.

use super::Agent;
use crate::entry::Entry;

/// Why an agent may use a tool, or may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach<'a> {
    /// It has no list of allowed tools or groups, and so all.
    All,
    /// `tools_allow` names it.
    Named,
    /// `tools_allow_groups` names its group.
    Group(&'a str),
    /// Nothing names it.
    NotNamed,
    /// It asks a person, which only an agent may that names it.
    AsksAPerson,
    /// `tools_deny` names it.
    Denied,
    /// It can't be used at present, by anybody.
    Disabled(&'a str),
}

impl Reach<'_> {
    /// Whether the agent may use the tool.
    pub fn is_in(&self) -> bool {
        matches!(self, Reach::All | Reach::Named | Reach::Group(_))
    }
}

impl std::fmt::Display for Reach<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reach::All => f.write_str("the agent has no lists, and so every tool"),
            Reach::Named => f.write_str("tools_allow names it"),
            Reach::Group(group) => write!(f, "tools_allow_groups names its group {group}"),
            Reach::NotNamed => f.write_str("neither tools_allow nor tools_allow_groups names it"),
            Reach::AsksAPerson => f.write_str("it takes a person's time, and only tools_allow can give it"),
            Reach::Denied => f.write_str("tools_deny names it"),
            Reach::Disabled(why) => write!(f, "nobody can use it: {why}"),
        }
    }
}

impl Agent {
    /// Why this agent may use a tool, or may not: the one rule behind [`Agent::allows`].
    pub fn reach<'a>(&self, tool: &'a Entry) -> Reach<'a> {
        if let Some(why) = tool.disabled() {
            return Reach::Disabled(why);
        }
        self.listed(tool)
    }

    /// The same by the lists alone, be the tool disabled or not.
    pub(super) fn listed<'a>(&self, tool: &'a Entry) -> Reach<'a> {
        if self.lookup.deny.contains(tool.name()) {
            return Reach::Denied;
        }
        if self.lookup.allow.contains(tool.name()) {
            return Reach::Named;
        }
        if let Some(group) = tool.group().filter(|group| self.lookup.groups.contains(*group)) {
            return Reach::Group(group);
        }
        let has_lists = self.tools_allow.is_some() || self.tools_allow_groups.is_some();
        // What takes a person's time is given to nobody who was not meant to have it.
        match (has_lists, tool.as_code().is_some_and(|tool| tool.asks_a_person())) {
            (true, _) => Reach::NotNamed,
            (false, true) => Reach::AsksAPerson,
            (false, false) => Reach::All,
        }
    }
}
