//! Packs: an agent with its tools and its own skills, as one document.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use toolcrib_definition::json::kind_of;
use toolcrib_definition::{Definition, Problem, ProblemCode, Problems};
use toolcrib_registry::{Agent, AgentBuilder, AgentId, Registry, RegistryError};
use toolcrib_skills::{Skill, SkillBook};
use toolcrib_store::{Expect, PackApplied, PackRows, SkillWrite};

const KEYS: [&str; 3] = ["agent", "tools", "skills"];

/// A pack that was checked. What it brings, the agent may use; what left it since it was last applied, the agent may no
/// longer.
#[derive(Debug, Clone)]
pub struct Pack {
    rows: PackRows,
    agent: Agent,
}

impl Pack {
    /// Reads `{agent, tools, skills}`: a profile, a list of definitions, and a list of `{name, document}`. The names of
    /// the tools are added to `tools_allow`; those of the skills to `skills`, unless that is absent and allows all.
    ///
    /// A pack says by name what its agent may use: without a `tools_allow` of its own, the agent has the tools of the pack
    /// and no others. So the last tool that leaves a pack leaves an agent without tools, and not one that may use all.
    ///
    /// # Errors
    /// Every problem of every part at once.
    pub fn from_json(id: &AgentId, value: &Value) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let mut add = |pointer: String, message: String| {
            problems.push(Problem { pointer, code: ProblemCode::Pack, message });
        };
        let empty = Map::new();
        let map = match value {
            Value::Object(map) => map,
            other => {
                add(String::new(), format!("a pack is {{agent, tools, skills}}, not {}", kind_of(other)));
                &empty
            }
        };
        for key in map.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            add(format!("/{key}"), format!("a pack has no key {key:?}; the keys are {}", KEYS.join(", ")));
        }
        let mut list = |key: &str| match map.get(key) {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(items)) => items,
            Some(other) => {
                add(format!("/{key}"), format!("expected a list, got {}", kind_of(other)));
                &[]
            }
        };
        let (tool_values, skill_values) = (list("tools"), list("skills"));
        let mut found = Vec::new();
        let mut tools = Vec::new();
        for (i, value) in tool_values.iter().enumerate() {
            match Definition::from_value(value) {
                Ok(tool) => tools.push(tool),
                Err(wrong) => found.extend(wrong.under(&format!("/tools/{i}")).iter().cloned()),
            }
        }
        let mut skills = Vec::new();
        for (i, value) in skill_values.iter().enumerate() {
            let text = |key: &str| value.get(key).and_then(Value::as_str);
            match (text("name"), text("document")) {
                (Some(name), Some(document)) => match Skill::from_markdown(name, document) {
                    Ok(skill) => skills.push(skill),
                    Err(wrong) => found.extend(wrong.under(&format!("/skills/{i}")).iter().cloned()),
                },
                _ => add(format!("/skills/{i}"), "a skill is {name, document}".to_owned()),
            }
        }
        for (key, names) in [
            ("tools", tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>()),
            ("skills", skills.iter().map(Skill::name).collect()),
        ] {
            let mut seen = HashSet::new();
            for name in names.into_iter().filter(|name| !seen.insert(*name)) {
                add(format!("/{key}"), format!("{name} stands twice"));
            }
        }
        let mut profile = map.get("agent").cloned().unwrap_or_else(|| json!({}));
        // What leaves the pack leaves the agent, so what it may use is said by name.
        unite(&mut profile, "tools_allow", tools.iter().map(|tool| tool.name.as_str()), true);
        unite(&mut profile, "skills", skills.iter().map(Skill::name), false);
        let agent = Agent::from_json(&profile)
            .map_err(|wrong| found.extend(wrong.under("/agent").iter().cloned()))
            .unwrap_or_default();
        problems.extend(found);
        if !problems.is_empty() {
            return Err(Problems::from_iter(problems));
        }
        let write = |skill: &Skill| SkillWrite {
            scope: id.to_string(),
            name: skill.name().to_owned(),
            document: skill.document().to_owned(),
        };
        let rows = PackRows {
            agent: id.to_string(),
            profile: agent.to_json().to_string(),
            tools,
            skills: skills.iter().map(write).collect(),
        };
        Ok(Self { rows, agent })
    }

    /// Reads a pack that was written in Rust.
    ///
    /// # Errors
    /// As [`Pack::from_json`], and when the id is none.
    pub fn from_builder(builder: &AgentBuilder) -> Result<Self, Problems> {
        let id: AgentId = builder.id().parse().map_err(|message| {
            Problems::from_iter([Problem { pointer: String::new(), code: ProblemCode::Pack, message }])
        })?;
        Self::from_json(&id, &builder.document())
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Its tools.
    pub fn tools(&self) -> &[Definition] {
        &self.rows.tools
    }

    /// Writes the pack in one transaction: all of it, or nothing. The next call and the next turn see it. With `dry`,
    /// nothing is written, and the answer is what would be.
    ///
    /// # Errors
    /// [`RegistryError`] when a tool has the name of code, the expectation does not hold, or the database can't be written.
    pub async fn apply(
        &self,
        registry: &Registry,
        skills: &SkillBook,
        expect: Expect,
        actor: &str,
        dry: bool,
    ) -> Result<PackApplied, RegistryError> {
        let applied = registry.apply_pack(&self.rows, expect, actor, dry).await?;
        skills.refresh_after_write().await;
        Ok(applied)
    }
}

/// Adds names to a list. One that is absent, and allows everything, is made when `always` is set, else left as it is.
fn unite<'a>(profile: &mut Value, key: &str, names: impl Iterator<Item = &'a str>, always: bool) {
    let Some(map) = profile.as_object_mut() else { return };
    let absent = map.get(key).is_none_or(Value::is_null);
    if absent && !always {
        return;
    }
    let list = map.entry(key).or_insert(Value::Null);
    if list.is_null() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        for name in names {
            if !list.iter().any(|known| known == name) {
                list.push(name.into());
            }
        }
    }
}
