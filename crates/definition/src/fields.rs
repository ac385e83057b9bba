//! Reading the keys of one JSON object, with the problems that every object can have: a wrong
//! type, an unknown key. A key that holds null counts as left out.

use serde_json::{Map, Value};

use crate::json::{child_pointer, kind_of};
use crate::problem::{ProblemCode, Problems, nearest};

pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    pointer: String,
}

impl<'a> Fields<'a> {
    /// Reads `value` as an object with the `known` keys. `what` names it in messages.
    pub(crate) fn read(
        value: &'a Value,
        pointer: &str,
        what: &str,
        known: &[&str],
        problems: &mut Problems,
    ) -> Option<Self> {
        let Value::Object(map) = value else {
            let message = format!("{what} is an object, not {}", kind_of(value));
            problems.add(pointer, ProblemCode::Type, message);
            return None;
        };
        for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
            let hint = nearest(key, known.iter().copied())
                .map_or_else(|| format!("the keys are {}", known.join(", ")), |near| format!("did you mean {near:?}?"));
            let message = format!("{what} has no key {key:?}; {hint}");
            problems.add(child_pointer(pointer, key), ProblemCode::UnknownKey, message);
        }
        Some(Self { map, pointer: pointer.to_owned() })
    }

    /// The value of a key; null is none.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// The pointer of a key.
    pub(crate) fn at(&self, key: &str) -> String {
        child_pointer(&self.pointer, key)
    }

    /// A string.
    pub(crate) fn text(&self, key: &str, problems: &mut Problems) -> Option<&'a str> {
        match self.get(key)? {
            Value::String(text) => Some(text),
            other => {
                let message = format!("{key} is a string, not {}", kind_of(other));
                problems.add(self.at(key), ProblemCode::Type, message);
                None
            }
        }
    }

    /// A string that is trimmed, and none when nothing is left.
    pub(crate) fn trimmed(&self, key: &str, problems: &mut Problems) -> Option<&'a str> {
        self.text(key, problems).map(str::trim).filter(|text| !text.is_empty())
    }

    /// A boolean; the text `"false"` is none.
    pub(crate) fn boolean(&self, key: &str, problems: &mut Problems) -> Option<bool> {
        match self.get(key)? {
            Value::Bool(flag) => Some(*flag),
            other => {
                let message = format!("{key} is true or false without quotes, not {}", kind_of(other));
                problems.add(self.at(key), ProblemCode::Type, message);
                None
            }
        }
    }

    /// A list of strings, or one string; trimmed, without blanks and repetitions.
    pub(crate) fn texts(&self, key: &str, same: fn(&str, &str) -> bool, problems: &mut Problems) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        let mut take = |value: &Value, pointer: String, problems: &mut Problems| match value {
            Value::String(text) => {
                let text = text.trim();
                if !text.is_empty() && !out.iter().any(|known| same(known, text)) {
                    out.push(text.to_owned());
                }
            }
            other => {
                let message = format!("{key} is a list of strings, and this is {}", kind_of(other));
                problems.add(pointer, ProblemCode::Type, message);
            }
        };
        match self.get(key) {
            Some(Value::Array(items)) => {
                for (i, item) in items.iter().enumerate() {
                    take(item, child_pointer(&self.at(key), &i.to_string()), problems);
                }
            }
            Some(one) => take(one, self.at(key), problems),
            None => {}
        }
        out
    }
}
