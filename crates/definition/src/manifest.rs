//! Many tools at once: `{version, defaults, tools}`.
//!
//! A fault of the structure fails the whole manifest. A fault of one tool is an error of that tool,
//! and the others land.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::definition::{Definition, KEYS};
use crate::fields::Fields;
use crate::json::{child_pointer, kind_of};
use crate::problem::{ProblemCode, Problems};
use crate::template::{Piece, Slot, Template};

/// The deployment's environment, as far as manifests may see it.
pub trait Environment {
    /// The value of a variable, or none when it is not set or not to be seen.
    fn variable(&self, name: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String>> Environment for F {
    fn variable(&self, name: &str) -> Option<String> {
        self(name)
    }
}

/// A manifest whose structure is sound; its tools are not yet checked.
#[derive(Debug, Clone)]
pub struct Manifest {
    version: u64,
    defaults: Map<String, Value>,
    tools: Vec<Value>,
    warnings: Vec<String>,
}

/// A structural fault: nothing of the manifest was taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the manifest can't be read: {0}")]
pub struct ManifestError(pub Problems);

/// What a manifest gives.
#[derive(Debug, Clone)]
pub struct Expanded {
    /// The version of the manifest format, 1.
    pub version: u64,
    /// The tools that are sound, in the order of the manifest.
    pub tools: Vec<Definition>,
    /// The tools that are not.
    pub errors: Vec<ToolError>,
    /// What a person should know although nothing failed.
    pub warnings: Vec<String>,
}

/// A tool of a manifest that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    /// The name as written, or `#<tool #2>` when there is none.
    pub tool: String,
    /// What is wrong, with pointers into the manifest.
    pub problems: Problems,
}

/// Keys of `defaults` that tools inherit.
const DEFAULT_KEYS: [&str; 11] = [
    "base_url",
    "path_template",
    "method",
    "headers",
    "query",
    "body",
    "secret_headers",
    "response",
    "group",
    "tags",
    "timeout",
];

/// Keys that are each tool's own and never come from `defaults`.
const OWN_KEYS: [&str; 7] = [
    "halt_when",
    "evidence",
    "side_effect",
    "approval",
    "idempotency_key_header",
    "idempotency_key_life",
    "not_performed_on",
];

/// Keys of a manifest tool beside those of a definition.
const TOOL_KEYS: [&str; 18] = [
    "url",
    "method",
    "headers",
    "query",
    "body",
    "endpoint",
    "base_url",
    "path_template",
    "type",
    "function",
    "inputSchema",
    "title",
    "annotations",
    "outputSchema",
    "_meta",
    "icons",
    "execution",
    "strict",
];

/// The keys of a request, which a tool may nest or write flat.
const REQUEST_KEYS: [&str; 5] = ["method", "url", "headers", "query", "body"];

impl Manifest {
    /// Reads the structure of a manifest.
    ///
    /// # Errors
    /// [`ManifestError`] when it is no object, has an unknown key or version, or when `defaults` or
    /// `tools` is of the wrong type.
    pub fn from_value(value: &Value) -> Result<Self, ManifestError> {
        let mut problems = Problems::default();
        let manifest = Self::read(value, &mut problems);
        problems.or(manifest).map_err(ManifestError)
    }

    fn read(value: &Value, problems: &mut Problems) -> Option<Self> {
        let fields = Fields::read(value, "", "a manifest", &["version", "defaults", "tools"], problems)?;
        let version = match fields.get("version") {
            None => 1,
            Some(version) if version.as_f64() == Some(1.0) => 1,
            Some(other) => {
                let message = format!("this is manifest version {other}; the version is 1");
                problems.add("/version", ProblemCode::Type, message);
                return None;
            }
        };
        let mut warnings = Vec::new();
        let defaults = match fields.get("defaults") {
            None => Map::new(),
            Some(defaults) => {
                let known: Vec<&str> = DEFAULT_KEYS.iter().chain(&OWN_KEYS).copied().collect();
                Fields::read(defaults, "/defaults", "defaults", &known, problems)?;
                let mut map = defaults.as_object().cloned().unwrap_or_default();
                for key in OWN_KEYS.iter().filter(|key| map.get(**key).is_some_and(|value| !value.is_null())) {
                    warnings.push(format!("defaults.{key} is never inherited; write it into each tool that needs it"));
                }
                map.retain(|key, value| DEFAULT_KEYS.contains(&key.as_str()) && !value.is_null());
                check_default_types(&map, problems);
                map
            }
        };
        let tools = match fields.get("tools") {
            None => Vec::new(),
            Some(Value::Array(tools)) => tools.clone(),
            Some(other) => {
                let message = format!("tools is a list of tools, not {}", kind_of(other));
                problems.add("/tools", ProblemCode::Type, message);
                return None;
            }
        };
        Some(Self { version, defaults, tools, warnings })
    }

