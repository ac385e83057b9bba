//! Arguments against the schema, at call time.
//!
//! `jsonschema` judges; this module does three things around it. It lets a scalar come in its
//! lossless string form, by showing the validator a view in which `"2"` is 2 where an integer is
//! declared (the call keeps what was sent). It treats a null property as an absent one. And it says
//! what is wrong in the order of the schema, in words that a model can act on.

use std::collections::HashMap;
use std::fmt;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, FancyRegex, PatternOptions, ValidationError, ValidationOptions, Validator};
use serde_json::{Map, Number, Value};

use crate::json::{child_pointer, kind_of, scalar_text};
use crate::parameters::properties;

/// How many problems of one call are named.
pub const MAX_PROBLEMS: usize = 5;
/// How many steps a pattern may take on one value before the value counts as not matching.
const PATTERN_STEPS: usize = 100_000;

/// How large a compiled pattern may be, in bytes.
const PATTERN_BYTES: usize = 256 << 10;

/// Why a call is not allowed by the schema; its text is what the model reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentError {
    /// Required top-level arguments that are absent, null or blank, in the order of `required`.
    Missing(Vec<String>),
    /// At most [`MAX_PROBLEMS`] problems, in the order of the schema: dotted path and words.
    Invalid(Vec<(String, String)>),
}

impl ArgumentError {
    /// The dotted path of the first problem.
    pub fn path(&self) -> &str {
        match self {
            ArgumentError::Missing(names) => names.first().map_or("", String::as_str),
            ArgumentError::Invalid(problems) => problems.first().map_or("", |(path, _)| path),
        }
    }
}

impl std::error::Error for ArgumentError {}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentError::Missing(names) => {
                write!(f, "missing required parameter(s): {}", names.join(", "))
            }
            ArgumentError::Invalid(problems) => {
                write!(f, "invalid arguments: ")?;
                for (i, (path, words)) in problems.iter().enumerate() {
                    let separator = if i > 0 { "; " } else { "" };
                    let colon = if path.is_empty() { "" } else { ": " };
                    write!(f, "{separator}{path}{colon}{words}")?;
                }
                Ok(())
            }
        }
    }
}

/// The options every schema of ours is compiled with: draft 2020-12, nothing fetched, bounded
/// patterns. `format` is an annotation, as that draft says.
pub(crate) fn schema_options() -> ValidationOptions<'static> {
    jsonschema::options().with_draft(Draft::Draft202012).with_pattern_options(pattern_options())
}

/// The bounds of patterns.
pub(crate) fn pattern_options() -> PatternOptions<FancyRegex> {
    PatternOptions::<FancyRegex>::fancy_regex().backtrack_limit(PATTERN_STEPS).size_limit(PATTERN_BYTES)
}

/// A schema compiled for checking.
#[derive(Debug)]
pub(crate) struct ArgumentChecker {
    schema: Value,
    /// `None` when the schema does not compile, which a checked definition rules out; then every
    /// call is refused rather than let through unchecked.
    validator: Option<Validator>,
}

impl ArgumentChecker {
    pub(crate) fn new(schema: &Map<String, Value>) -> Self {
        let schema = Value::Object(schema.clone());
        let validator = schema_options().build(&schema).ok();
        Self { schema, validator }
    }

    pub(crate) fn check(&self, arguments: &Map<String, Value>) -> Result<(), ArgumentError> {
        let required = self.schema.get("required").and_then(Value::as_array);
        let missing: Vec<String> = required
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter(|name| arguments.get(*name).is_none_or(is_missing))
            .map(str::to_owned)
            .collect();
        if !missing.is_empty() {
            return Err(ArgumentError::Missing(missing));
        }
        let Some(validator) = &self.validator else {
            let words = "the schema of this tool does not compile".to_owned();
            return Err(ArgumentError::Invalid(vec![(String::new(), words)]));
        };
        let original = Value::Object(arguments.clone());
        if validator.is_valid(&original) {
            return Ok(());
        }
        let view = typed_view(&self.schema, &original);
        let mut report = Report { original: &original, errors: HashMap::new(), named: Vec::new() };
        for error in validator.iter_errors(&view) {
            report.errors.entry(error.instance_path().to_string()).or_default().push(error);
        }
        report.walk(&self.schema, "", String::new(), false);
        report.rest();
        if report.named.is_empty() { Ok(()) } else { Err(ArgumentError::Invalid(report.named)) }
    }
}

