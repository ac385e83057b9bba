//! How values of the original are written in the lowered form, and read back.

use serde_json::{Map, Value};

use super::shape::Kinds;
use crate::arguments::schema_options;
use crate::json::parse;

/// The way between a value of the original and its lowered form.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Codec {
    /// They are the same.
    Same,
    /// A string that holds a value of these kinds: the text itself when the value is a string that can't
    /// be mistaken, else JSON.
    Text {
        kinds: Kinds,
        /// Whether its numbers are whole.
        integer: bool,
    },
    /// A list of values.
    List(Box<Codec>),
    /// An object.
    Object(Box<ObjectCodec>),
}

/// The way of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ObjectCodec {
    pub(super) fields: Vec<Field>,
    /// Stands behind the name of a property whose value is given as JSON text. No declared name ends so.
    suffix: String,
}

/// The way of a property.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// The name in the original.
    pub(super) key: String,
    /// The name in the lowered form.
    pub(super) name: String,
    pub(super) codec: Codec,
    /// Whether it has to be there, and being absent means null.
    pub(super) null_when_absent: bool,
    /// Its lowered schema, when some objects have it with values that do not fit that.
    pub(super) partial: Option<Value>,
}

impl Codec {
    /// From the lowered form to the original. What is not in a lowered form stays as it is.
    pub(super) fn restore(&self, value: &Value) -> Value {
        match (self, value) {
            (Codec::Text { kinds, integer }, Value::String(text)) => match read_text(text, *kinds, *integer) {
                Some(read) => read,
                None => value.clone(),
            },
            (Codec::List(items), Value::Array(list)) => list.iter().map(|item| items.restore(item)).collect(),
            (Codec::Object(object), Value::Object(map)) => Value::Object(object.restore(map)),
            _ => value.clone(),
        }
    }

    /// From the original to the lowered form.
    pub(super) fn encode(&self, value: &Value) -> Value {
        match (self, value) {
            (Codec::Text { kinds, integer }, Value::String(text)) if read_text(text, *kinds, *integer).is_none() => {
                value.clone()
            }
            (Codec::Text { .. }, value) => Value::String(value.to_string()),
            (Codec::List(items), Value::Array(list)) => list.iter().map(|item| items.encode(item)).collect(),
            (Codec::Object(object), Value::Object(map)) => Value::Object(object.encode(map)),
            _ => value.clone(),
        }
    }
}

/// The value that a text stands for when it is not simply that text.
fn read_text(text: &str, kinds: Kinds, integer: bool) -> Option<Value> {
    let value = parse(text.as_bytes()).ok()?;
    let is_whole = || value.as_f64().is_none_or(|number| number.fract() == 0.0);
    (kinds.has(&value) && (!integer || is_whole())).then_some(value)
}

impl ObjectCodec {
    pub(super) fn new(fields: Vec<Field>) -> Self {
        let free = |suffix: &String| !fields.iter().any(|field| field.name.ends_with(suffix.as_str()));
        let numbered = (2..).map(|n| format!("__json{n}"));
        let suffix = std::iter::once("__json".to_owned()).chain(numbered).find(free).unwrap_or_default();
        Self { fields, suffix }
    }

    fn suffixed(&self, name: &str, times: usize) -> String {
        format!("{name}{}", self.suffix.repeat(times))
    }

    fn restore(&self, map: &Map<String, Value>) -> Map<String, Value> {
        let mut out = Map::new();
        for (name, value) in map {
            let Some((field, times)) = self.field_of(name) else {
                out.insert(name.clone(), value.clone());
                continue;
            };
            let (key, value) = match (times, value) {
                (0, value) => (field.key.clone(), field.codec.restore(value)),
                (1, Value::String(text)) => match parse(text.as_bytes()) {
                    Ok(value) => (field.key.clone(), value),
                    Err(_) => (name.clone(), value.clone()),
                },
                (1, value) => (name.clone(), value.clone()),
                (times, value) => (self.suffixed(&field.name, times - field.reserved()), value.clone()),
            };
            out.insert(key, value);
        }
        for field in self.fields.iter().filter(|field| field.null_when_absent) {
            out.entry(field.key.clone()).or_insert(Value::Null);
        }
        out
    }

    fn encode(&self, map: &Map<String, Value>) -> Map<String, Value> {
        let mut out = Map::new();
        for (key, value) in map {
            if let Some(field) = self.fields.iter().find(|field| field.key == *key) {
                if value.is_null() && field.null_when_absent {
                    continue;
                }
                let encoded = field.codec.encode(value);
                match &field.partial {
                    Some(_) if value.is_null() => out.insert(field.name.clone(), Value::Null),
                    Some(schema) if field.codec.restore(&encoded) != *value || !accepts(schema, &encoded) => {
                        out.insert(self.suffixed(&field.name, 1), Value::String(value.to_string()))
                    }
                    _ => out.insert(field.name.clone(), encoded),
                };
            } else if let Some((field, times)) = self.field_of(key) {
                out.insert(self.suffixed(&field.name, times + field.reserved()), value.clone());
            } else {
                out.insert(key.clone(), value.clone());
            }
        }
        out
    }

    /// The field that a lowered name belongs to, with how often the suffix stands behind it.
    fn field_of(&self, name: &str) -> Option<(&Field, usize)> {
        let mut rest = name;
        for times in 0.. {
            let takes = |field: &&Field| field.name == rest && (times == 0 || field.has_suffix());
            if let Some(field) = self.fields.iter().find(takes) {
                return Some((field, times));
            }
            rest = rest.strip_suffix(self.suffix.as_str())?;
        }
        None
    }
}

impl Field {
    /// Whether names with the suffix belong to it.
    fn has_suffix(&self) -> bool {
        self.partial.is_some() || self.name != self.key
    }

    /// By how many suffixes a foreign property of such a name moves aside.
    fn reserved(&self) -> usize {
        if self.name == self.key { 1 } else { 2 }
    }
}

/// Whether a lowered schema takes a value, null properties aside, which count as absent.
fn accepts(schema: &Value, value: &Value) -> bool {
    let mut value = value.clone();
    crate::parameters::drop_nulls(&mut value);
    schema_options().build(schema).is_ok_and(|validator| validator.is_valid(&value))
}