    /// Merges the defaults into each tool, fills `{{env.*}}`, and checks each tool whole.
    /// `has_secret` tells whether a secret is configured; no secret is read.
    pub fn expand(&self, environment: &dyn Environment, has_secret: &dyn Fn(&str) -> bool) -> Expanded {
        let mut out =
            Expanded { version: self.version, tools: Vec::new(), errors: Vec::new(), warnings: self.warnings.clone() };
        let mut names = HashSet::new();
        for (i, tool) in self.tools.iter().enumerate() {
            let pointer = format!("/tools/{i}");
            let mut problems = Problems::default();
            let definition = self.expand_tool(tool, environment, &mut problems).filter(|_| problems.is_empty());
            if let Some(definition) = &definition {
                for secret in definition.secrets().into_iter().filter(|secret| !has_secret(secret)) {
                    let message = format!(
                        "the secret {secret:?} is not configured; set it in the environment or in the folder of secrets"
                    );
                    problems.add("/secret_headers", ProblemCode::ManifestSecret, message);
                }
                if !names.insert(definition.name.clone()) {
                    let message = format!("the tool {} stands earlier in this manifest; keep one", definition.name);
                    problems.add("/name", ProblemCode::ManifestDuplicate, message);
                }
            }
            match definition {
                Some(definition) if problems.is_empty() => out.tools.push(definition),
                _ => {
                    let tool = written_name(tool).unwrap_or_else(|| format!("#<tool #{i}>"));
                    out.errors.push(ToolError { tool, problems: problems.under(&pointer) });
                }
            }
        }
        out
    }

    fn expand_tool(&self, tool: &Value, environment: &dyn Environment, problems: &mut Problems) -> Option<Definition> {
        let known: Vec<&str> = KEYS.iter().chain(&TOOL_KEYS).copied().collect();
        let fields = Fields::read(tool, "", "a manifest tool", &known, problems)?;
        let mut written = tool.as_object()?.clone();
        unwrap_interface(&mut written, problems);
        flatten_request(&fields, &mut written, problems);
        let endpoint = self.build_url(&mut written, environment, problems);
        self.inherit(&mut written);
        let mut request = Map::new();
        for key in REQUEST_KEYS {
            if let Some(value) = written.shift_remove(key) {
                let at = child_pointer("", key);
                request.insert(key.to_owned(), fill_environment(&value, &at, environment, problems));
            }
        }
        if endpoint.is_none() || !problems.is_empty() {
            // What is wrong with the rest is said as well, unless it only follows from this.
            request.entry("url").or_insert_with(|| "https://url.invalid/".into());
        }
        written.insert("request".to_owned(), Value::Object(request));
        written.retain(|key, _| KEYS.contains(&key.as_str()));
        match Definition::from_value(&Value::Object(written)) {
            Ok(definition) => Some(definition),
            Err(found) => {
                for problem in found.iter() {
                    problems.add(problem.pointer.clone(), problem.code, problem.message.clone());
                }
                None
            }
        }
    }

