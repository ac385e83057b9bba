//! The safe subset of JSON Schema: what every provider takes and a person can read.

use serde_json::{Map, Value};

use crate::json::{child_pointer, kind_of};
use crate::name::is_name;
use crate::problem::{ProblemCode, Problems, nearest};

const TYPES: [&str; 6] = ["object", "array", "string", "number", "integer", "boolean"];

/// What a keyword of the subset takes.
#[derive(Clone, Copy)]
enum Takes {
    Anything,
    Text,
    Pattern,
    Number,
    PositiveNumber,
    Count,
    Flag,
    List,
    /// Judged by a rule of its own.
    Structure,
}

const KEYWORDS: [(&str, Takes); 23] = [
    ("type", Takes::Structure),
    ("properties", Takes::Structure),
    ("required", Takes::Structure),
    ("items", Takes::Structure),
    ("enum", Takes::Structure),
    ("additionalProperties", Takes::Flag),
    ("title", Takes::Text),
    ("description", Takes::Text),
    ("default", Takes::Anything),
    ("examples", Takes::List),
    ("const", Takes::Anything),
    ("minimum", Takes::Number),
    ("maximum", Takes::Number),
    ("exclusiveMinimum", Takes::Number),
    ("exclusiveMaximum", Takes::Number),
    ("multipleOf", Takes::PositiveNumber),
    ("minLength", Takes::Count),
    ("maxLength", Takes::Count),
    ("pattern", Takes::Pattern),
    ("format", Takes::Text),
    ("minItems", Takes::Count),
    ("maxItems", Takes::Count),
    ("uniqueItems", Takes::Flag),
];

/// How many patterns a schema may have: each is compiled when the tool is written and first called.
pub(crate) const MAX_PATTERNS: usize = 64;

fn count_patterns(schema: &Map<String, Value>) -> usize {
    let below = |value: &Value| match value {
        Value::Object(map) => count_patterns(map),
        Value::Array(items) => items.iter().filter_map(Value::as_object).map(count_patterns).sum(),
        _ => 0,
    };
    usize::from(schema.get("pattern").is_some_and(Value::is_string)) + schema.values().map(below).sum::<usize>()
}

/// Checks the schema of a tool's parameters at `pointer`.
pub(crate) fn check_parameters(schema: &Map<String, Value>, pointer: &str, problems: &mut Problems) {
    check_lowered_parameters(schema, pointer, problems);
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for name in properties.keys().filter(|name| !is_name(name)) {
            problems.add(
                child_pointer(&child_pointer(pointer, "properties"), name),
                ProblemCode::SchemaName,
                format!(
                    "the parameter {name:?} is a placeholder too, so its name begins with a lower-case letter and \
                     goes on with a-z, 0-9 and _ (at most 64)"
                ),
            );
        }
    }
}

/// The same for parameters that are never placeholders, whose names are free.
pub(crate) fn check_lowered_parameters(schema: &Map<String, Value>, pointer: &str, problems: &mut Problems) {
    match schema.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => problems.add(
            child_pointer(pointer, "type"),
            ProblemCode::SchemaType,
            "the parameters are an object at the top; put the value into a property",
        ),
    }
    let patterns = count_patterns(schema);
    if patterns > MAX_PATTERNS {
        let message =
            format!("the schema has {patterns} patterns, and at most {MAX_PATTERNS} are compiled for one tool");
        problems.add(pointer, ProblemCode::SchemaConstraint, message);
        return;
    }
    check_keywords(schema, pointer, problems);
    check_object(schema, pointer, problems);
    if schema.contains_key("items") {
        problems.add(
            child_pointer(pointer, "items"),
            ProblemCode::SchemaItems,
            "items belongs to an array; the top is an object",
        );
    }
}

fn check_schema(schema: &Value, pointer: &str, problems: &mut Problems) {
    let Value::Object(schema) = schema else {
        let message = format!("a schema is an object with a type, not {}", kind_of(schema));
        problems.add(pointer, ProblemCode::SchemaType, message);
        return;
    };
    check_keywords(schema, pointer, problems);
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => {
            check_array(schema, pointer, problems);
            check_object(schema, pointer, problems);
        }
        Some(kind) if TYPES.contains(&kind) => {
            check_object(schema, pointer, problems);
            if schema.contains_key("items") {
                let message = format!("items belongs to an array, not to {kind}");
                problems.add(child_pointer(pointer, "items"), ProblemCode::SchemaItems, message);
            }
        }
        Some(kind) => {
            let hint = nearest(kind, TYPES)
                .map_or_else(|| format!("one of {}", TYPES.join(", ")), |near| format!("did you mean {near:?}?"));
            let message = format!("there is no type {kind:?}; {hint}");
            problems.add(child_pointer(pointer, "type"), ProblemCode::SchemaType, message);
        }
        None => problems.add(
            if schema.contains_key("type") { child_pointer(pointer, "type") } else { pointer.to_owned() },
            ProblemCode::SchemaType,
            format!("every schema names one type: {}", TYPES.join(", ")),
        ),
    }
}

