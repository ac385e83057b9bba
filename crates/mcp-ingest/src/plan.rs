//! What an ingestion would change: the tools a server lists against the rows there are.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::{Map, Value};
use toolcrib_definition::lowering::{self, LoweringStep};
use toolcrib_definition::{Definition, MAX_NAME};

use crate::param_headers::check_annotations;
use crate::server::McpServer;

/// The longest description that is taken over, in bytes.
const MAX_DESCRIPTION: usize = 16 << 10;
/// The longest schema that is taken over, in bytes of JSON.
const MAX_SCHEMA: usize = 512 << 10;

/// The longest lowered schema, in bytes: a model reads all of it.
const MAX_LOWERED: usize = 256 << 10;

/// What becomes of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The server has it, and there was no row.
    Added,
    /// The server says something else of it than the row.
    Changed,
    /// The row says what the server says.
    Unchanged,
    /// The server no longer has it; the row is disabled.
    Gone,
    /// It can't be a row.
    Failed,
}

/// One tool of an ingestion.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolReport {
    /// The name that the server gives it.
    pub tool: String,
    /// The name of its row, when there is one.
    pub name: Option<String>,
    /// What becomes of it.
    pub change: Change,
    /// Which parts changed, such as `description`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<&'static str>,
    /// What was done to it that a person should know, or why it failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The steps of its lowering.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lowering: Vec<LoweringStep>,
}

/// What an ingestion would write, and the report of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The rows to write, each with its report.
    pub writes: Vec<(Definition, ToolReport)>,
    /// The tools that need no write: unchanged and failed ones.
    pub others: Vec<ToolReport>,
}

impl Plan {
    /// All reports, written ones first.
    pub fn reports(&self) -> impl Iterator<Item = &ToolReport> {
        self.writes.iter().map(|(_, report)| report).chain(&self.others)
    }

    /// How many tools have this change.
    pub fn count(&self, change: Change) -> usize {
        self.reports().filter(|report| report.change == change).count()
    }
}

/// Compares what a server lists with the rows of its group. `taken` tells whether a name belongs to a tool
/// that is not of this server. Never fails: a tool that can't be a row is reported and hides no other.
pub fn plan(server: &McpServer, listed: &[Value], rows: &[Definition], taken: &dyn Fn(&str) -> bool) -> Plan {
    let mut plan = Plan { writes: Vec::new(), others: Vec::new() };
    let mut names = HashSet::new();
    let mut originals = HashSet::new();
    let by_tool: HashMap<&str, &Definition> =
        rows.iter().filter_map(|row| Some((row.mcp.as_ref()?.tool.as_str(), row))).collect();
    for tool in listed {
        let original = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut report = ToolReport {
            tool: original.chars().take(200).collect(),
            name: None,
            change: Change::Failed,
            parts: Vec::new(),
            notes: Vec::new(),
            lowering: Vec::new(),
        };
        let row = by_tool.get(original).copied();
        let made = if originals.insert(original.to_owned()) {
            definition_of(server, tool, row, &mut names, taken, &mut report)
        } else {
            Err("the server lists this name twice; the first stands".to_owned())
        };
        match made {
            Ok(definition) => {
                report.name = Some(definition.name.to_string());
                report.parts = row.map_or_else(Vec::new, |row| changed_parts(row, &definition));
                report.change = match row {
                    None => Change::Added,
                    Some(_) if report.parts.is_empty() => Change::Unchanged,
                    Some(_) => Change::Changed,
                };
                if report.change == Change::Unchanged {
                    plan.others.push(report);
                } else {
                    plan.writes.push((definition, report));
                }
            }
            Err(reason) => {
                report.notes.push(reason);
                plan.others.push(report);
            }
        }
    }
    for row in rows {
        let Some(mcp) = row.mcp.as_ref().filter(|mcp| !originals.contains(&mcp.tool)) else { continue };
        let reason = "its server no longer has it";
        let mut report = ToolReport {
            tool: mcp.tool.clone(),
            name: Some(row.name.to_string()),
            change: Change::Gone,
            parts: Vec::new(),
            notes: vec![reason.to_owned()],
            lowering: Vec::new(),
        };
        if mcp.disabled.as_deref() == Some(reason) {
            report.change = Change::Unchanged;
            plan.others.push(report);
        } else {
            let mut gone = row.clone();
            gone.mcp = Some(toolcrib_definition::McpTool { disabled: Some(reason.to_owned()), ..mcp.clone() });
            plan.writes.push((gone, report));
        }
    }
    plan
}