    /// Sets `url` from its parts when the tool has none of its own.
    fn build_url(
        &self,
        tool: &mut Map<String, Value>,
        environment: &dyn Environment,
        problems: &mut Problems,
    ) -> Option<()> {
        match tool.get("url") {
            Some(Value::String(url)) if url.trim().is_empty() => {}
            None | Some(Value::Null) => {}
            Some(_) => return Some(()),
        }
        tool.shift_remove("url");
        let mut part = |key: &str| -> Result<Option<String>, ()> {
            match tool.get(key).filter(|value| !value.is_null()).or_else(|| self.defaults.get(key)) {
                None => Ok(None),
                Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
                Some(Value::String(text)) => {
                    let pointer = child_pointer("", key);
                    Ok(Some(fill_text(text.trim(), &pointer, environment, problems).trim().to_owned()))
                }
                Some(other) => {
                    let message = format!("{key} is a string, not {}", kind_of(other));
                    problems.add(child_pointer("", key), ProblemCode::Type, message);
                    Err(())
                }
            }
        };
        let (base, template, endpoint) = (part("base_url"), part("path_template"), part("endpoint"));
        let (Ok(base), Ok(template), Ok(endpoint)) = (base, template, endpoint) else { return None };
        let mut missing = |key: &str, why: &str| {
            problems.add(child_pointer("", key), ProblemCode::ManifestEndpoint, format!("{key} is missing: {why}"));
        };
        let mut complete = true;
        if base.is_none() {
            missing("base_url", "the tool has no url, so defaults need a base_url");
            complete = false;
        }
        if template.is_none() {
            missing(
                "path_template",
                "the tool has no url, so defaults need a path_template, such as /tools/{endpoint}",
            );
            complete = false;
        }
        let template = template.unwrap_or_default();
        if template.contains("{endpoint}") && endpoint.is_none() {
            missing("endpoint", "the path_template has {endpoint}, which is never guessed from the name");
            complete = false;
        }
        if !complete {
            return None;
        }
        let path = template.replace("{endpoint}", &endpoint.unwrap_or_default());
        let base = base.unwrap_or_default();
        let url = format!("{}/{}", base.trim_end_matches('/'), path.trim_start_matches('/'));
        tool.insert("url".to_owned(), url.into());
        Some(())
    }

    /// Fills in what the tool does not say itself.
    fn inherit(&self, tool: &mut Map<String, Value>) {
        for key in ["method", "response", "group", "timeout"] {
            if tool.get(key).is_none_or(Value::is_null)
                && let Some(value) = self.defaults.get(key)
            {
                tool.insert(key.to_owned(), value.clone());
            }
        }
        // An explicit null takes the default body away.
        if !tool.contains_key("body")
            && let Some(body) = self.defaults.get("body")
        {
            tool.insert("body".to_owned(), body.clone());
        }
        merge_map(tool, &self.defaults, "headers", |a, b| a.eq_ignore_ascii_case(b));
        merge_map(tool, &self.defaults, "query", |a, b| a == b);
        unite(tool, &self.defaults, "tags");
        unite(tool, &self.defaults, "secret_headers");
    }
}

fn check_default_types(defaults: &Map<String, Value>, problems: &mut Problems) {
    for (key, value) in defaults {
        let (fits, wanted) = match key.as_str() {
            "headers" | "query" => (value.is_object(), "an object of texts"),
            "response" => (value.is_object(), "an object"),
            "tags" | "secret_headers" => (value.is_array() || value.is_string(), "a list of strings"),
            "base_url" | "path_template" | "method" | "group" => (value.is_string(), "a string"),
            "timeout" => (value.is_number(), "a number of seconds"),
            _ => (true, ""),
        };
        if !fits {
            let message = format!("defaults.{key} is {wanted}, not {}", kind_of(value));
            problems.add(child_pointer("/defaults", key), ProblemCode::Type, message);
        }
    }
}

fn written_name(tool: &Value) -> Option<String> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    text(tool.get("function").and_then(|function| function.get("name"))).or_else(|| text(tool.get("name")))
}

/// Takes the interface out of an OpenAI (`function`) or MCP (`inputSchema`) envelope.
fn unwrap_interface(tool: &mut Map<String, Value>, problems: &mut Problems) {
    match tool.shift_remove("type") {
        None | Some(Value::Null) => {}
        Some(Value::String(kind)) if kind == "function" => {}
        Some(other) => {
            let message = format!("type is \"function\" in an OpenAI tool, not {other}");
            problems.add("/type", ProblemCode::Type, message);
        }
    }
    if let Some(function) = tool.shift_remove("function").filter(|function| !function.is_null()) {
        let known = ["name", "description", "parameters", "strict"];
        if let Some(fields) = Fields::read(&function, "/function", "function", &known, problems) {
            for key in ["name", "description", "parameters"] {
                if let Some(value) = fields.get(key) {
                    if key == "parameters" && tool.get(key).is_some_and(|own| !own.is_null()) {
                        let message = "parameters stand both in function and beside it; keep one";
                        problems.add("/function/parameters", ProblemCode::Conflict, message);
                    }
                    tool.insert(key.to_owned(), value.clone());
                }
            }
        }
    }
    if let Some(schema) = tool.shift_remove("inputSchema").filter(|schema| !schema.is_null()) {
        if tool.get("parameters").is_some_and(|own| !own.is_null()) {
            let message = "inputSchema and parameters are the same thing; keep one";
            problems.add("/inputSchema", ProblemCode::Conflict, message);
        }
        tool.insert("parameters".to_owned(), schema);
    }
}

