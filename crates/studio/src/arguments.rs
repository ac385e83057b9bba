//! Arguments as the fields of a form that is made of a schema, and back.

use maud::{Markup, html};
use serde_json::{Map, Value};
use toolcrib_definition::json;

use crate::form::Form;
use crate::shown::{list, shown, text};

/// What stands before the name of an argument in the name of its field.
const FIELD: &str = "arg:";

/// A field for each property of a schema: `typed` gives what was typed before.
pub(crate) fn fields(schema: &Value, typed: impl Fn(&str) -> String) -> Markup {
    let required = |name: &str| list(schema, "required").iter().any(|required| required == name);
    html! {
        @for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            @let id = format!("{FIELD}{name}");
            @let value = typed(&id);
            div.field {
                label for=(id) { (shown(name)) @if required(name) { " (required)" } }
                @match kind_of(property) {
                    Kind::Choice(choices) => select id=(id) name=(id) {
                        option value="" { "(left out)" }
                        @for choice in choices {
                            @let word = as_typed(choice);
                            option value=(word) selected[word == value] { (shown(&word)) }
                        }
                    },
                    Kind::Json => textarea.short id=(id) name=(id) rows="3" spellcheck="false" placeholder=(placeholder(property)) { "\n" (value) },
                    Kind::Line => input id=(id) name=(id) value=(value) autocomplete="off" spellcheck="false" placeholder=(placeholder(property));,
                }
                @if !text(property, "description").is_empty() { p.hint { (shown(text(property, "description"))) } }
            }
        }
    }
}

enum Kind<'a> {
    /// One of these.
    Choice(&'a [Value]),
    /// Anything that is written as JSON.
    Json,
    /// A line of text, or a number.
    Line,
}

fn kind_of(property: &Value) -> Kind<'_> {
    static BOOLEANS: [Value; 2] = [Value::Bool(true), Value::Bool(false)];
    let choices = list(property, "enum");
    if !choices.is_empty() {
        return Kind::Choice(choices);
    }
    match text(property, "type") {
        "boolean" => Kind::Choice(&BOOLEANS),
        "string" | "number" | "integer" => Kind::Line,
        _ => Kind::Json,
    }
}

fn placeholder(property: &Value) -> String {
    list(property, "examples").first().map(as_typed).unwrap_or_else(|| text(property, "type").to_owned())
}

fn as_typed(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The arguments of the fields: an empty field is left out, and what is typed is read as its property's type.
///
/// # Errors
/// Which field can't be read.
pub(crate) fn read(schema: &Value, form: &Form) -> Result<Map<String, Value>, String> {
    let mut arguments = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let typed = form.text(&format!("{FIELD}{name}"));
        if typed.is_empty() {
            continue;
        }
        let value = match kind_of(property) {
            Kind::Choice(choices) => {
                choices.iter().find(|choice| as_typed(choice) == typed).cloned().unwrap_or_else(|| typed.into())
            }
            Kind::Line if text(property, "type") == "string" => typed.replace("\r\n", "\n").into(),
            // What is no number goes as it was typed: the tool's own check says what is wrong with it.
            Kind::Line => json::parse(typed.trim().as_bytes()).unwrap_or_else(|_| typed.into()),
            Kind::Json => json::parse(typed.as_bytes()).map_err(|error| format!("{name} is not JSON: {error}"))?,
        };
        arguments.insert(name.clone(), value);
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_read_as_their_types() {
        let schema = json!({"properties": {
            "text": {"type": "string"}, "count": {"type": "integer"}, "price": {"type": "number"}, "yes": {"type": "boolean"},
            "size": {"enum": ["s", 5]}, "tags": {"type": "array"}, "any": {}, "left": {"type": "string"},
        }, "required": ["text"]});
        let typed = [
            ("text", "5"),
            ("count", "7"),
            ("price", "1.50"),
            ("yes", "true"),
            ("size", "5"),
            ("tags", "[1]"),
            ("any", "{}"),
        ];
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(typed.map(|(name, value)| (format!("arg:{name}"), value)));
        let form = Form::read(body.finish().as_bytes());
        let arguments = Value::Object(read(&schema, &form).unwrap());
        assert_eq!(
            arguments.to_string(),
            r#"{"text":"5","count":7,"price":1.50,"yes":true,"size":5,"tags":[1],"any":{}}"#
        );
        let wrong = Form::read(b"arg%3Atags=%5B");
        assert!(read(&schema, &wrong).unwrap_err().contains("tags is not JSON"));
        let markup = fields(&schema, |_| "<i>".to_owned()).into_string();
        assert!(markup.contains("text (required)") && !markup.contains("<i>"), "{markup}");
    }
}
