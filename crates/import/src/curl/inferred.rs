//! A schema that a value fits, as a first draft for a person to mend.

use serde_json::{Map, Value, json};

use crate::names::looks_drawn;

/// The schema, with the value as its example where that says something.
pub(super) fn schema_of(value: &Value) -> Value {
    match value {
        Value::Null => json!({ "type": "string" }),
        Value::Bool(_) => json!({ "type": "boolean", "examples": [value] }),
        Value::Number(number) => {
            let kind = if number.is_i64() || number.is_u64() { "integer" } else { "number" };
            json!({ "type": kind, "examples": [value] })
        }
        Value::String(text) if text.trim().is_empty() || looks_drawn(text) => json!({ "type": "string" }),
        Value::String(_) => json!({ "type": "string", "examples": [value] }),
        Value::Array(items) => {
            let items = items.first().map_or_else(|| json!({ "type": "string" }), schema_of);
            json!({ "type": "array", "items": items })
        }
        Value::Object(map) => {
            let properties: Map<String, Value> =
                map.iter().map(|(key, value)| (key.clone(), schema_of(value))).collect();
            json!({ "type": "object", "properties": properties })
        }
    }
}
