//! Reading a profile: every problem at once, each with its place.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Map, Value};
use toolcrib_definition::json::{child_pointer, kind_of};
use toolcrib_definition::{Problem, ProblemCode, Problems, nearest};

use super::{Agent, Limits, Lookup, ModelChoice, SkillsEager};

const KEYS: [&str; 16] = [
    "description",
    "instructions",
    "provider",
    "model",
    "fallback_models",
    "temperature",
    "max_output_tokens",
    "tools_allow",
    "tools_allow_groups",
    "tools_deny",
    "tools_deferred",
    "approvals_required",
    "approvals_by_client",
    "skills",
    "skills_eager",
    "limits",
];
const LIMIT_KEYS: [&str; 7] = [
    "turn_timeout",
    "tool_timeout",
    "tool_concurrency",
    "max_tool_calls",
    "max_tool_repeat",
    "context_budget",
    "subagent_depth",
];
/// The longest instructions, in bytes.
const MAX_INSTRUCTIONS: usize = 256 << 10;

/// Reads a profile; every problem at once.
pub(super) fn read(value: &Value) -> Result<Agent, Problems> {
    let mut reader = Reader { problems: Vec::new() };
    let agent = reader.agent(value);
    if reader.problems.is_empty() { Ok(agent) } else { Err(Problems::from_iter(reader.problems)) }
}

struct Reader {
    problems: Vec<Problem>,
}

impl Reader {
    fn add(&mut self, pointer: impl Into<String>, message: String) {
        self.problems.push(Problem { pointer: pointer.into(), code: ProblemCode::AgentProfile, message });
    }

