//! The flat spellings of parameters: a list of `{name, type, required, description}`, or text with
//! one line a parameter, `name | type | required|optional | description`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::fields::Fields;
use crate::json::{self, child_pointer, kind_of};
use crate::name::is_name;
use crate::problem::{ProblemCode, Problems};

const SCALARS: [&str; 4] = ["string", "number", "integer", "boolean"];

/// Reads the text form of parameters: flat lines, a JSON Schema (text that starts with `{`) or a
/// JSON list (text that starts with `[`). The result is a JSON Schema, or the JSON list, which a
/// definition takes as it is.
///
/// ```
/// let schema = toolcrib_definition::parameters_from_text("zip | string | required | Where to")?;
/// assert_eq!(schema["properties"]["zip"]["description"], "Where to");
/// # Ok::<(), toolcrib_definition::Problems>(())
/// ```
///
/// # Errors
/// Every line, or every part of the schema, that can't be read.
pub fn parameters_from_text(text: &str) -> Result<Value, Problems> {
    let mut problems = Problems::default();
    let trimmed = text.trim_start();
    if trimmed.starts_with('{') || trimmed.starts_with('[') {
        let value = match json::parse(text.as_bytes()) {
            Ok(value) => value,
            Err(error) => {
                problems.add("", ProblemCode::SugarEntry, error.to_string());
                return Err(problems);
            }
        };
        let schema = crate::parameters::read_schema(&value, "", &mut problems);
        return problems.or(schema.map(Value::Object));
    }
    let mut flat = Flat::default();
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mut parts = line.splitn(4, '|').map(str::trim);
        let mut part = || parts.next().unwrap_or_default();
        let (name, kind, presence, description) = (part(), part(), part(), part());
        let entry = Entry {
            name,
            kind: if kind.is_empty() { "string" } else { kind },
            required: !presence.eq_ignore_ascii_case("optional"),
            description,
        };
        flat.add(&entry, &format!("/{i}"), &format!("line {}", i + 1), &mut problems);
    }
    problems.or(Some(Value::Object(flat.into_schema())))
}

/// The text form of a JSON Schema, one line a parameter; none when the lines would say less than the schema does.
///
/// ```
/// use toolcrib_definition::{parameters_from_text, parameters_to_text};
/// let schema = parameters_from_text("zip | string | required | Where to")?;
/// assert_eq!(parameters_to_text(&schema).as_deref(), Some("zip | string | required | Where to"));
/// # Ok::<(), toolcrib_definition::Problems>(())
/// ```
pub fn parameters_to_text(schema: &Value) -> Option<String> {
    let properties = schema.get("properties")?.as_object()?;
    let required = required_of(schema);
    let mut lines = Vec::with_capacity(properties.len());
    for (name, property) in properties {
        let kind = match property.get("type")?.as_str()? {
            "array" => format!("array:{}", property.get("items")?.get("type")?.as_str()?),
            kind => kind.to_owned(),
        };
        let presence = if required.contains(&name.as_str()) { "required" } else { "optional" };
        let line = match property.get("description").and_then(Value::as_str) {
            Some(description) => format!("{name} | {kind} | {presence} | {description}"),
            None => format!("{name} | {kind} | {presence}"),
        };
        lines.push(line);
    }
    let text = lines.join("\n");
    let read = parameters_from_text(&text).ok()?;
    (required_of(&read) == required && without_required(&read) == without_required(schema)).then_some(text)
}

/// What a schema requires: an absent list is an empty one, and its order says nothing.
fn required_of(schema: &Value) -> BTreeSet<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn without_required(schema: &Value) -> Option<Map<String, Value>> {
    let mut schema = schema.as_object()?.clone();
    schema.shift_remove("required");
    Some(schema)
}

/// Reads the list form into a JSON Schema.
pub(crate) fn read_list(items: &[Value], pointer: &str, problems: &mut Problems) -> Map<String, Value> {
    let mut flat = Flat::default();
    for (i, item) in items.iter().enumerate() {
        let at = child_pointer(pointer, &i.to_string());
        let Value::Object(map) = item else {
            let message = format!("a flat parameter is an object with a name, not {}", kind_of(item));
            problems.add(at, ProblemCode::SugarEntry, message);
            continue;
        };
        let known = ["name", "type", "required", "description"];
        if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
            problems.add(
                child_pointer(&at, key),
                ProblemCode::SugarEntry,
                format!(
                    "the flat form has name, type, required and description, and no {key:?}; for more, write the \
                     parameters as JSON Schema: {{\"type\": \"object\", \"properties\": {{…}}}}"
                ),
            );
            continue;
        }
        let Some(fields) = Fields::read(item, &at, "a flat parameter", &known, problems) else { continue };
        let before = problems.len();
        let name = fields.text("name", problems).unwrap_or_default();
        let kind = fields.text("type", problems).unwrap_or("string");
        let required = fields.boolean("required", problems).unwrap_or(true);
        let description = fields.text("description", problems).unwrap_or_default();
        if problems.len() == before {
            let entry = Entry { name, kind, required, description };
            flat.add(&entry, &at, &format!("entry {i}"), problems);
        }
    }
    flat.into_schema()
}

struct Entry<'a> {
    name: &'a str,
    kind: &'a str,
    required: bool,
    description: &'a str,
}

#[derive(Default)]
struct Flat {
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl Flat {
    fn add(&mut self, entry: &Entry<'_>, pointer: &str, place: &str, problems: &mut Problems) {
        let Entry { name, kind, required, description } = *entry;
        if !is_name(name) {
            let message = if name.is_empty() {
                format!("{place} has no name")
            } else {
                format!("{place}: the name {name:?} begins with a lower-case letter and goes on with a-z, 0-9 and _")
            };
            problems.add(pointer, ProblemCode::SugarEntry, message);
            return;
        }
        if self.properties.contains_key(name) {
            problems.add(pointer, ProblemCode::SugarDuplicate, format!("{place}: the parameter {name:?} stands twice"));
            return;
        }
        let mut schema = Map::new();
        match kind.strip_prefix("array:") {
            None if SCALARS.contains(&kind) => {
                schema.insert("type".into(), kind.into());
            }
            Some(item) if SCALARS.contains(&item) => {
                schema.insert("type".into(), "array".into());
                schema.insert("items".into(), json!({ "type": item }));
            }
            _ => {
                let hint = match kind {
                    "array" => "a bare array says nothing of its items; write array:string, array:number, \
                                array:integer or array:boolean"
                        .to_owned(),
                    _ => format!(
                        "there is no type {kind:?} here; the types are string, number, integer, boolean and \
                         array:<one of these>. For objects write JSON Schema"
                    ),
                };
                problems.add(pointer, ProblemCode::SugarType, format!("{place}: {hint}"));
                return;
            }
        }
        if !description.trim().is_empty() {
            schema.insert("description".into(), description.trim().into());
        }
        self.properties.insert(name.to_owned(), Value::Object(schema));
        if required {
            self.required.push(name.into());
        }
    }

    fn into_schema(self) -> Map<String, Value> {
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), Value::Object(self.properties));
        schema.insert("required".into(), Value::Array(self.required));
        schema
    }
}
