//! Gemini's own dialect of schemas, the `Schema` of its API: a part of OpenAPI 3.0.

use serde_json::{Map, Value};

/// Keywords that are the same there.
const SAME: [&str; 10] = [
    "title",
    "description",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "required",
];
/// The formats that it takes.
const FORMATS: [&str; 4] = ["enum", "date-time", "int32", "int64"];

/// The schema in that dialect. It accepts no less than the original.
pub(super) fn schema(schema: &Map<String, Value>) -> Map<String, Value> {
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("object");
    let mut out = Map::new();
    out.insert("type".into(), kind.to_ascii_uppercase().into());
    for (key, value) in schema.iter().filter(|(key, _)| SAME.contains(&key.as_str())) {
        out.insert(key.clone(), value.clone());
    }
    if let Some(format) = schema.get("format").filter(|format| FORMATS.iter().any(|known| *format == known)) {
        out.insert("format".into(), format.clone());
    }
    let values = match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => vec![value.clone()],
        (None, Some(Value::Array(values))) => values.clone(),
        _ => Vec::new(),
    };
    if !values.is_empty() && values.iter().all(Value::is_string) && kind == "string" {
        out.insert("enum".into(), values.into());
    } else if !values.is_empty() {
        // Only strings are listed there; the checker still refuses what is not among these.
        let own = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let separator = if own.is_empty() { "" } else { "\n" };
        let listed: Vec<String> = values.iter().map(Value::to_string).collect();
        out.insert("description".into(), format!("{own}{separator}One of {}.", listed.join(", ")).into());
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|map| !map.is_empty()) {
        let none = Map::new();
        let below = |(name, property): (&String, &Value)| {
            (name.clone(), Value::Object(self::schema(property.as_object().unwrap_or(&none))))
        };
        out.insert("properties".into(), Value::Object(properties.iter().map(below).collect()));
    }
    if let Some(items) = schema.get("items").and_then(Value::as_object) {
        out.insert("items".into(), Value::Object(self::schema(items)));
    }
    out
}
