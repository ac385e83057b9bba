//! JSON in one form, so that equal values have equal texts.

use serde_json::{Map, Value};

/// A value as JSON text without spaces, the keys of objects in the order of their bytes. A number keeps its text,
/// so `1` and `1.0` are not the same.
///
/// ```
/// let value = serde_json::json!({ "b": [1, null], "a": "x" });
/// assert_eq!(toolcrib_definition::canonical(&value), r#"{"a":"x","b":[1,null]}"#);
/// ```
pub fn canonical(value: &Value) -> String {
    sorted(value).to_string()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        scalar => scalar.clone(),
    }
}
