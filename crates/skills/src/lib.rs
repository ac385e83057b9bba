//! Skills: playbooks in Markdown that an agent loads when it needs them.
//!
//! A skill is a `SKILL.md`: frontmatter in YAML (name, description, triggers, companions) and a text. The model is shown
//! names and descriptions; the text comes when the agent has the skill always (eager), when the message holds one of its
//! triggers, when another skill brings it along, or when the model asks for it. None of that reads the network or a
//! clock.
//!
//! ```
//! use toolcrib_registry::Agent;
//! use toolcrib_skills::{Reason, Skill, SkillCatalog};
//!
//! let text = "---\nname: refunds\ndescription: How to refund\ntriggers: [money back]\n---\nAsk for the order first.\n";
//! let mut catalog = SkillCatalog::default();
//! catalog.put("", Skill::from_markdown("refunds", text)?);
//! catalog.index();
//!
//! let agent = Agent::from_json(&serde_json::json!({"skills": ["refunds"]}))?;
//! let skills = catalog.of("support", &agent);
//! let active = skills.activate("I want my MONEY   back!", &Default::default());
//! assert_eq!(active[0].skill.name(), "refunds");
//! assert_eq!(active[0].reason, Reason::Trigger("money back".to_owned()));
//! # Ok::<(), toolcrib_definition::Problems>(())
//! ```

mod agent_skills;
mod book;
mod catalog;
mod frontmatter;
mod roots;
mod skill;
mod triggers;
mod words;

pub use agent_skills::{Active, AgentSkills, NotLoaded, Reason};
pub use book::{BrokenSkill, SkillBook};
pub use catalog::{ScopedSkill, SkillCatalog};
pub use roots::{RootError, read_root};
pub use skill::{MAX_DOCUMENT, Skill, is_skill_name};
pub use words::fold;
