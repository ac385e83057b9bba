//! The original schema at call time: the model's arguments against what the server itself published.

use std::collections::HashMap;
use std::sync::OnceLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, ValidationError, Validator};
use serde_json::{Map, Value};

use super::{Lowered, lower, read};
use crate::arguments::{ArgumentError, MAX_PROBLEMS, pattern_options, words_for};

/// An original schema, with its lowering and its compiled form made when they are first needed.
#[derive(Debug)]
pub(crate) struct Original {
    schema: Value,
    lowered: OnceLock<Lowered>,
    /// None when it does not compile; then the server alone judges.
    validator: OnceLock<Option<Validator>>,
}

impl Original {
    pub(crate) fn new(schema: Value) -> Self {
        Self { schema, lowered: OnceLock::new(), validator: OnceLock::new() }
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    pub(crate) fn lowered(&self) -> &Lowered {
        self.lowered.get_or_init(|| lower(&self.schema))
    }

    /// Checks restored arguments.
    pub(crate) fn check(&self, arguments: &Map<String, Value>) -> Result<(), ArgumentError> {
        let Some(validator) = self.validator.get_or_init(|| compile(&self.schema)) else { return Ok(()) };
        let arguments = Value::Object(arguments.clone());
        if validator.is_valid(&arguments) {
            return Ok(());
        }
        let mut named: Vec<(String, String)> = Vec::new();
        for error in validator.iter_errors(&arguments) {
            name(&error, &arguments, &mut named);
            if named.len() >= MAX_PROBLEMS {
                break;
            }
        }
        named.truncate(MAX_PROBLEMS);
        Err(ArgumentError::Invalid(named))
    }
}

/// How many schemas a check may look at for one value, references followed. A small text of references
/// can stand for any number, and a check can't be stopped on its way.
const MAX_CHECKED: usize = 20_000;

/// Whether an original compiles and is small enough to be checked, so that its calls are checked before
/// they are sent.
pub fn compiles(original: &Value) -> bool {
    compile(original).is_some()
}

/// How many schemas there are below one, with references followed; one that contains itself is counted
/// once, since its depth is that of the value.
fn size<'a>(root: &'a Value, schema: &'a Value, known: &mut HashMap<*const Value, Option<usize>>) -> usize {
    let key = std::ptr::from_ref(schema);
    if let Some(known) = known.get(&key) {
        return known.unwrap_or(1);
    }
    known.insert(key, None);
    let size = match schema {
        Value::Object(map) => {
            let reference = map.get("$ref").or_else(|| map.get("$dynamicRef")).and_then(Value::as_str);
            let target = reference.and_then(|reference| read::resolve(root, reference));
            let below = map.iter().filter(|(key, _)| !matches!(key.as_str(), "$defs" | "definitions"));
            let mut size = target.map_or(1, |(target, _)| size(root, target, known));
            for (_, value) in below {
                size = size.saturating_add(self::size(root, value, known));
            }
            size
        }
        Value::Array(items) => {
            items.iter().fold(1_usize, |sum, item| sum.saturating_add(self::size(root, item, known)))
        }
        _ => 0,
    };
    known.insert(key, Some(size));
    size
}

/// Compiles an original in its own draft. References that lead nowhere, or out of it, accept anything:
/// nothing is ever fetched.
fn compile(original: &Value) -> Option<Validator> {
    if size(original, original, &mut HashMap::new()) > MAX_CHECKED {
        return None;
    }
    let build = |schema: &Value, draft: Option<Draft>| {
        let options = jsonschema::options().with_pattern_options(pattern_options());
        draft.map_or_else(|| options.clone(), |draft| options.clone().with_draft(draft)).build(schema).ok()
    };
    if let Some(validator) = build(original, None) {
        return Some(validator);
    }
    let mut closed = original.clone();
    read::drop_unresolved(original, &mut closed);
    if let Some(map) = closed.as_object_mut() {
        map.shift_remove("$schema");
    }
    build(&closed, Some(Draft::Draft202012)).or_else(|| build(&closed, Some(Draft::Draft7)))
}

fn name(error: &ValidationError<'_>, arguments: &Value, named: &mut Vec<(String, String)>) {
    let pointer = error.instance_path().to_string();
    let value = arguments.pointer(&pointer).unwrap_or(&Value::Null);
    let path = dotted(&pointer, arguments);
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            named.push((below(property.as_str().unwrap_or_default()), "missing (required)".to_owned()));
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let words = "unexpected (the schema declares no such key)";
            named.extend(unexpected.iter().map(|key| (below(key), words.to_owned())));
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            // The form that is nearest is the one meant, most likely.
            let wrong_type = |errors: &[ValidationError<'_>]| {
                errors.iter().any(|error| {
                    error.instance_path().to_string() == pointer
                        && matches!(error.kind(), ValidationErrorKind::Type { .. })
                })
            };
            // A tag that fits tells the form better than how much is wrong with it.
            let wrong_tag = |errors: &[ValidationError<'_>]| {
                errors.iter().any(|error| matches!(error.kind(), ValidationErrorKind::Constant { .. }))
            };
            match context.iter().min_by_key(|errors| (wrong_type(errors), wrong_tag(errors), errors.len())) {
                Some(errors) if !wrong_type(errors) => {
                    errors.iter().take(MAX_PROBLEMS).for_each(|error| name(error, arguments, named));
                }
                _ => named.push((path, format!("{} fits none of the {} forms", shown(value), context.len()))),
            }
        }
        ValidationErrorKind::Enum { options } => {
            named.push((path, format!("{} is not one of {}", shown(value), shown(options))));
        }
        ValidationErrorKind::Constant { expected_value } => {
            named.push((path, format!("{} is not {}", shown(value), shown(expected_value))));
        }
        kind => named.push((path, words_for(kind, value))),
    }
}

/// `/a/0/b` as `a[0].b`.
fn dotted(pointer: &str, arguments: &Value) -> String {
    let mut path = String::new();
    let mut at = arguments;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let next = match at {
            Value::Array(items) => {
                path.push_str(&format!("[{step}]"));
                step.parse::<usize>().ok().and_then(|index| items.get(index))
            }
            _ => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&step);
                at.get(&step)
            }
        };
        at = next.unwrap_or(&Value::Null);
    }
    path
}

/// A value, or its beginning.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