    fn object<'a>(&mut self, value: &'a Value, pointer: &str, known: &[&str]) -> Option<&'a Map<String, Value>> {
        let Value::Object(map) = value else {
            self.add(pointer, format!("expected an object, got {}", kind_of(value)));
            return None;
        };
        for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
            let hint = nearest(key, known.iter().copied())
                .map_or_else(|| format!("the keys are {}", known.join(", ")), |near| format!("did you mean {near:?}?"));
            let message = format!("there is no key {key:?} here; {hint}");
            self.add(child_pointer(pointer, key), message);
        }
        Some(map)
    }

    fn agent(&mut self, value: &Value) -> Agent {
        let Some(map) = self.object(value, "", &KEYS) else { return Agent::default() };
        let get = |key: &str| map.get(key).filter(|value| !value.is_null());
        let description = self.text(map, "description");
        let instructions = self.text(map, "instructions");
        if instructions.as_ref().is_some_and(|text| text.len() > MAX_INSTRUCTIONS) {
            self.add("/instructions", format!("the instructions are longer than {MAX_INSTRUCTIONS} bytes"));
        }
        let model = match (self.text(map, "provider"), self.text(map, "model")) {
            (Some(provider), Some(model)) => Some(ModelChoice { provider, model }),
            (None, None) => None,
            (Some(_), None) => {
                self.add("/model", "a provider is named and no model of it".to_owned());
                None
            }
            (None, Some(_)) => {
                self.add("/provider", "a model is named and not whose it is".to_owned());
                None
            }
        };
        let fallback_models = get("fallback_models").map(|value| self.models(value)).unwrap_or_default();
        let temperature = match get("temperature") {
            None => None,
            Some(Value::Number(number)) if number.as_f64().is_some_and(|t| (0.0..=2.0).contains(&t)) => {
                Some(number.clone())
            }
            Some(other) => {
                self.add("/temperature", format!("expected a number from 0 to 2, got {other}"));
                None
            }
        };
        let max_output_tokens = match get("max_output_tokens") {
            None => None,
            Some(value) => {
                let number = value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
                if number.is_none() {
                    self.add("/max_output_tokens", format!("expected a whole number above 0, got {value}"));
                }
                number
            }
        };
        let skills_eager = match get("skills_eager") {
            None => SkillsEager::None,
            Some(Value::String(word)) if word == "none" => SkillsEager::None,
            Some(Value::String(word)) if word == "all" => SkillsEager::All,
            Some(value @ Value::Array(_)) => SkillsEager::Names(self.names(value, "/skills_eager")),
            Some(other) => {
                self.add("/skills_eager", format!("expected a list of names, \"all\" or \"none\", got {other}"));
                SkillsEager::None
            }
        };
        let mut list = |key: &str| get(key).map(|value| self.names(value, &format!("/{key}")));
        let tools_allow = list("tools_allow");
        let tools_allow_groups = list("tools_allow_groups");
        let tools_deny = list("tools_deny").unwrap_or_default();
        let tools_deferred = list("tools_deferred").unwrap_or_default();
        let approvals_required = list("approvals_required").unwrap_or_default();
        let skills = list("skills");
        let approvals_by_client = match get("approvals_by_client") {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => {
                self.add("/approvals_by_client", format!("expected true or false, got {}", kind_of(other)));
                false
            }
        };
        let limits = get("limits").map_or_else(Limits::default, |value| self.limits(value));
        let set = |list: &[String]| list.iter().cloned().collect();
        let lookup = Lookup {
            allow: set(tools_allow.as_deref().unwrap_or_default()),
            groups: set(tools_allow_groups.as_deref().unwrap_or_default()),
            deny: set(&tools_deny),
            deferred: set(&tools_deferred),
            skills: set(skills.as_deref().unwrap_or_default()),
        };
        Agent {
            description,
            instructions,
            model,
            fallback_models,
            temperature,
            max_output_tokens,
            tools_allow,
            tools_allow_groups,
            tools_deny,
            tools_deferred,
            approvals_required,
            approvals_by_client,
            skills,
            skills_eager,
            limits,
            lookup,
        }
    }

    /// A text that is not blank.
    fn text(&mut self, map: &Map<String, Value>, key: &str) -> Option<String> {
        match map.get(key) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if !text.trim().is_empty() => Some(text.clone()),
            Some(Value::String(_)) => None,
            Some(other) => {
                self.add(format!("/{key}"), format!("expected a string, got {}", kind_of(other)));
                None
            }
        }
    }

    fn models(&mut self, value: &Value) -> Vec<ModelChoice> {
        let Value::Array(items) = value else {
            self.add("/fallback_models", format!("expected a list of models, got {}", kind_of(value)));
            return Vec::new();
        };
        let mut models = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let text = |key: &str| item.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
            match (text("provider"), text("model")) {
                (Some(provider), Some(model)) => {
                    models.push(ModelChoice { provider: provider.to_owned(), model: model.to_owned() });
                }
                _ => self.add(format!("/fallback_models/{i}"), format!("expected {{provider, model}}, got {item}")),
            }
        }
        models
    }

    fn names(&mut self, value: &Value, pointer: &str) -> Vec<String> {
        let Value::Array(items) = value else {
            self.add(pointer, format!("expected a list of names, got {}", kind_of(value)));
            return Vec::new();
        };
        let mut names: Vec<String> = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            match item.as_str().map(str::trim) {
                Some(name) if !name.is_empty() => names.push(name.to_owned()),
                _ => self.add(format!("{pointer}/{i}"), format!("expected a name, got {item}")),
            }
        }
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    fn limits(&mut self, value: &Value) -> Limits {
        let Some(map) = self.object(value, "/limits", &LIMIT_KEYS) else { return Limits::default() };
        let defaults = Limits::default();
        let mut number = |key: &str, most: u64, default: u64| match map.get(key) {
            None | Some(Value::Null) => default,
            Some(value) => match value.as_u64() {
                Some(number) if (1..=most).contains(&number) => number,
                _ => {
                    let message = format!("expected a whole number from 1 to {most}, got {value}");
                    self.add(format!("/limits/{key}"), message);
                    default
                }
            },
        };
        let turn_timeout = number("turn_timeout", Limits::MAX_TURN_TIMEOUT.as_secs(), defaults.turn_timeout.as_secs());
        let tool_timeout = number("tool_timeout", 600, defaults.tool_timeout.as_secs());
        let tool_concurrency = number("tool_concurrency", 64, defaults.tool_concurrency as u64);
        let max_tool_calls = number("max_tool_calls", 1000, defaults.max_tool_calls as u64);
        let max_tool_repeat = number("max_tool_repeat", 1000, defaults.max_tool_repeat as u64);
        let context_budget = number("context_budget", 10_000_000, defaults.context_budget as u64);
        let subagent_depth = number("subagent_depth", 5, defaults.subagent_depth as u64);
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Limits {
            turn_timeout: Duration::from_secs(turn_timeout),
            tool_timeout: Duration::from_secs(tool_timeout),
            tool_concurrency: size(tool_concurrency),
            max_tool_calls: size(max_tool_calls),
            max_tool_repeat: size(max_tool_repeat),
            context_budget: size(context_budget),
            subagent_depth: size(subagent_depth),
        }
    }
}
