//! The parameters of a tool: a JSON Schema of the safe subset, kept to the letter.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use crate::arguments::{ArgumentChecker, ArgumentError, typed_view};
use crate::json::kind_of;
use crate::problem::{ProblemCode, Problems};
use crate::{schema, sugar};

/// The parameters of a tool.
#[derive(Debug, Clone)]
pub struct Parameters {
    schema: Map<String, Value>,
    checker: OnceLock<Arc<ArgumentChecker>>,
}

impl PartialEq for Parameters {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
    }
}

impl Parameters {
    /// Reads JSON Schema or the flat list from `value`; nothing means no parameters.
    pub(crate) fn read(value: Option<&Value>, pointer: &str, problems: &mut Problems) -> Option<Self> {
        let schema = match value {
            None => sugar::read_list(&[], pointer, problems),
            Some(value) => read_schema(value, pointer, problems)?,
        };
        Some(Self { schema, checker: OnceLock::new() })
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

    /// Checks the arguments of a call. The schema is compiled at the first call and kept.
    ///
    /// # Errors
    /// What the model should read: the missing names, or at most five problems.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), ArgumentError> {
        let checker = self.checker.get_or_init(|| Arc::new(ArgumentChecker::new(&self.schema)));
        checker.check(arguments)
    }
}

fn drop_nulls(value: &mut Value) {
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
