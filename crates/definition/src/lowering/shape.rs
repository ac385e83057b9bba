//! What is known of the values that a schema accepts, with unions and intersections.
//!
//! Every operation here may lose knowledge and so accept more; none ever accepts less.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Which kinds of JSON values there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) null: bool,
    pub(super) boolean: bool,
    pub(super) number: bool,
    pub(super) string: bool,
    pub(super) array: bool,
    pub(super) object: bool,
}

impl Kinds {
    pub(super) const fn none() -> Self {
        Self { null: false, boolean: false, number: false, string: false, array: false, object: false }
    }

    pub(super) const fn all() -> Self {
        Self { null: true, boolean: true, number: true, string: true, array: true, object: true }
    }

    /// The kind of one value.
    pub(super) fn of(value: &Value) -> Self {
        let mut kinds = Self::none();
        match value {
            Value::Null => kinds.null = true,
            Value::Bool(_) => kinds.boolean = true,
            Value::Number(_) => kinds.number = true,
            Value::String(_) => kinds.string = true,
            Value::Array(_) => kinds.array = true,
            Value::Object(_) => kinds.object = true,
        }
        kinds
    }

    fn zip(self, other: Self, both: fn(bool, bool) -> bool) -> Self {
        Self {
            null: both(self.null, other.null),
            boolean: both(self.boolean, other.boolean),
            number: both(self.number, other.number),
            string: both(self.string, other.string),
            array: both(self.array, other.array),
            object: both(self.object, other.object),
        }
    }

    pub(super) fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a || b)
    }

    pub(super) fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a && b)
    }

    pub(super) fn has(self, value: &Value) -> bool {
        self.and(Self::of(value)) != Self::none()
    }

    /// How many kinds there are beside null.
    pub(super) fn count(self) -> usize {
        [self.boolean, self.number, self.string, self.array, self.object].into_iter().filter(|kind| *kind).count()
    }
}

/// What is known of the values of a schema.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    /// Where in the original it begins, for the report.
    pub(super) pointer: String,
    pub(super) kinds: Kinds,
    /// Whether all its numbers are whole.
    pub(super) integer: bool,
    /// The only values, when they are listed.
    pub(super) values: Option<Vec<Value>>,
    /// Constraints of the safe subset on numbers, strings and lists, by keyword.
    pub(super) constraints: Map<String, Value>,
    pub(super) items: Option<Box<Shape>>,
    pub(super) object: ObjectShape,
    /// `title`, `description`, `default`, `examples`, `format`.
    pub(super) annotations: Map<String, Value>,
    /// Whether the union of several objects is in it.
    pub(super) merged: bool,
}

/// What is known of the objects of a schema.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ObjectShape {
    pub(super) properties: Vec<(String, Shape)>,
    pub(super) required: Vec<String>,
    /// Whether no other properties may be there.
    pub(super) closed: bool,
    /// Properties that only some objects of a union declare, while others may have them with any value.
    pub(super) partial: Vec<String>,
}

impl ObjectShape {
    pub(super) fn property(&self, name: &str) -> Option<&Shape> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, shape)| shape)
    }
}

impl Shape {
    /// Any value.
    pub(super) fn any(pointer: &str) -> Self {
        Self {
            pointer: pointer.to_owned(),
            kinds: Kinds::all(),
            integer: false,
            values: None,
            constraints: Map::new(),
            items: None,
            object: ObjectShape::default(),
            annotations: Map::new(),
            merged: false,
        }
    }

    /// Any value of these kinds.
    pub(super) fn of(pointer: &str, kinds: Kinds) -> Self {
        Self { kinds, ..Self::any(pointer) }
    }

    /// What either accepts.
    pub(super) fn or(self, other: Self) -> Self {
        let (a, b) = (self, other);
        if a.kinds == Kinds::none() {
            return b;
        }
        if b.kinds == Kinds::none() {
            return a;
        }
        let both_objects = a.kinds.object && b.kinds.object;
        let object = match (a.kinds.object, b.kinds.object) {
            (true, true) => a.object.or(b.object),
            (false, true) => b.object,
            _ => a.object,
        };
        let items = match (a.kinds.array, b.kinds.array) {
            (true, true) => match (a.items, b.items) {
                (Some(a), Some(b)) => Some(Box::new(a.or(*b))),
                _ => None,
            },
            (false, true) => b.items,
            _ => a.items,
        };
        let values = match (a.values, b.values) {
            (Some(mut list), Some(more)) => {
                let known: HashSet<String> = list.iter().map(Value::to_string).collect();
                list.extend(more.into_iter().filter(|value| !known.contains(&value.to_string())));
                Some(list)
            }
            _ => None,
        };
        // A constraint holds for the union when both have it, or when the other has no value it speaks of.
        let mut constraints = Map::new();
        for (mine, other, their_kinds) in
            [(&a.constraints, &b.constraints, b.kinds), (&b.constraints, &a.constraints, a.kinds)]
        {
            for (keyword, value) in mine {
                if !concerns(keyword, their_kinds) || other.get(keyword) == Some(value) {
                    constraints.insert(keyword.clone(), value.clone());
                }
            }
        }
        let mut annotations = a.annotations;
        annotations.retain(|key, value| {
            matches!(key.as_str(), "title" | "description") || b.annotations.get(key) == Some(value)
        });
        for key in ["title", "description"] {
            if let (None, Some(value)) = (annotations.get(key), b.annotations.get(key)) {
                annotations.insert(key.to_owned(), value.clone());
            }
        }
        Self {
            pointer: a.pointer,
            kinds: a.kinds.or(b.kinds),
            integer: (a.integer || !a.kinds.number) && (b.integer || !b.kinds.number),
            values,
            constraints,
            items,
            object,
            annotations,
            merged: a.merged || b.merged || both_objects,
        }
    }

