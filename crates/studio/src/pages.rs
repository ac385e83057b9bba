//! The pages, each with the addresses that change what it shows.

pub(crate) mod agent;
pub(crate) mod agent_profile;
pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod doubts;
pub(crate) mod editor;
pub(crate) mod events;
pub(crate) mod home;
pub(crate) mod mcp;
pub(crate) mod new;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod skills;
pub(crate) mod system;
pub(crate) mod tokens;
pub(crate) mod tool;
pub(crate) mod tools;
pub(crate) mod traces;