/// Moves a nested `request` beside the other keys.
fn flatten_request(fields: &Fields<'_>, tool: &mut Map<String, Value>, problems: &mut Problems) {
    tool.shift_remove("request");
    let Some(request) = fields.get("request") else { return };
    if Fields::read(request, "/request", "request", &REQUEST_KEYS, problems).is_none() {
        return;
    }
    for (key, value) in request.as_object().into_iter().flatten() {
        // Null is left out, but for a body, where it takes the default away.
        if value.is_null() && key != "body" {
            continue;
        }
        if tool.get(key).is_some_and(|own| !own.is_null()) {
            let message = format!("{key} stands both in request and beside it; keep one");
            problems.add(child_pointer("/request", key), ProblemCode::Conflict, message);
        }
        tool.insert(key.clone(), value.clone());
    }
}

fn merge_map(tool: &mut Map<String, Value>, defaults: &Map<String, Value>, key: &str, same: fn(&str, &str) -> bool) {
    let Some(default) = defaults.get(key).and_then(Value::as_object) else { return };
    let mut merged = default.clone();
    match tool.get(key) {
        None | Some(Value::Null) => {}
        Some(Value::Object(own)) => {
            merged.retain(|name, _| !own.keys().any(|mine| same(mine, name)));
            merged.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        Some(_) => return, // The wrong type is the tool's error.
    }
    tool.insert(key.to_owned(), Value::Object(merged));
}

fn unite(tool: &mut Map<String, Value>, defaults: &Map<String, Value>, key: &str) {
    let as_list = |value: Option<&Value>| match value {
        Some(Value::Array(items)) => Some(items.clone()),
        Some(one @ Value::String(_)) => Some(vec![one.clone()]),
        None | Some(Value::Null) => Some(Vec::new()),
        Some(_) => None,
    };
    // The wrong type is the tool's error, and stays as it is.
    if let (Some(mut list), Some(own)) = (as_list(defaults.get(key)), as_list(tool.get(key))) {
        list.extend(own);
        tool.insert(key.to_owned(), Value::Array(list));
    }
}

/// Replaces `{{env.*}}` in every text below `value`.
fn fill_environment(value: &Value, pointer: &str, environment: &dyn Environment, problems: &mut Problems) -> Value {
    match value {
        Value::String(text) => fill_text(text, pointer, environment, problems).into(),
        Value::Array(items) => {
            let fill = |(i, item): (usize, &Value)| {
                fill_environment(item, &child_pointer(pointer, &i.to_string()), environment, problems)
            };
            Value::Array(items.iter().enumerate().map(fill).collect())
        }
        Value::Object(map) => {
            let fill = |(key, value): (&String, &Value)| {
                (key.clone(), fill_environment(value, &child_pointer(pointer, key), environment, problems))
            };
            Value::Object(map.iter().map(fill).collect())
        }
        other => other.clone(),
    }
}

fn fill_text(text: &str, pointer: &str, environment: &dyn Environment, problems: &mut Problems) -> String {
    let template = Template::parse(text);
    if !template.slots().any(|slot| matches!(slot, Slot::Env(_))) {
        return text.to_owned();
    }
    let mut out = String::new();
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Slot(Slot::Env(name)) => match environment.variable(name) {
                Some(value) if value.contains("{{") => problems.add(
                    pointer,
                    ProblemCode::ManifestEnv,
                    format!("the value of {name} holds {{{{, and a value is never expanded again"),
                ),
                Some(value) => out.push_str(&value),
                None => {
                    let message = format!(
                        "{name} is not set where Toolcrib runs, or manifests may not read it; set it, and name it in manifest.env"
                    );
                    problems.add(pointer, ProblemCode::ManifestEnv, message);
                }
            },
            Piece::Slot(slot) => out.push_str(&format!("{{{{{}}}}}", slot.name())),
        }
    }
    out
}
