//! Arguments that go as headers too: `x-mcp-header` in a tool's schema (MCP 2026-07-28).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

const KEYWORD: &str = "x-mcp-header";

/// What is wrong with the header annotations of a schema; such a tool may not be used.
pub fn check_annotations(schema: &Value) -> Result<(), String> {
    let mut seen: Vec<String> = Vec::new();
    walk(schema, &mut |annotation: &Value, property: &Map<String, Value>| {
        let name = annotation.as_str().unwrap_or_default();
        if name.is_empty() || HeaderName::from_bytes(name.as_bytes()).is_err() {
            return Err(format!("{KEYWORD} {annotation} is no header name"));
        }
        let kind = property.get("type").and_then(Value::as_str).unwrap_or_default();
        if !matches!(kind, "string" | "integer" | "boolean") {
            return Err(format!("{KEYWORD} {name:?} stands at a property that is no string, integer or boolean"));
        }
        let lower = name.to_ascii_lowercase();
        if seen.contains(&lower) {
            return Err(format!("{KEYWORD} {name:?} stands twice"));
        }
        seen.push(lower);
        Ok(())
    })
}

fn walk<V>(schema: &Value, visit: &mut V) -> Result<(), String>
where
    V: FnMut(&Value, &Map<String, Value>) -> Result<(), String>,
{
    match schema {
        Value::Object(map) => {
            // A property of that name has a schema, and is no annotation.
            if let Some(annotation) = map.get(KEYWORD).filter(|value| !value.is_object()) {
                visit(annotation, map)?;
            }
            map.values().try_for_each(|value| walk(value, visit))
        }
        Value::Array(items) => items.iter().try_for_each(|item| walk(item, visit)),
        _ => Ok(()),
    }
}

/// The headers of a call: `Mcp-Param-*` for each annotated top-level argument that is there.
pub fn headers_of(schema: &Value, arguments: &Map<String, Value>) -> Vec<(HeaderName, HeaderValue)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let header = |(key, property): (&String, &Value)| {
        let name = property.get(KEYWORD)?.as_str()?;
        let text = match arguments.get(key)? {
            Value::String(text) => text.clone(),
            Value::Bool(flag) => flag.to_string(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        let name = HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(&encode(&text)).ok()?))
    };
    properties.into_iter().flatten().filter_map(header).collect()
}

/// A text as a header value: as it is when it can be, else in the base64 form of MCP.
pub fn encode(text: &str) -> String {
    let plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) && text.trim() == text;
    let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
    if plain && !looks_encoded { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) }
}

/// The text of a header value, or none when its base64 is not valid.
pub fn decode(value: &str) -> Option<String> {
    let value = value.trim_matches([' ', '\t']);
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_come_back_from_their_headers() {
        for text in
            ["", "plain", " padded ", "Hello, 世界", "line1\r\nline2", "\tx", "=?base64?SGVsbG8=?=", "=?base64?x"]
        {
            assert_eq!(decode(&encode(text)).as_deref(), Some(text), "{text:?}");
        }
        assert_eq!(encode("us west 1"), "us west 1");
        assert_eq!(decode("=?base64?SGVs!!!bG8=?="), None);
        assert_eq!(decode("=?base64?SGVsbG8?="), None);
    }

    #[test]
    fn annotations_are_checked() {
        let tool = |property: Value| json!({ "type": "object", "properties": { "a": property } });
        let good = json!({ "type": "string", "x-mcp-header": "Region" });
        assert_eq!(check_annotations(&tool(good.clone())), Ok(()));
        for bad in [
            json!({ "type": "string", "x-mcp-header": "" }),
            json!({ "type": "number", "x-mcp-header": "N" }),
            json!({ "type": "object", "x-mcp-header": "O" }),
            json!({ "type": "string", "x-mcp-header": "a b" }),
            json!({ "type": "string", "x-mcp-header": "é" }),
        ] {
            assert!(check_annotations(&tool(bad.clone())).is_err(), "{bad}");
        }
        let twice = json!({ "properties": { "a": good, "b": { "type": "string", "x-mcp-header": "REGION" } } });
        assert!(check_annotations(&twice).is_err());
    }
}