    /// What both accept, or more than that.
    pub(super) fn and(self, other: Self) -> Self {
        let (a, b) = (self, other);
        let kinds = a.kinds.and(b.kinds);
        let values = match (a.values, b.values) {
            (Some(mut list), Some(other)) => {
                list.retain(|value| other.contains(value));
                Some(list)
            }
            (list, other) => list.or(other),
        };
        let items = match (a.items, b.items) {
            (Some(a), Some(b)) => Some(Box::new(a.and(*b))),
            (a, b) => a.or(b),
        };
        let mut constraints = a.constraints;
        for (keyword, value) in b.constraints {
            constraints.entry(keyword).or_insert(value);
        }
        let mut annotations = a.annotations;
        for (keyword, value) in b.annotations {
            annotations.entry(keyword).or_insert(value);
        }
        let mut shape = Self {
            pointer: a.pointer,
            kinds,
            integer: a.integer || b.integer,
            values,
            constraints,
            items,
            object: a.object.and(b.object),
            annotations,
            merged: a.merged || b.merged,
        };
        shape.keep_possible_values();
        shape
    }

    /// Drops listed values of a kind that there is not, and kinds without a listed value.
    pub(super) fn keep_possible_values(&mut self) {
        if let Some(values) = &mut self.values {
            let kinds = self.kinds;
            values.retain(|value| kinds.has(value));
            self.kinds = values.iter().fold(Kinds::none(), |kinds, value| kinds.or(Kinds::of(value)));
        }
    }
}

impl ObjectShape {
    fn or(self, other: Self) -> Self {
        let (a, b) = (self, other);
        let mut partial = a.partial.clone();
        partial.extend(b.partial.iter().cloned());
        // An open object may have a property that only the other one declares, with any value.
        let undeclared = |one: &Self, other: &Self| -> Vec<String> {
            let missing = one.properties.iter().filter(|(name, _)| other.property(name).is_none());
            if other.closed { Vec::new() } else { missing.map(|(name, _)| name.clone()).collect() }
        };
        partial.extend(undeclared(&a, &b));
        partial.extend(undeclared(&b, &a));
        partial.sort();
        partial.dedup();
        let required = a.required.iter().filter(|name| b.required.contains(name)).cloned().collect();
        let closed = a.closed && b.closed;
        Self { properties: join(a.properties, b.properties, Shape::or), required, closed, partial }
    }

    fn and(self, other: Self) -> Self {
        let (mut a, mut b) = (self, other);
        // Where one side declares a property in all its forms and the other only in some, the first decides.
        let whole = |one: &Self, name: &str| one.property(name).is_some() && !one.partial.iter().any(|p| p == name);
        let mine: Vec<String> = a.partial.iter().filter(|name| whole(&b, name)).cloned().collect();
        let theirs: Vec<String> = b.partial.iter().filter(|name| whole(&a, name)).cloned().collect();
        a.properties.retain(|(name, _)| !mine.contains(name));
        b.properties.retain(|(name, _)| !theirs.contains(name));
        let mut partial: Vec<String> = a.partial.into_iter().filter(|name| !mine.contains(name)).collect();
        partial.extend(b.partial.into_iter().filter(|name| !theirs.contains(name)));
        partial.sort();
        partial.dedup();
        let mut required = a.required;
        required.extend(b.required.into_iter().filter(|name| !required.contains(name)).collect::<Vec<_>>());
        Self {
            properties: join(a.properties, b.properties, Shape::and),
            required,
            closed: a.closed || b.closed,
            partial,
        }
    }
}

/// The properties of both, those of the same name made one.
fn join(
    mut first: Vec<(String, Shape)>,
    second: Vec<(String, Shape)>,
    one: fn(Shape, Shape) -> Shape,
) -> Vec<(String, Shape)> {
    for (name, shape) in second {
        match first.iter().position(|(known, _)| *known == name) {
            Some(at) => {
                let (_, mine) = first.remove(at);
                first.insert(at, (name, one(mine, shape)));
            }
            None => first.push((name, shape)),
        }
    }
    first
}

/// Whether a constraint says something of values of these kinds.
fn concerns(keyword: &str, kinds: Kinds) -> bool {
    match keyword {
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => kinds.number,
        "minLength" | "maxLength" | "pattern" => kinds.string,
        "minItems" | "maxItems" | "uniqueItems" => kinds.array,
        _ => true,
    }
}