fn definition_of(
    server: &McpServer,
    tool: &Value,
    row: Option<&Definition>,
    names: &mut HashSet<String>,
    taken: &dyn Fn(&str) -> bool,
    report: &mut ToolReport,
) -> Result<Definition, String> {
    let Some(original) = tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
        return Err("it has no name".to_owned());
    };
    if original.len() > 256 || original.chars().any(char::is_control) {
        return Err("its name is longer than 256 bytes or holds control characters".to_owned());
    }
    let mut tool = tool.clone();
    match tool.get("inputSchema") {
        Some(Value::Object(_)) => {}
        None | Some(Value::Null) => {
            report.notes.push("it has no inputSchema: it takes any object".to_owned());
            tool["inputSchema"] = Value::Object(Map::from_iter([("type".to_owned(), "object".into())]));
        }
        Some(_) => return Err("its inputSchema is no object".to_owned()),
    }
    let schema = &tool["inputSchema"];
    let bytes = schema.to_string().len();
    if bytes > MAX_SCHEMA {
        return Err(format!("its inputSchema has {bytes} bytes, and at most {MAX_SCHEMA} are taken"));
    }
    check_annotations(schema)?;
    if !lowering::compiles(schema) {
        report.notes.push("its inputSchema does not compile: only the server judges its arguments".to_owned());
    }
    let lowered = lowering::lower(schema);
    report.lowering = lowered.steps().to_vec();
    let parameters = Value::Object(lowered.parameters().clone());
    let bytes = parameters.to_string().len();
    if bytes > MAX_LOWERED {
        return Err(format!(
            "its inputSchema, with references written out, has {bytes} bytes, and at most {MAX_LOWERED} are taken"
        ));
    }
    let name = match row {
        Some(row) => row.name.to_string(),
        None => row_name(&server.prefix(), original, names, taken)?,
    };
    names.insert(name.clone());
    let description = description_of(&tool, original, server, report);
    let value = server.tool_value(&name, &description, &tool, Some(parameters));
    let mut definition = Definition::from_value(&value).map_err(|problems| problems.to_string())?;
    if let Some(row) = row {
        keep_decisions(&mut definition, row);
    }
    Ok(definition)
}

/// What an operator decided about a tool outlives what its server says of it. Its side effect is kept too,
/// unless it was only believed of a tool that no longer calls itself read-only.
pub fn keep_decisions(new: &mut Definition, row: &Definition) {
    new.approval = row.approval.clone();
    new.tags = row.tags.clone();
    new.timeout = row.timeout.or(new.timeout);
    new.halt_when = row.halt_when.clone();
    new.idempotency_key_header = row.idempotency_key_header.clone();
    new.idempotency_key_life = row.idempotency_key_life;
    new.not_performed_on = row.not_performed_on.clone();
    let annotations = row.mcp.as_ref().and_then(|mcp| mcp.annotations.as_ref());
    let was_believed = annotations.and_then(|hints| hints.get("readOnlyHint")) == Some(&Value::Bool(true));
    if row.side_effect || !was_believed {
        new.side_effect = row.side_effect;
    }
}

