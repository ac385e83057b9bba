//! Bodies of requests.

use serde_json::{Map, Value};

use super::parameters::{Places, kind_of};

/// Properties that become arguments of their own, at the most; a larger body is one argument.
const MAX_FIELDS: usize = 100;

impl<'a> Places<'_, 'a> {
    /// Takes a request body. Returns the body of the tool's request, if it has one.
    pub(super) fn body(&mut self, body: &'a Value, notes: &mut Vec<String>) -> Result<Option<Value>, String> {
        let body = self.document.resolve(body)?;
        let required = body.get("required") == Some(&Value::Bool(true));
        let Some(content) = body.get("content").and_then(Value::as_object).filter(|content| !content.is_empty()) else {
            return Ok(None);
        };
        let Some((media, written)) = best(content) else {
            let media: Vec<&str> = content.keys().map(String::as_str).collect();
            let message = format!("its body is {}, which a tool can't send", media.join(" or "));
            if required {
                return Err(message);
            }
            notes.push(format!("{message}; it is sent without one"));
            return Ok(None);
        };
        let essence = essence(media);
        if content.len() > 1 {
            notes.push(format!("of {} kinds of body, the tool sends {essence}", content.len()));
        }
        if essence != "application/json" {
            self.headers.insert("Content-Type".to_owned(), essence.clone().into());
        }
        let schema = written.get("schema");
        let resolved = schema.map(|schema| self.document.resolve(schema)).transpose()?;
        if is_text(&essence) {
            let schema = serde_json::json!({ "type": "string", "description": format!("The body, {essence}") });
            return Ok(Some(self.argument("body", schema, required).into()));
        }
        if let Some(fields) = resolved.and_then(fields_of) {
            let names = resolved.and_then(|schema| schema.get("required")).and_then(Value::as_array);
            let mut out = Map::new();
            for (name, field) in fields.iter().filter(|(_, field)| field.get("readOnly") != Some(&Value::Bool(true))) {
                let is_required = names.is_some_and(|names| names.iter().any(|other| other.as_str() == Some(name)));
                let field = self.schemas.take(field);
                let place = self.argument(name, field, required && is_required);
                out.insert(name.clone(), place.into());
            }
            return Ok(Some(Value::Object(out)));
        }
        if essence == "application/x-www-form-urlencoded" {
            // A form without fields is none.
            let names = resolved.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
            if !required && names.is_none_or(Map::is_empty) {
                self.headers.shift_remove("Content-Type");
                return Ok(None);
            }
            return Err("its body is a form whose fields the document does not name".to_owned());
        }
        let schema = schema.map_or_else(|| serde_json::json!({ "type": "object" }), |schema| self.schemas.take(schema));
        Ok(Some(self.argument("body", schema, required).into()))
    }
}

/// The fields of an object that has those and no others that anybody named.
fn fields_of(schema: &Value) -> Option<&Map<String, Value>> {
    let fields = schema.get("properties")?.as_object()?;
    let composed = ["allOf", "anyOf", "oneOf", "not"].iter().any(|key| schema.get(*key).is_some());
    let open = matches!(schema.get("additionalProperties"), Some(Value::Object(_) | Value::Bool(true)));
    let fits = kind_of(schema) == "object" && !composed && !open && fields.len() <= MAX_FIELDS;
    // A placeholder is no key.
    (fits && !fields.is_empty() && !fields.keys().any(|key| key.contains("{{"))).then_some(fields)
}

/// The kind of body that a tool sends best.
fn best(content: &Map<String, Value>) -> Option<(&str, &Value)> {
    let rank = |media: &str| match essence(media).as_str() {
        "application/json" => Some(0),
        json if json.ends_with("+json") => Some(1),
        // Anything: JSON is as good as any.
        "*/*" | "application/*" => Some(2),
        "application/x-www-form-urlencoded" => Some(3),
        text if is_text(text) => Some(4),
        _ => None,
    };
    let ranked = content.iter().filter_map(|(media, value)| Some((rank(media)?, media.as_str(), value)));
    ranked.min_by_key(|(rank, _, _)| *rank).map(|(_, media, value)| (media, value))
}

fn is_text(essence: &str) -> bool {
    (essence.starts_with("text/") && !essence.contains('*')) || essence.ends_with("/xml") || essence.ends_with("+xml")
}

/// The kind without its parameters.
fn essence(media: &str) -> String {
    match media.split(';').next().unwrap_or(media).trim().to_ascii_lowercase().as_str() {
        "*/*" | "application/*" => "application/json".to_owned(),
        other => other.to_owned(),
    }
}
