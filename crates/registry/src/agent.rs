//! An agent: who it is, which model it asks, and what it may use.

mod builder;
mod limits;
mod reach;
mod reader;

use std::collections::HashSet;

use serde_json::{Number, Value, json};
use toolcrib_definition::Problems;

pub use self::builder::AgentBuilder;
pub use self::limits::Limits;
pub use self::reach::Reach;
use crate::entry::Entry;

/// The id of an agent: 1 to 64 of letters, digits, `_`, `-` and `.`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(String);

impl AgentId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for AgentId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
            && text.bytes().any(|b| b.is_ascii_alphanumeric());
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("{text:?} is no agent id: 1 to 64 letters, digits, _, - and ."))
        }
    }
}

impl std::fmt::Display for AgentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A model of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelChoice {
    /// The name of the provider in this deployment's configuration.
    pub provider: String,
    /// The model, as the provider calls it.
    pub model: String,
}

impl std::fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// Which skills an agent has in its prompt always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SkillsEager {
    /// None.
    #[default]
    None,
    /// All that it may use.
    All,
    /// These.
    Names(Vec<String>),
}

/// An agent's profile.
///
/// Each list has three states: absent means all, empty means none, names mean those.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Agent {
    description: Option<String>,
    instructions: Option<String>,
    model: Option<ModelChoice>,
    fallback_models: Vec<ModelChoice>,
    temperature: Option<Number>,
    max_output_tokens: Option<u32>,
    tools_allow: Option<Vec<String>>,
    tools_allow_groups: Option<Vec<String>>,
    tools_deny: Vec<String>,
    tools_deferred: Vec<String>,
    approvals_required: Vec<String>,
    approvals_by_client: bool,
    skills: Option<Vec<String>>,
    skills_eager: SkillsEager,
    limits: Limits,
    lookup: Lookup,
}

/// The lists as sets, for the path of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Lookup {
    allow: HashSet<String>,
    groups: HashSet<String>,
    deny: HashSet<String>,
    deferred: HashSet<String>,
    skills: HashSet<String>,
}

impl Agent {
    /// Reads a profile.
    ///
    /// ```
    /// use toolcrib_registry::Agent;
    /// let agent = Agent::from_json(&serde_json::json!({"tools_allow_groups": ["catalog"]})).unwrap();
    /// assert_eq!(agent.tools_allow(), None);
    /// ```
    ///
    /// # Errors
    /// Every unknown key and wrong type at once.
    pub fn from_json(value: &Value) -> Result<Self, Problems> {
        reader::read(value)
    }

    /// Begins an agent in Rust, with its tools and skills.
    pub fn builder(id: impl Into<String>) -> AgentBuilder {
        AgentBuilder::new(id.into())
    }

    /// What it is for, for people and other agents.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Who it is and how it works: the beginning of its prompt.
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// The model it asks; none for an agent whose turns others drive.
    pub fn model(&self) -> Option<&ModelChoice> {
        self.model.as_ref()
    }

    /// The models it asks when the first can't be had, in this order.
    pub fn fallback_models(&self) -> &[ModelChoice] {
        &self.fallback_models
    }

    /// How freely the model chooses its words; the provider's own default when none.
    pub fn temperature(&self) -> Option<f64> {
        self.temperature.as_ref().and_then(Number::as_f64)
    }

    /// The longest answer of the model, in tokens; the provider's own default when none.
    pub fn max_output_tokens(&self) -> Option<u32> {
        self.max_output_tokens
    }

    /// The skills it may use.
    pub fn skills(&self) -> Option<&[String]> {
        self.skills.as_deref()
    }

    /// The skills it has in its prompt always.
    pub fn skills_eager(&self) -> &SkillsEager {
        &self.skills_eager
    }

    /// Whether it may use a skill of this name.
    pub fn may_load(&self, skill: &str) -> bool {
        self.skills.is_none() || self.lookup.skills.contains(skill)
    }

    /// Whether its lists deny a tool of this name.
    pub fn denies(&self, tool: &str) -> bool {
        self.lookup.deny.contains(tool)
    }

    /// Whether its lists name this tool, and do not deny it: what only an agent that names it is given.
    pub fn names_tool(&self, tool: &str) -> bool {
        self.lookup.allow.contains(tool) && !self.lookup.deny.contains(tool)
    }

    /// The same agent with these tools and no others, and these limits. The tools are still held against its list of denied
    /// ones.
    #[must_use]
    pub fn narrowed_to(&self, tools: Vec<String>, limits: Limits) -> Self {
        let lookup = Lookup { allow: tools.iter().cloned().collect(), groups: HashSet::new(), ..self.lookup.clone() };
        Self { tools_allow: Some(tools), tools_allow_groups: None, limits, lookup, ..self.clone() }
    }

    /// The tools it may use.
    pub fn tools_allow(&self) -> Option<&[String]> {
        self.tools_allow.as_deref()
    }

    /// The groups whose tools it may use, united with the allowed tools.
    pub fn tools_allow_groups(&self) -> Option<&[String]> {
        self.tools_allow_groups.as_deref()
    }

    /// The tools it may never use.
    pub fn tools_deny(&self) -> &[String] {
        &self.tools_deny
    }

    /// Tools that it may use and is not shown at first.
    pub fn tools_deferred(&self) -> &[String] {
        &self.tools_deferred
    }

    /// Tools whose every call needs a person's approval when this agent makes it, whatever their own rule says.
    pub fn approvals_required(&self) -> &[String] {
        &self.approvals_required
    }

    /// Whether an MCP client of this agent may be asked about its calls, and decide. It is then the person in front of that
    /// client who looks, if there is one.
    pub fn approvals_by_client(&self) -> bool {
        self.approvals_by_client
    }

    /// Limits of its calls.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The profile with every default written out.
    pub fn to_json(&self) -> Value {
        json!({
            "description": self.description,
            "instructions": self.instructions,
            "provider": self.model.as_ref().map(|choice| &choice.provider),
            "model": self.model.as_ref().map(|choice| &choice.model),
            "fallback_models": self.fallback_models.iter().map(choice_json).collect::<Vec<_>>(),
            "temperature": self.temperature,
            "max_output_tokens": self.max_output_tokens,
            "tools_allow": self.tools_allow,
            "tools_allow_groups": self.tools_allow_groups,
            "tools_deny": self.tools_deny,
            "tools_deferred": self.tools_deferred,
            "approvals_required": self.approvals_required,
            "approvals_by_client": self.approvals_by_client,
            "skills": self.skills,
            "skills_eager": match &self.skills_eager {
                SkillsEager::None => json!("none"),
                SkillsEager::All => json!("all"),
                SkillsEager::Names(names) => json!(names),
            },
            "limits": self.limits.to_json(),
        })
    }

    /// Whether the agent may use a tool: a denied or disabled one never, else what the two allowlists unite to,
    /// or every tool when there is neither.
    pub fn allows(&self, tool: &Entry) -> bool {
        tool.disabled().is_none() && self.lists(tool)
    }

    /// Whether the lists of the agent let a tool through, be it disabled or not.
    pub fn lists(&self, tool: &Entry) -> bool {
        self.listed(tool).is_in()
    }

    /// Whether the agent is shown a tool at the start of a turn.
    pub fn offers(&self, tool: &Entry) -> bool {
        self.allows(tool) && !self.lookup.deferred.contains(tool.name())
    }
}

fn choice_json(choice: &ModelChoice) -> Value {
    json!({ "provider": choice.provider, "model": choice.model })
}