/// What the model reads: the server's own words, without control characters and within bounds.
fn description_of(tool: &Value, original: &str, server: &McpServer, report: &mut ToolReport) -> String {
    let written = tool.get("description").and_then(Value::as_str).unwrap_or_default();
    let clean: String = written.chars().filter(|ch| !ch.is_control() || matches!(ch, '\n' | '\t')).collect();
    if clean.len() != written.len() {
        report.notes.push("control characters were taken out of its description".to_owned());
    }
    if clean.trim().is_empty() {
        let title = tool.get("title").or_else(|| tool.pointer("/annotations/title")).and_then(Value::as_str);
        report.notes.push("it has no description: its title or name stands in".to_owned());
        return match title.filter(|title| !title.trim().is_empty()) {
            Some(title) => title.chars().filter(|ch| !ch.is_control()).take(1_000).collect(),
            None => format!("The tool {original} of the MCP server {}", server.name),
        };
    }
    if clean.len() <= MAX_DESCRIPTION {
        return clean;
    }
    report.notes.push(format!("its description has {} bytes and was cut to {MAX_DESCRIPTION}", clean.len()));
    clean[..clean.floor_char_boundary(MAX_DESCRIPTION)].to_owned()
}

/// `<prefix><tool>` in the alphabet of names. A name that is taken, or too long, ends in a number of its
/// own that is always the same for the same tool.
fn row_name(prefix: &str, tool: &str, names: &HashSet<String>, taken: &dyn Fn(&str) -> bool) -> Result<String, String> {
    let mut base = format!("{prefix}{}", snake(tool));
    if !base.starts_with(|ch: char| ch.is_ascii_lowercase()) {
        base.insert_str(0, "tool_");
    }
    let free = |name: &str| !names.contains(name) && !taken(name);
    if base.len() <= MAX_NAME && free(&base) {
        return Ok(base);
    }
    let mark = format!("_{:08x}", fnv1a(tool.as_bytes()));
    let cut: String = base.chars().take(MAX_NAME - mark.len()).collect();
    let marked = cut + &mark;
    if free(&marked) { Ok(marked) } else { Err(format!("the names {base} and {marked} belong to other tools")) }
}

/// A text in lower case with `_` between words.
fn snake(text: &str) -> String {
    let mut out = String::new();
    let mut was_lower = false;
    for ch in text.chars() {
        if ch.is_ascii_uppercase() && was_lower {
            out.push('_');
        }
        was_lower = ch.is_ascii_lowercase() || ch.is_ascii_digit();
        out.push(if ch.is_ascii_alphanumeric() { ch.to_ascii_lowercase() } else { '_' });
    }
    out
}

/// A short mark of a text: FNV-1a, 32 bits.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Which parts of a row the server's own words would change.
fn changed_parts(row: &Definition, new: &Definition) -> Vec<&'static str> {
    let mut parts = Vec::new();
    let mut part = |name, same: bool| {
        if !same {
            parts.push(name);
        }
    };
    let (old_mcp, new_mcp) = (row.mcp.as_ref(), new.mcp.as_ref());
    part("description", row.description == new.description);
    part("schema", old_mcp.map(|mcp| &mcp.input_schema) == new_mcp.map(|mcp| &mcp.input_schema));
    part("parameters", row.parameters.schema() == new.parameters.schema());
    part("output_schema", old_mcp.map(|mcp| &mcp.output_schema) == new_mcp.map(|mcp| &mcp.output_schema));
    part("annotations", old_mcp.map(|mcp| &mcp.annotations) == new_mcp.map(|mcp| &mcp.annotations));
    part("title", old_mcp.map(|mcp| &mcp.title) == new_mcp.map(|mcp| &mcp.title));
    part("request", row.request == new.request && row.secret_headers == new.secret_headers);
    part("side_effect", row.side_effect == new.side_effect);
    part("transport", old_mcp.map(|mcp| mcp.sse) == new_mcp.map(|mcp| mcp.sse));
    part("availability", old_mcp.map(|mcp| &mcp.disabled) == new_mcp.map(|mcp| &mcp.disabled));
    parts
}
