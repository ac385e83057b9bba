//! Schemas of a document, as JSON Schema that stands for itself.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::document::Document;

/// Schemas that are carried along, at the most; references beyond them are any value.
const MAX_DEFINITIONS: usize = 2_000;

/// Keywords that hold a schema.
const ONE: [&str; 9] = [
    "items",
    "additionalProperties",
    "not",
    "contains",
    "propertyNames",
    "if",
    "then",
    "else",
    "unevaluatedProperties",
];
/// Keywords that hold a list of schemas.
const MANY: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords that hold schemas by names.
const NAMED: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
/// What says nothing about values.
const SILENT: [&str; 6] = ["xml", "discriminator", "externalDocs", "example", "readOnly", "writeOnly"];

/// Takes schemas out of a document, together with those that they refer to.
pub(super) struct Schemas<'d, 'a> {
    document: &'d Document<'a>,
    /// By reference: the name here, and the schema once it was read.
    taken: BTreeMap<String, (String, Option<Value>)>,
    waiting: Vec<String>,
}

impl<'d, 'a> Schemas<'d, 'a> {
    pub(super) fn of(document: &'d Document<'a>) -> Self {
        Self { document, taken: BTreeMap::new(), waiting: Vec::new() }
    }

    /// A schema whose references lead to [`Schemas::definitions`].
    pub(super) fn take(&mut self, schema: &Value) -> Value {
        match schema {
            Value::Object(map) => self.object(map),
            other => other.clone(),
        }
    }

    /// Everything that was referred to, by name.
    pub(super) fn definitions(&mut self) -> Map<String, Value> {
        while let Some(reference) = self.waiting.pop() {
            let read = match self.document.target(&reference) {
                Ok(target) => self.take(target),
                // Any value: lowering says where.
                Err(_) => json!({}),
            };
            if let Some((_, schema)) = self.taken.get_mut(&reference) {
                *schema = Some(read);
            }
        }
        self.taken.values().filter_map(|(name, schema)| Some((name.clone(), schema.clone()?))).collect()
    }

    fn object(&mut self, map: &Map<String, Value>) -> Value {
        let mut out = Map::new();
        for (key, value) in map {
            let written = match (key.as_str(), value) {
                ("$ref", Value::String(reference)) => self.reference(reference),
                (silent, _) if SILENT.contains(&silent) || silent.starts_with("x-") => continue,
                ("nullable", _) if self.document.is_3_0 => continue,
                (one, schema) if ONE.contains(&one) => self.take(schema),
                (many, Value::Array(schemas)) if MANY.contains(&many) => {
                    Value::Array(schemas.iter().map(|schema| self.take(schema)).collect())
                }
                (named, Value::Object(schemas)) if NAMED.contains(&named) => {
                    let wanted = schemas.iter().filter(|(_, schema)| !is_read_only(schema));
                    Value::Object(wanted.map(|(name, schema)| (name.clone(), self.take(schema))).collect())
                }
                (_, value) => value.clone(),
            };
            out.insert(key.clone(), written);
        }
        // What only answers hold can't be asked for.
        let gone: Vec<&String> = map
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter(|(_, schema)| is_read_only(schema))
            .map(|(name, _)| name)
            .collect();
        if let Some(Value::Array(required)) = out.get_mut("required") {
            required.retain(|name| !gone.iter().any(|gone| name.as_str() == Some(gone)));
        }
        if self.document.is_3_0 {
            as_json_schema(&mut out, map.get("nullable") == Some(&Value::Bool(true)));
        }
        Value::Object(out)
    }

    fn reference(&mut self, reference: &str) -> Value {
        if !self.taken.contains_key(reference) {
            if self.taken.len() >= MAX_DEFINITIONS {
                return "#/$defs/_any".into();
            }
            let name = format!("d{}", self.taken.len());
            self.taken.insert(reference.to_owned(), (name, None));
            self.waiting.push(reference.to_owned());
        }
        let name = self.taken.get(reference).map(|(name, _)| name.as_str()).unwrap_or_default();
        format!("#/$defs/{name}").into()
    }
}

fn is_read_only(schema: &Value) -> bool {
    schema.get("readOnly") == Some(&Value::Bool(true))
}

/// What OpenAPI 3.0 says otherwise than JSON Schema.
fn as_json_schema(schema: &mut Map<String, Value>, nullable: bool) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        match schema.get(exclusive) {
            Some(Value::Bool(true)) => {
                if let Some(value) = schema.remove(bound) {
                    schema.insert(exclusive.to_owned(), value);
                } else {
                    schema.remove(exclusive);
                }
            }
            Some(Value::Bool(false)) => {
                schema.remove(exclusive);
            }
            _ => {}
        }
    }
    if nullable {
        if let Some(Value::String(kind)) = schema.get("type") {
            let kinds = json!([kind, "null"]);
            schema.insert("type".to_owned(), kinds);
        }
        if let Some(Value::Array(values)) = schema.get_mut("enum")
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
    }
}
