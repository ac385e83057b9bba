//! The turn context: a closed set of fields that the trusted caller sets and the model never does.

use serde_json::{Map, Value};

use crate::json::{self, child_pointer};
use crate::problem::{ProblemCode, Problems, nearest};

/// A field of the turn context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CtxField {
    /// The conversation.
    ChatId,
    /// The store, shop or site the conversation belongs to.
    StoreId,
    /// The agent that is talking.
    AgentId,
    /// The tenant.
    Tenant,
    /// An image that the user sent.
    ImageUrl,
}

impl CtxField {
    /// Every field.
    pub const ALL: [CtxField; 5] =
        [CtxField::ChatId, CtxField::StoreId, CtxField::AgentId, CtxField::Tenant, CtxField::ImageUrl];

    /// The name of the field, as in `{{ctx.chat_id}}`.
    pub fn as_str(self) -> &'static str {
        match self {
            CtxField::ChatId => "chat_id",
            CtxField::StoreId => "store_id",
            CtxField::AgentId => "agent_id",
            CtxField::Tenant => "tenant",
            CtxField::ImageUrl => "image_url",
        }
    }

    /// The field with this name; names are case-sensitive.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.as_str() == name)
    }
}

/// The values of one turn's context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ctx {
    values: [Option<String>; 5],
}

impl Ctx {
    /// The value of a field, when the caller set it.
    pub fn get(&self, field: CtxField) -> Option<&str> {
        self.values[field as usize].as_deref()
    }

    /// The same context with a field set.
    #[must_use]
    pub fn with(mut self, field: CtxField, value: impl Into<String>) -> Self {
        self.values[field as usize] = Some(value.into());
        self
    }

    /// Reads a context from a JSON object. A null field is an absent one.
    ///
    /// # Errors
    /// A problem for each unknown field and for each value that is not a scalar.
    pub fn from_json(value: &Value) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let mut ctx = Ctx::default();
        let empty = Map::new();
        let map = match value {
            Value::Null => &empty,
            Value::Object(map) => map,
            other => {
                let message = format!("ctx is an object, not {}", json::kind_of(other));
                problems.add("", ProblemCode::Type, message);
                &empty
            }
        };
        for (key, value) in map {
            let pointer = child_pointer("", key);
            let names = CtxField::ALL.map(CtxField::as_str);
            match (CtxField::named(key), json::scalar_text(value)) {
                (Some(_), _) if value.is_null() => {}
                (Some(field), Some(text)) => ctx.values[field as usize] = Some(text.into_owned()),
                (Some(_), None) => problems.add(pointer, ProblemCode::Type, "a context field is a string"),
                (None, _) => {
                    let hint = nearest(key, names).map_or_else(
                        || format!("the fields are {}", names.join(", ")),
                        |near| format!("did you mean {near:?}?"),
                    );
                    problems.add(pointer, ProblemCode::UnknownKey, format!("ctx has no field {key:?}; {hint}"));
                }
            }
        }
        problems.or(Some(ctx))
    }

    /// The set fields as a JSON object.
    pub fn to_json(&self) -> Value {
        let set = CtxField::ALL.into_iter().filter_map(|field| {
            self.get(field).map(|value| (field.as_str().to_owned(), Value::String(value.to_owned())))
        });
        Value::Object(set.collect())
    }
}
