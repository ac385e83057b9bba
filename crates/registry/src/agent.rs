//! An agent: who may use what.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolcrib_definition::json::{child_pointer, kind_of};
use toolcrib_definition::{Problem, ProblemCode, Problems};

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

/// Limits of an agent's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The time of a call whose tool names none. Default 60 s.
    pub tool_timeout: Duration,
    /// Calls of one batch that run at the same time. Default 1.
    pub tool_concurrency: usize,
    /// Calls of one batch that are run; those past it are answered, not run. Default 50.
    pub max_tool_calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tool_timeout: Duration::from_secs(60), tool_concurrency: 1, max_tool_calls: 50 }
    }
}

/// An agent's profile.
///
/// Each list has three states: absent means all, empty means none, names mean those.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Agent {
    description: Option<String>,
    tools_allow: Option<Vec<String>>,
    tools_allow_groups: Option<Vec<String>>,
    tools_deny: Vec<String>,
    tools_deferred: Vec<String>,
    approvals_required: Vec<String>,
    approvals_by_client: bool,
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
}

const KEYS: [&str; 8] = [
    "description",
    "tools_allow",
    "tools_allow_groups",
    "tools_deny",
    "tools_deferred",
    "approvals_required",
    "approvals_by_client",
    "limits",
];
const LIMIT_KEYS: [&str; 3] = ["tool_timeout", "tool_concurrency", "max_tool_calls"];

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
        let mut reader = Reader { problems: Vec::new() };
        let agent = reader.agent(value);
        if reader.problems.is_empty() { Ok(agent) } else { Err(Problems::from_iter(reader.problems)) }
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
            "tools_allow": self.tools_allow,
            "tools_allow_groups": self.tools_allow_groups,
            "tools_deny": self.tools_deny,
            "tools_deferred": self.tools_deferred,
            "approvals_required": self.approvals_required,
            "approvals_by_client": self.approvals_by_client,
            "limits": {
                "tool_timeout": self.limits.tool_timeout.as_secs(),
                "tool_concurrency": self.limits.tool_concurrency,
                "max_tool_calls": self.limits.max_tool_calls,
            },
        })
    }

    /// Whether the agent may use a tool: a denied or disabled one never, else what the two allowlists unite to,
    /// or every tool when there is neither.
    pub fn allows(&self, tool: &Entry) -> bool {
        tool.disabled().is_none() && self.lists(tool)
    }

    /// Whether the lists of the agent let a tool through, be it disabled or not.
    pub fn lists(&self, tool: &Entry) -> bool {
        if self.lookup.deny.contains(tool.name()) {
            return false;
        }
        // What takes a person's time is given to nobody who was not meant to have it.
        let asks_a_person = tool.as_code().is_some_and(|tool| tool.asks_a_person());
        if self.tools_allow.is_none() && self.tools_allow_groups.is_none() {
            return !asks_a_person;
        }
        self.lookup.allow.contains(tool.name()) || tool.group().is_some_and(|group| self.lookup.groups.contains(group))
    }

    /// Whether the agent is shown a tool at the start of a turn.
    pub fn offers(&self, tool: &Entry) -> bool {
        self.allows(tool) && !self.lookup.deferred.contains(tool.name())
    }
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
            let message = format!("there is no key {key:?} here; the keys are {}", known.join(", "));
            self.add(child_pointer(pointer, key), message);
        }
        Some(map)
    }

    fn agent(&mut self, value: &Value) -> Agent {
        let Some(map) = self.object(value, "", &KEYS) else { return Agent::default() };
        let get = |key: &str| map.get(key).filter(|value| !value.is_null());
        let description = match get("description") {
            None => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => {
                self.add("/description", format!("expected a string, got {}", kind_of(other)));
                None
            }
        };
        let mut list = |key: &str| get(key).map(|value| self.names(value, &format!("/{key}")));
        let tools_allow = list("tools_allow");
        let tools_allow_groups = list("tools_allow_groups");
        let tools_deny = list("tools_deny").unwrap_or_default();
        let tools_deferred = list("tools_deferred").unwrap_or_default();
        let approvals_required = list("approvals_required").unwrap_or_default();
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
        };
        Agent {
            description,
            tools_allow,
            tools_allow_groups,
            tools_deny,
            tools_deferred,
            approvals_required,
            approvals_by_client,
            limits,
            lookup,
        }
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
        let tool_timeout = number("tool_timeout", 600, defaults.tool_timeout.as_secs());
        let tool_concurrency = number("tool_concurrency", 64, defaults.tool_concurrency as u64);
        let max_tool_calls = number("max_tool_calls", 1000, defaults.max_tool_calls as u64);
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Limits {
            tool_timeout: Duration::from_secs(tool_timeout),
            tool_concurrency: size(tool_concurrency),
            max_tool_calls: size(max_tool_calls),
        }
    }
}
