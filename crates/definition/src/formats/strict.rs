//! The schemas of OpenAI's strict mode: every property is required, no other is allowed.

use serde_json::{Map, Value, json};

/// How deep objects and lists may be nested.
const MAX_DEPTH: usize = 10;
/// How many properties there may be in all.
const MAX_PROPERTIES: usize = 5_000;
/// Keywords of the safe subset that strict mode does not take.
const UNKNOWN: [&str; 6] = ["default", "examples", "minLength", "maxLength", "uniqueItems", "title"];

/// The schema in the strict form. A property that need not be there may be null, which counts as absent.
pub(super) fn schema(schema: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut properties = 0;
    let strict = object_or_other(schema, "the parameters", 1, &mut properties)?;
    if properties > MAX_PROPERTIES {
        return Err(format!("strict mode takes at most {MAX_PROPERTIES} properties, and there are {properties}"));
    }
    Ok(strict)
}

fn object_or_other(
    schema: &Map<String, Value>,
    place: &str,
    depth: usize,
    count: &mut usize,
) -> Result<Map<String, Value>, String> {
    if depth > MAX_DEPTH {
        return Err(format!("strict mode takes at most {MAX_DEPTH} levels, and {place} is deeper"));
    }
    let mut out = schema.clone();
    out.retain(|key, _| !UNKNOWN.contains(&key.as_str()));
    if let Some(Value::Object(items)) = schema.get("items") {
        let items = object_or_other(items, &format!("{place}[]"), depth + 1, count)?;
        out.insert("items".into(), Value::Object(items));
    }
    let is_object = schema.get("type").is_none_or(|kind| kind == "object");
    if !is_object {
        return Ok(out);
    }
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let is_free = properties.is_empty() && schema.get("additionalProperties") != Some(&Value::Bool(false));
    if is_free && depth > 1 {
        return Err(format!("{place} is an object with any properties, which strict mode can't say"));
    }
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    let mut strict = Map::new();
    for (name, property) in properties {
        *count += 1;
        let property = property.as_object().unwrap_or(&none);
        let mut property = object_or_other(property, name, depth + 1, count)?;
        if !is_required(name) {
            let kind = property.get("type").cloned().unwrap_or_else(|| "object".into());
            property.insert("type".into(), json!([kind, "null"]));
            if let Some(Value::Array(values)) = property.get_mut("enum") {
                values.push(Value::Null);
            }
            // A constant that may be null is a choice of two.
            if let Some(value) = property.shift_remove("const") {
                property.insert("enum".into(), Value::Array(vec![value, Value::Null]));
            }
        }
        strict.insert(name.clone(), Value::Object(property));
    }
    out.insert("type".into(), "object".into());
    out.insert("required".into(), properties.keys().cloned().collect());
    out.insert("properties".into(), Value::Object(strict));
    out.insert("additionalProperties".into(), false.into());
    Ok(out)
}
