//! The tools of the turn itself: finding deferred tools, loading skills, spawning subagents.

use std::collections::HashSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcrib_executor::Status;
use toolcrib_registry::{Agent, Hit, Registry, SYSTEM_TOOLS, Snapshot};
use toolcrib_skills::{Active, AgentSkills};

use crate::model::ToolOffer;

pub(crate) const TOOL_SEARCH: &str = SYSTEM_TOOLS[0];
pub(crate) const LOAD_SKILL: &str = SYSTEM_TOOLS[1];
pub(crate) const SPAWN_SUBAGENTS: &str = SYSTEM_TOOLS[2];

/// Tools that one search finds at the most.
const FOUND: usize = 5;
/// What a tool has to score beside the best one to be found too.
const WORST_OF_BEST: f32 = 0.25;
/// Subagents of one call.
pub(crate) const MAX_CHILDREN: usize = 8;

pub(crate) fn is_system_tool(name: &str) -> bool {
    SYSTEM_TOOLS.contains(&name)
}

pub(crate) fn tool_search_offer() -> ToolOffer {
    ToolOffer {
        name: TOOL_SEARCH.to_owned(),
        description:
            "Find tools that are not shown yet, by what they do. What is found can be called for the rest of this turn."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What you want to do, in a few words"}},
            "required": ["query"],
        }),
    }
}

pub(crate) fn load_skill_offer() -> ToolOffer {
    ToolOffer {
        name: LOAD_SKILL.to_owned(),
        description: "Read a skill from the list of available skills, with those that belong to it.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"name": {"type": "string", "description": "The name of the skill"}},
            "required": ["name"],
        }),
    }
}

pub(crate) fn spawn_subagents_offer() -> ToolOffer {
    ToolOffer {
        name: SPAWN_SUBAGENTS.to_owned(),
        description: "Give parts of the work to subagents that work beside each other and know nothing of this \
                      conversation. Each answers once."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "tasks": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_CHILDREN,
                    "items": {
                        "type": "object",
                        "properties": {
                            "task": {"type": "string", "description": "Everything the subagent has to know"},
                            "tools": {
                                "type": "array",
                                "items": {"type": "string"},
                                "description": "The tools it may use; all of yours when left out",
                            },
                        },
                        "required": ["task"],
                    },
                },
            },
            "required": ["tasks"],
        }),
    }
}

/// How a call of the turn's own tools ended.
pub(crate) struct SystemEnd {
    pub(crate) status: Status,
    /// What went wrong.
    pub(crate) code: Option<&'static str>,
    pub(crate) result: Value,
}

impl SystemEnd {
    pub(crate) fn ok(result: Value) -> Self {
        Self { status: Status::Ok, code: None, result }
    }

    pub(crate) fn not_run(message: String) -> Self {
        Self { status: Status::Skipped, code: Some("call.limit"), result: json!({ "error": message }) }
    }

    fn failed(message: String) -> Self {
        Self { status: Status::Error, code: Some("call.tool"), result: json!({ "error": message }) }
    }
}

/// A task for a subagent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Task {
    pub(crate) task: String,
    pub(crate) tools: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tasks {
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    name: String,
}

/// The tasks of a call.
pub(crate) fn tasks_of(arguments: &Value) -> Result<Vec<Task>, SystemEnd> {
    let Tasks { tasks } = read(arguments)?;
    if tasks.is_empty() || tasks.len() > MAX_CHILDREN {
        return Err(refused(format!("1 to {MAX_CHILDREN} tasks, not {}", tasks.len())));
    }
    if tasks.iter().any(|task| task.task.trim().is_empty()) {
        return Err(refused("a task is blank"));
    }
    Ok(tasks)
}

/// Finds deferred tools that the agent may use, best first. Returns the answer, and the tools that can be called now and
/// could not be before.
pub(crate) fn search(
    arguments: &Value,
    registry: &Registry,
    snapshot: &Snapshot,
    agent: &Agent,
    enabled: &[String],
) -> (SystemEnd, Vec<String>) {
    let query = match read::<Search>(arguments) {
        Ok(search) => search.query,
        Err(refused) => return (refused, Vec::new()),
    };
    let hits = registry.search(&query, FOUND, |tool| {
        // The index is of now, the turn's catalog of when it began.
        snapshot.tool(tool.name()).is_some_and(|tool| agent.allows(tool) && !agent.offers(tool))
    });
    // A word that stands everywhere makes no tool fit.
    let floor = hits.first().map_or(0.0, |best| best.score * WORST_OF_BEST);
    let hits: Vec<Hit> = hits.into_iter().filter(|hit| hit.score >= floor).collect();
    let described = |name: &str| {
        let description = snapshot.tool(name).and_then(|tool| tool.view()).map(|view| view.description.to_owned());
        json!({ "name": name, "description": description })
    };
    let tools: Vec<Value> = hits.iter().map(|hit| described(&hit.name)).collect();
    let new = hits.into_iter().map(|hit| hit.name).filter(|name| !enabled.contains(name)).collect();
    let result = match tools.is_empty() {
        true => json!({ "tools": [], "note": "nothing fits; try other words" }),
        false => json!({ "tools": tools, "note": "these can be called until this turn ends" }),
    };
    (SystemEnd::ok(result), new)
}

/// Loads a skill with its companions.
pub(crate) fn load(arguments: &Value, skills: &AgentSkills<'_>, present: &HashSet<String>) -> (SystemEnd, Vec<Active>) {
    let name = match read::<Load>(arguments) {
        Ok(load) => load.name,
        Err(refused) => return (refused, Vec::new()),
    };
    match skills.load(name.trim(), present) {
        Ok(active) => {
            let texts: Vec<Value> = active
                .iter()
                .map(|active| json!({ "name": active.skill.name(), "text": active.skill.body() }))
                .collect();
            (SystemEnd::ok(json!({ "skills": texts })), active)
        }
        Err(error) => (SystemEnd::failed(error.to_string()), Vec::new()),
    }
}

fn read<T: DeserializeOwned>(arguments: &Value) -> Result<T, SystemEnd> {
    // Some providers send the object as its text.
    let parsed = match arguments {
        Value::String(text) => serde_json::from_str(text),
        other => serde_json::from_value(other.clone()),
    };
    parsed.map_err(|error| refused(error.to_string()))
}

fn refused(message: impl std::fmt::Display) -> SystemEnd {
    let message = format!("invalid arguments: {message}");
    SystemEnd { status: Status::Error, code: Some("call.arguments"), result: json!({ "error": message }) }
}