/// A top-level required argument that is null or blank text is missing.
fn is_missing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    }
}

/// The arguments with each scalar in the type its schema declares, where its text allows that
/// without loss.
pub(crate) fn typed_view(schema: &Value, value: &Value) -> Value {
    let declared = schema.get("type").and_then(Value::as_str);
    match (declared, value) {
        (Some("array"), Value::Array(items)) => match schema.get("items") {
            Some(item) => Value::Array(items.iter().map(|value| typed_view(item, value)).collect()),
            None => value.clone(),
        },
        (Some("object") | None, Value::Object(map)) => {
            let known = schema.get("properties").and_then(Value::as_object);
            let typed = map.iter().map(|(key, value)| {
                let property = known.and_then(|known| known.get(key));
                let value = property.map_or_else(|| value.clone(), |property| typed_view(property, value));
                (key.clone(), value)
            });
            Value::Object(typed.collect())
        }
        (Some("integer" | "number"), Value::String(text)) => {
            let fraction = declared == Some("number");
            decimal(text, fraction).map_or_else(|| value.clone(), Value::Number)
        }
        (Some("boolean"), Value::String(text)) => match text.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => value.clone(),
        },
        (Some("string"), Value::Number(_) | Value::Bool(_)) => {
            scalar_text(value).map_or_else(|| value.clone(), |text| Value::String(text.into_owned()))
        }
        _ => value.clone(),
    }
}

/// Digits with an optional sign and, when `fraction` allows it, a fraction: no exponent, no plus.
fn decimal(text: &str, fraction: bool) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, rest) = match digits.split_once('.') {
        Some((whole, rest)) if fraction => (whole, Some(rest)),
        Some(_) => return None,
        None => (digits, None),
    };
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || rest.is_some_and(|rest| !all_digits(rest)) {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    let sign = if text.starts_with('-') { "-" } else { "" };
    let rest = rest.map_or_else(String::new, |rest| format!(".{rest}"));
    format!("{sign}{whole}{rest}").parse().ok()
}

/// The problems of one call, gathered by place and named in the order of the schema.
struct Report<'a> {
    original: &'a Value,
    errors: HashMap<String, Vec<ValidationError<'a>>>,
    named: Vec<(String, String)>,
}

