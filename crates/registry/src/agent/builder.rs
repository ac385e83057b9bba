//! An agent written in Rust.

use serde_json::{Map, Value, json};

/// Collects an agent, its tools and its skills as the same document that the API and files hold. Nothing is checked
/// here: the one validator reads the document when it is imported.
///
/// ```
/// use serde_json::json;
/// use toolcrib_registry::Agent;
///
/// let document = Agent::builder("support")
///     .instructions("You help customers of a bicycle shop.")
///     .model("openai", "gpt-5-mini")
///     .data_tool(json!({"name": "find_order", "description": "Find an order", "request": {"url": "https://shop.example/orders"}}))
///     .document();
/// assert_eq!(document["tools"][0]["name"], "find_order");
/// ```
#[derive(Debug, Clone)]
pub struct AgentBuilder {
    id: String,
    profile: Map<String, Value>,
    tools: Vec<Value>,
    skills: Vec<Value>,
}

impl AgentBuilder {
    pub(super) fn new(id: String) -> Self {
        Self { id, profile: Map::new(), tools: Vec::new(), skills: Vec::new() }
    }

    /// The id of the agent.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sets any key of the profile, as the reference of agents has it.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.profile.insert(key.to_owned(), value.into());
        self
    }

    /// Says who the agent is and how it works.
    #[must_use]
    pub fn instructions(self, text: impl Into<String>) -> Self {
        self.set("instructions", text.into())
    }

    /// Says which model of which provider it asks.
    #[must_use]
    pub fn model(self, provider: impl Into<String>, model: impl Into<String>) -> Self {
        self.set("provider", provider.into()).set("model", model.into())
    }

    /// Lets it use tools that are there already, or that are written in Rust.
    #[must_use]
    pub fn allow_tools<T: Into<String>>(self, names: impl IntoIterator<Item = T>) -> Self {
        self.set("tools_allow", names.into_iter().map(Into::into).collect::<Vec<String>>())
    }

    /// Gives it a tool that is a row: a definition.
    #[must_use]
    pub fn data_tool(mut self, definition: Value) -> Self {
        self.tools.push(definition);
        self
    }

    /// Gives it a skill of its own: a name and the text of its `SKILL.md`.
    #[must_use]
    pub fn skill(mut self, name: impl Into<String>, document: impl Into<String>) -> Self {
        self.skills.push(json!({ "name": name.into(), "document": document.into() }));
        self
    }

    /// The pack as JSON: `{agent, tools, skills}`.
    pub fn document(&self) -> Value {
        json!({ "agent": self.profile, "tools": self.tools, "skills": self.skills })
    }
}
