//! The parameters of a tool: a JSON Schema of the safe subset, kept to the letter.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use crate::arguments::{ArgumentChecker, ArgumentError, typed_view};
use crate::json::kind_of;
use crate::lowering::Original;
use crate::problem::{ProblemCode, Problems};
use crate::{schema, sugar};

/// The parameters of a tool.
#[derive(Debug, Clone)]
pub struct Parameters {
    schema: Map<String, Value>,
    checker: OnceLock<Arc<ArgumentChecker>>,
    /// The schema they were lowered from, which judges in their place.
    original: Option<Arc<Original>>,
}

impl PartialEq for Parameters {
    fn eq(&self, other: &Self) -> bool {
        fn original(parameters: &Parameters) -> Option<&Value> {
            parameters.original.as_deref().map(Original::schema)
        }
        self.schema == other.schema && original(self) == original(other)
    }
}

impl Parameters {
    /// Reads JSON Schema or the flat list from `value`; nothing means no parameters.
    pub(crate) fn read(value: Option<&Value>, pointer: &str, problems: &mut Problems) -> Option<Self> {
        let schema = match value {
            None => sugar::read_list(&[], pointer, problems),
            Some(value) => read_schema(value, pointer, problems)?,
        };
        Some(Self { schema, checker: OnceLock::new(), original: None })
    }

    /// Reads the lowered parameters of a tool whose `original` schema another server published; without
    /// any, they are lowered now.
    pub(crate) fn read_lowered(
        value: Option<&Value>,
        original: &Value,
        pointer: &str,
        problems: &mut Problems,
    ) -> Option<Self> {
        let original = Arc::new(Original::new(original.clone()));
        let schema = match value {
            None => original.lowered().parameters().clone(),
            Some(Value::Object(schema)) => {
                schema::check_lowered_parameters(schema, pointer, problems);
                schema.clone()
            }
            Some(other) => {
                let message = format!("the parameters of an MCP tool are a JSON Schema, not {}", kind_of(other));
                problems.add(pointer, ProblemCode::Type, message);
                return None;
            }
        };
        Some(Self { schema, checker: OnceLock::new(), original: Some(original) })
    }

    /// Arguments as they are sent: those of a lowered schema as the original takes them, others as they
    /// are.
    pub fn restore(&self, arguments: Map<String, Value>) -> Map<String, Value> {
        let Some(original) = &self.original else { return arguments };
        let restored = match original.lowered().changes_nothing() {
            true => arguments,
            false => {
                let restored = original.lowered().restore(&arguments);
                // A text that looks like a number may be meant as the text that it is.
                if restored != arguments && original.check(&restored).is_err() && original.check(&arguments).is_ok() {
                    return arguments;
                }
                restored
            }
        };
        // Some models write null for what they leave out, and not every original takes that.
        let mut without_nulls = Value::Object(restored.clone());
        drop_nulls(&mut without_nulls);
        match without_nulls {
            Value::Object(map) if map != restored && original.check(&restored).is_err() => {
                if original.check(&map).is_ok() { map } else { restored }
            }
            _ => restored,
        }
    }

    /// Checks a JSON Schema that did not come from a definition, such as the one derived from the
    /// argument type of a code tool.
    ///
    /// # Errors
    /// Everything that is outside the safe subset.
    pub fn from_schema(schema: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let parameters = Self::read(Some(schema), "", &mut problems);
        problems.or(parameters)
    }

    /// The schema, exactly as it was written; a provider gets it verbatim.
    pub fn schema(&self) -> &Map<String, Value> {
        &self.schema
    }

    /// The names of the declared top-level parameters, in the order of the schema.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        properties(&self.schema).into_iter().flat_map(|map| map.keys().map(String::as_str))
    }

    /// Whether a top-level parameter is declared.
    pub fn declares(&self, name: &str) -> bool {
        properties(&self.schema).is_some_and(|map| map.contains_key(name))
    }

    /// The names of the required top-level parameters.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        let list = self.schema.get("required").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Arguments with each scalar in its declared type where its text allows that without loss, and
    /// without null properties, which count as absent: what a code tool reads. A request carries the
    /// arguments as they were sent instead.
    pub fn typed(&self, arguments: &Map<String, Value>) -> Map<String, Value> {
        let mut typed = typed_view(&Value::Object(self.schema.clone()), &Value::Object(arguments.clone()));
        drop_nulls(&mut typed);
        match typed {
            Value::Object(typed) => typed,
            _ => arguments.clone(),
        }
    }

    /// Checks the arguments of a call, as [`Parameters::restore`] gives them. The schema is compiled at the
    /// first call and kept.
    ///
    /// # Errors
    /// What the model should read: the missing names, or at most five problems.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), ArgumentError> {
        if let Some(original) = &self.original {
            return original.check(arguments);
        }
        let checker = self.checker.get_or_init(|| Arc::new(ArgumentChecker::new(&self.schema)));
        checker.check(arguments)
    }
}

pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

pub(crate) fn properties(schema: &Map<String, Value>) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

/// Reads JSON Schema or the flat list into a checked JSON Schema.
pub(crate) fn read_schema(value: &Value, pointer: &str, problems: &mut Problems) -> Option<Map<String, Value>> {
    match value {
        Value::Object(map) => {
            schema::check_parameters(map, pointer, problems);
            Some(map.clone())
        }
        Value::Array(items) => Some(sugar::read_list(items, pointer, problems)),
        other => {
            problems.add(
                pointer,
                ProblemCode::Type,
                format!(
                    "parameters is a JSON Schema object or a list of {{name, type, required, description}}, not {}",
                    kind_of(other)
                ),
            );
            None
        }
    }
}