fn check_keywords(schema: &Map<String, Value>, pointer: &str, problems: &mut Problems) {
    for (keyword, value) in schema {
        let at = child_pointer(pointer, keyword);
        let Some((_, takes)) = KEYWORDS.iter().find(|(known, _)| known == keyword) else {
            let hint = if is_applicator(keyword) {
                "write the one shape that the tool takes".to_owned()
            } else {
                nearest(keyword, KEYWORDS.iter().map(|(known, _)| *known)).map_or_else(
                    || "leave it out, or say it in the description".to_owned(),
                    |near| format!("did you mean {near:?}?"),
                )
            };
            let message = format!("the keyword {keyword:?} is outside the safe subset of JSON Schema; {hint}");
            problems.add(at, ProblemCode::SchemaKeyword, message);
            continue;
        };
        let wanted = match takes {
            Takes::Anything | Takes::Structure => None,
            Takes::Text => (!value.is_string()).then_some("a string"),
            Takes::Pattern => match value.as_str() {
                None => Some("a string"),
                Some(pattern) => (!compiles(pattern)).then_some("a regular expression that compiles"),
            },
            Takes::Number => (!value.is_number()).then_some("a number"),
            Takes::PositiveNumber => value.as_f64().is_none_or(|n| n <= 0.0).then_some("a number above 0"),
            Takes::Count => {
                value.as_f64().is_none_or(|n| n < 0.0 || n.fract() != 0.0).then_some("a whole number, 0 or more")
            }
            Takes::Flag => (!value.is_boolean()).then_some("true or false"),
            Takes::List => (!value.is_array()).then_some("a list"),
        };
        if let Some(wanted) = wanted {
            problems.add(at, ProblemCode::SchemaConstraint, format!("{keyword} takes {wanted}"));
        }
    }
    if let Some(values) = schema.get("enum")
        && values.as_array().is_none_or(Vec::is_empty)
    {
        let message = "enum is a list with at least one value";
        problems.add(child_pointer(pointer, "enum"), ProblemCode::SchemaEnum, message);
    }
}

/// The keywords that combine or refer to schemas: there is no near name to propose for them.
fn is_applicator(keyword: &str) -> bool {
    matches!(
        keyword,
        "oneOf"
            | "anyOf"
            | "allOf"
            | "not"
            | "$ref"
            | "if"
            | "then"
            | "else"
            | "patternProperties"
            | "dependencies"
            | "dependentSchemas"
            | "dependentRequired"
            | "propertyNames"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "$defs"
            | "definitions"
            | "prefixItems"
            | "contains"
    )
}

pub(crate) fn compiles(pattern: &str) -> bool {
    let schema = serde_json::json!({ "pattern": pattern });
    crate::arguments::schema_options().build(&schema).is_ok()
}

fn check_array(schema: &Map<String, Value>, pointer: &str, problems: &mut Problems) {
    let at = child_pointer(pointer, "items");
    match schema.get("items") {
        Some(items @ Value::Object(_)) => check_schema(items, &at, problems),
        Some(Value::Array(_)) => {
            let message = "items is one schema for every element; a tuple of schemas is outside the safe subset";
            problems.add(at, ProblemCode::SchemaItems, message);
        }
        Some(_) | None => problems.add(
            at,
            ProblemCode::SchemaItems,
            "an array says what its elements are: \"items\": {\"type\": \"string\"}",
        ),
    }
}

fn check_object(schema: &Map<String, Value>, pointer: &str, problems: &mut Problems) {
    let at = child_pointer(pointer, "properties");
    let none = Map::new();
    let properties = match schema.get("properties") {
        None => &none,
        Some(Value::Object(properties)) => properties,
        Some(other) => {
            let message = format!("properties is an object of schemas, not {}", kind_of(other));
            problems.add(at, ProblemCode::SchemaProperties, message);
            return;
        }
    };
    for (name, property) in properties {
        check_schema(property, &child_pointer(&at, name), problems);
    }
    check_required(schema, properties, pointer, problems);
}

fn check_required(
    schema: &Map<String, Value>,
    properties: &Map<String, Value>,
    pointer: &str,
    problems: &mut Problems,
) {
    let at = child_pointer(pointer, "required");
    let names = match schema.get("required") {
        None => return,
        Some(Value::Array(names)) => names,
        Some(other) => {
            let message = format!("required is a list of property names, not {}", kind_of(other));
            problems.add(at, ProblemCode::SchemaRequired, message);
            return;
        }
    };
    for (i, name) in names.iter().enumerate() {
        let problem = match name.as_str() {
            None => Some("required holds property names".to_owned()),
            Some(name) if names[..i].iter().any(|earlier| earlier == name) => Some(format!("{name:?} stands twice")),
            Some(name) if !properties.contains_key(name) => {
                let hint = nearest(name, properties.keys().map(String::as_str))
                    .map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
                Some(format!("required names {name:?}, which is not in properties{hint}"))
            }
            Some(_) => None,
        };
        if let Some(message) = problem {
            problems.add(child_pointer(&at, &i.to_string()), ProblemCode::SchemaRequired, message);
        }
    }
}