impl Report<'_> {
    fn walk(&mut self, schema: &Value, pointer: &str, path: String, in_object: bool) {
        if self.named.len() >= MAX_PROBLEMS {
            return;
        }
        let Some(value) = self.original.pointer(pointer) else { return };
        let mut errors = self.errors.remove(pointer).unwrap_or_default();
        if in_object && value.is_null() {
            return; // A null property is an absent one.
        }
        if let Some(at) = errors.iter().position(|error| matches!(error.kind(), ValidationErrorKind::Type { .. })) {
            errors = vec![errors.swap_remove(at)];
        }
        errors.sort_by_key(|error| u8::from(!matches!(error.kind(), ValidationErrorKind::Required { .. })));
        for error in &errors {
            self.name(error.kind(), value, &path);
        }
        match value {
            Value::Object(_) => {
                let Some(known) = schema.as_object().and_then(properties) else { return };
                for (key, property) in known {
                    let dotted = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    self.walk(property, &child_pointer(pointer, key), dotted, true);
                }
            }
            Value::Array(items) => {
                let Some(item) = schema.get("items") else { return };
                for i in 0..items.len() {
                    self.walk(item, &format!("{pointer}/{i}"), format!("{path}[{i}]"), false);
                }
            }
            _ => {}
        }
    }

    /// What no walk of the schema reaches. The safe subset leaves nothing; were there something,
    /// it is named all the same rather than let through.
    fn rest(&mut self) {
        let mut rest: Vec<_> = std::mem::take(&mut self.errors).into_iter().collect();
        if !self.named.is_empty() {
            return;
        }
        rest.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (pointer, errors) in rest {
            let under_null = || {
                let mut at = pointer.as_str();
                std::iter::from_fn(|| {
                    let here = at;
                    at = at.rsplit_once('/')?.0;
                    Some(here)
                })
                .any(|at| self.original.pointer(at).is_some_and(Value::is_null))
            };
            if under_null() {
                continue;
            }
            let value = self.original.pointer(&pointer).unwrap_or(&Value::Null);
            let path = pointer.trim_start_matches('/').replace('/', ".");
            for error in &errors {
                self.name(error.kind(), value, &path);
            }
        }
    }

    fn name(&mut self, kind: &ValidationErrorKind, value: &Value, path: &str) {
        let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let mut put = |path: String, words: String| {
            if self.named.len() < MAX_PROBLEMS {
                self.named.push((path, words));
            }
        };
        match kind {
            ValidationErrorKind::Required { property } => {
                put(below(property.as_str().unwrap_or_default()), "missing (required)".to_owned());
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                for key in unexpected {
                    put(below(key), "unexpected (the schema declares no such key)".to_owned());
                }
            }
            ValidationErrorKind::Enum { options } => {
                let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
                let text = scalar_text(value);
                let same_text = |option: &Value| text.is_some() && scalar_text(option) == text;
                if !options.iter().any(same_text) {
                    let listed: Vec<String> = options.iter().map(shown).collect();
                    put(path.to_owned(), format!("{} is not one of {}", quoted(value), listed.join("/")));
                }
            }
            ValidationErrorKind::Constant { expected_value } => {
                if scalar_text(value).is_none() || scalar_text(expected_value) != scalar_text(value) {
                    put(path.to_owned(), format!("{} is not {}", quoted(value), shown(expected_value)));
                }
            }
            kind => put(path.to_owned(), words_for(kind, value)),
        }
    }
}

pub(crate) fn words_for(kind: &ValidationErrorKind, value: &Value) -> String {
    let length = || scalar_text(value).map_or(0, |text| text.chars().count());
    let items = || value.as_array().map_or(0, Vec::len);
    match kind {
        ValidationErrorKind::Type { kind: TypeKind::Single(kind) } => {
            let expected = match kind.to_string().as_str() {
                "object" => "an object".to_owned(),
                "array" => "a list".to_owned(),
                other => other.to_owned(),
            };
            format!("expected {expected}, got {}", kind_of(value))
        }
        ValidationErrorKind::MinItems { limit } => format!("needs at least {limit} item(s), got {}", items()),
        ValidationErrorKind::MaxItems { limit } => format!("accepts at most {limit} item(s), got {}", items()),
        ValidationErrorKind::MinLength { limit } => format!("needs at least {limit} character(s), got {}", length()),
        ValidationErrorKind::MaxLength { limit } => format!("accepts at most {limit} character(s), got {}", length()),
        ValidationErrorKind::Minimum { limit } => format!("must be at least {limit}, got {}", shown(value)),
        ValidationErrorKind::Maximum { limit } => format!("must be at most {limit}, got {}", shown(value)),
        ValidationErrorKind::ExclusiveMinimum { limit } => format!("must be above {limit}, got {}", shown(value)),
        ValidationErrorKind::ExclusiveMaximum { limit } => format!("must be below {limit}, got {}", shown(value)),
        ValidationErrorKind::MultipleOf { multiple_of } => {
            format!("must be a multiple of {multiple_of}, got {}", shown(value))
        }
        ValidationErrorKind::Pattern { pattern } => format!("does not match the pattern {pattern}"),
        ValidationErrorKind::UniqueItems => "holds the same item twice".to_owned(),
        other => format!("is not allowed by {}", other.keyword()),
    }
}

fn quoted(value: &Value) -> String {
    match scalar_text(value) {
        Some(text) => Value::String(text.into_owned()).to_string(),
        None => value.to_string(),
    }
}

fn shown(value: &Value) -> String {
    scalar_text(value).map_or_else(|| value.to_string(), std::borrow::Cow::into_owned)
}
