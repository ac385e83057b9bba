//! Parameters of every location, as arguments of a tool.

use serde_json::{Map, Value};

use super::document::Document;
use super::schema::Schemas;
use crate::names::{Names, snake};

/// What a tool's arguments are made of, and where they go.
pub(super) struct Places<'d, 'a> {
    pub(super) document: &'d Document<'a>,
    pub(super) schemas: Schemas<'d, 'a>,
    pub(super) names: Names,
    pub(super) properties: Map<String, Value>,
    pub(super) required: Vec<String>,
    pub(super) query: Map<String, Value>,
    pub(super) headers: Map<String, Value>,
    /// Pairs of the `Cookie` header.
    pub(super) cookies: Vec<String>,
    /// The argument of each place in the path.
    pub(super) path: Map<String, Value>,
}

/// Headers that OpenAPI says are described elsewhere.
const DESCRIBED_ELSEWHERE: [&str; 3] = ["accept", "content-type", "authorization"];

impl<'d, 'a> Places<'d, 'a> {
    pub(super) fn of(document: &'d Document<'a>) -> Self {
        Self {
            document,
            schemas: Schemas::of(document),
            names: Names::default(),
            properties: Map::new(),
            required: Vec::new(),
            query: Map::new(),
            headers: Map::new(),
            cookies: Vec::new(),
            path: Map::new(),
        }
    }

    /// Declares an argument, and returns its placeholder.
    pub(super) fn argument(&mut self, wanted: &str, schema: Value, required: bool) -> String {
        let wanted = match snake(wanted) {
            name if name.is_empty() => "value".to_owned(),
            name => name,
        };
        let name = self.names.take(&wanted);
        self.properties.insert(name.clone(), schema);
        if required {
            self.required.push(name.clone());
        }
        format!("{{{{{name}}}}}")
    }

    /// Takes a parameter of the document.
    pub(super) fn parameter(&mut self, parameter: &'a Value, notes: &mut Vec<String>) -> Result<(), String> {
        let parameter = self.document.resolve(parameter)?;
        let text = |key: &str| parameter.get(key).and_then(Value::as_str);
        let (Some(name), Some(location)) = (text("name"), text("in")) else {
            return Err("a parameter has no name or no location".to_owned());
        };
        let required = parameter.get("required") == Some(&Value::Bool(true));
        let content = parameter.get("content").and_then(Value::as_object).and_then(|media| media.values().next());
        let in_json = content.is_some();
        let written = parameter.get("schema").or_else(|| content?.get("schema"));
        let resolved = written.map(|schema| self.document.resolve(schema)).transpose()?;
        let explode = parameter.get("explode").and_then(Value::as_bool);
        let style =
            text("style").unwrap_or(if location == "query" || location == "cookie" { "form" } else { "simple" });
        let kind = resolved.map(kind_of).unwrap_or_default();
        match location {
            "path" => {
                let schema = self.scalar(name, parameter, written, kind, in_json, notes);
                let place = self.argument(name, schema, true);
                self.path.insert(name.to_owned(), place.into());
            }
            "query"
                if !in_json && kind == "object" && (style == "deepObject" || explode.unwrap_or(style == "form")) =>
            {
                let object = resolved.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
                let inner_required = |key: &str| {
                    let names = resolved.and_then(|schema| schema.get("required")).and_then(Value::as_array);
                    required && names.is_some_and(|names| names.iter().any(|name| name.as_str() == Some(key)))
                };
                for (key, schema) in object.into_iter().flatten() {
                    let kind = self.document.resolve(schema).map(kind_of).unwrap_or_default();
                    let schema = self.scalar(&format!("{name}.{key}"), &Value::Null, Some(schema), kind, false, notes);
                    let place = self.argument(&format!("{name}_{key}"), schema, inner_required(key));
                    let entry = if style == "deepObject" { format!("{name}[{key}]") } else { key.clone() };
                    self.query.insert(entry, place.into());
                }
                if object.is_none() {
                    notes.push(format!("the query parameter {name} takes any keys, and is left out"));
                }
            }
            "query" => {
                let repeated = kind == "array" && !in_json && style == "form" && explode.unwrap_or(true);
                let (schema, entry) = if repeated {
                    notes.push(format!("the query parameter {name} may be repeated; the tool gives it once"));
                    let items = resolved.and_then(|schema| schema.get("items"));
                    let kind = items.and_then(|items| self.document.resolve(items).ok()).map(kind_of);
                    (self.scalar(name, parameter, items, kind.unwrap_or_default(), false, &mut Vec::new()), name)
                } else {
                    (self.scalar(name, parameter, written, kind, in_json, notes), name)
                };
                let place = self.argument(name, schema, required);
                self.query.insert(entry.to_owned(), place.into());
            }
            "header" if DESCRIBED_ELSEWHERE.contains(&name.to_ascii_lowercase().as_str()) => {}
            "header" => {
                let schema = self.scalar(name, parameter, written, kind, in_json, notes);
                let place = self.argument(name, schema, required);
                self.headers.insert(name.to_owned(), place.into());
            }
            "cookie" if required => {
                let schema = self.scalar(name, parameter, written, kind, in_json, notes);
                let place = self.argument(name, schema, true);
                self.cookies.push(format!("{name}={place}"));
            }
            "cookie" => notes.push(format!("the optional cookie {name} is left out")),
            other => return Err(format!("the parameter {name} is in {other:?}, which is no location")),
        }
        Ok(())
    }

    /// The schema of a value that becomes text.
    fn scalar(
        &mut self,
        name: &str,
        parameter: &Value,
        written: Option<&Value>,
        kind: &str,
        in_json: bool,
        notes: &mut Vec<String>,
    ) -> Value {
        let mut schema = match written {
            Some(schema) if in_json || !matches!(kind, "array" | "object") => self.schemas.take(schema),
            Some(_) => {
                notes.push(format!("{name} is a list; the tool takes it as text with commas"));
                let mut text = Map::new();
                text.insert("type".to_owned(), "string".into());
                text.insert("description".to_owned(), "Several values are separated by commas".into());
                Value::Object(text)
            }
            None => serde_json::json!({ "type": "string" }),
        };
        let description = parameter.get("description").and_then(Value::as_str).map(str::trim);
        if let (Some(description), Value::Object(schema)) = (description.filter(|text| !text.is_empty()), &mut schema) {
            let more = schema.get("description").and_then(Value::as_str).filter(|_| matches!(kind, "array" | "object"));
            let whole = match more {
                Some(more) if !in_json => format!("{description}. {more}"),
                _ => description.to_owned(),
            };
            schema.insert("description".to_owned(), whole.into());
        }
        schema
    }
}

/// `array`, `object`, another type, or nothing when the schema does not say.
pub(super) fn kind_of(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or_default()
        }
        _ if schema.get("properties").is_some() => "object",
        _ if schema.get("items").is_some() => "array",
        _ => "",
    }
}
