//! Writing a shape as a schema of the safe subset, with the codec of its values.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::codec::{Codec, Field, ObjectCodec};
use super::report::{StepKind, Steps};
use super::shape::{Kinds, ObjectShape, Shape};
use crate::json::child_pointer;

/// The longest property name that every provider takes, in bytes.
const MAX_PROPERTY_NAME: usize = 64;

/// Where a value stands: a null property can be left out, a null element of a list can't.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Property,
    Element,
}

/// A lowered schema with its codec.
struct Written {
    schema: Map<String, Value>,
    codec: Codec,
    /// Whether null was taken out.
    nullable: bool,
}

pub(super) struct Writer<'a> {
    steps: &'a mut Steps,
}

impl<'a> Writer<'a> {
    pub(super) fn new(steps: &'a mut Steps) -> Self {
        Self { steps }
    }

    pub(super) fn write_root(&mut self, shape: Shape) -> (Map<String, Value>, Codec) {
        let shape = Shape { values: None, ..shape };
        let mut annotations = shape.annotations.clone();
        annotations.retain(|key, _| matches!(key.as_str(), "title" | "description"));
        if shape.object.properties.is_empty() {
            self.steps.add("/properties", StepKind::Filled, "an object without properties says so");
        }
        let (mut schema, codec) = self.object("", shape.object);
        schema.extend(annotations);
        (schema, codec)
    }

    fn write(&mut self, shape: Shape, place: Place) -> Written {
        let nullable = shape.kinds.null;
        let listed_containers = |values: &Vec<Value>| values.iter().any(|value| value.is_array() || value.is_object());
        let as_text = shape.kinds.count() != 1
            || (nullable && place == Place::Element)
            || shape.values.as_ref().is_some_and(listed_containers);
        if as_text {
            return self.text(shape);
        }
        if nullable {
            let message = "null is taken out: leaving the property out says the same";
            self.steps.add(&shape.pointer, StepKind::Nullable, message);
        }
        let Shape { pointer, kinds, integer, values, constraints, items, object, annotations, .. } = shape;
        let (mut schema, codec) = if kinds.array {
            self.list(&pointer, items)
        } else if kinds.object {
            self.object(&pointer, object)
        } else {
            let name = match () {
                () if kinds.boolean => "boolean",
                () if kinds.string => "string",
                () if integer => "integer",
                () => "number",
            };
            (Map::from_iter([("type".to_owned(), name.into())]), Codec::Same)
        };
        if let Some(values) = values {
            schema.insert("enum".into(), values.into_iter().filter(|value| !value.is_null()).collect());
        }
        schema.extend(constraints.into_iter().filter(|(keyword, _)| belongs(keyword, kinds)));
        annotate(&mut schema, annotations, kinds, &codec);
        Written { schema, codec, nullable }
    }

    /// Values of several kinds, as a string.
    fn text(&mut self, shape: Shape) -> Written {
        let kinds = match shape.kinds {
            none if none == Kinds::none() => Kinds::all(),
            kinds => kinds,
        };
        let codec = Codec::Text { kinds, integer: shape.integer };
        let mut schema = Map::from_iter([("type".to_owned(), Value::from("string"))]);
        let note = if kinds == Kinds::all() {
            self.steps.add(&shape.pointer, StepKind::AnyText, "any value is a string of JSON");
            "Any value, as JSON; other text is taken as it is.".to_owned()
        } else {
            let message = format!("{} are one string", words(kinds, "and"));
            self.steps.add(&shape.pointer, StepKind::UnionText, message);
            match (kinds.string, kinds.array || kinds.object) {
                (true, false) => {
                    format!("Text; a text that is {} is read as such.", words(Kinds { string: false, ..kinds }, "or"))
                }
                (true, true) => format!("Text, or {} as JSON.", words(Kinds { string: false, ..kinds }, "or")),
                (false, _) => format!("{}, as JSON.", capitalised(&words(kinds, "or"))),
            }
        };
        if let Some(values) = shape.values.as_ref().filter(|values| !values.is_empty()) {
            schema.insert("enum".into(), values.iter().map(|value| codec.encode(value)).collect());
        }
        let mut annotations = shape.annotations;
        annotations.shift_remove("format");
        let own = annotations.get("description").and_then(Value::as_str).unwrap_or_default().trim();
        let separator = if own.is_empty() { "" } else { "\n" };
        annotations.insert("description".into(), format!("{own}{separator}{note}").into());
        annotate(&mut schema, annotations, kinds, &codec);
        Written { schema, codec, nullable: false }
    }

    fn list(&mut self, pointer: &str, items: Option<Box<Shape>>) -> (Map<String, Value>, Codec) {
        let items = items.map_or_else(
            || {
                self.steps.add(pointer, StepKind::Filled, "a list that does not say what its elements are has any");
                Shape::any(&child_pointer(pointer, "items"))
            },
            |items| *items,
        );
        let element = self.write(items, Place::Element);
        let mut schema = Map::new();
        schema.insert("type".into(), "array".into());
        schema.insert("items".into(), Value::Object(element.schema));
        let codec = match element.codec {
            Codec::Same => Codec::Same,
            codec => Codec::List(Box::new(codec)),
        };
        (schema, codec)
    }

    fn object(&mut self, pointer: &str, object: ObjectShape) -> (Map<String, Value>, Codec) {
        let ObjectShape { mut properties, required, closed, partial } = object;
        for name in &required {
            if !properties.iter().any(|(known, _)| known == name) {
                let message = format!("{name:?} is required and declared nowhere: any value");
                self.steps.add(pointer, StepKind::Filled, message);
                let at = child_pointer(&child_pointer(pointer, "properties"), name);
                properties.push((name.clone(), Shape::any(&at)));
            }
        }
        let names = safe_names(properties.iter().map(|(key, _)| key.as_str()));
        let mut schemas = Map::new();
        let mut still_required = Vec::new();
        let mut fields = Vec::new();
        for ((key, shape), name) in properties.into_iter().zip(names) {
            if name != key {
                let message = format!("the property {key:?} is called {name:?}, which every provider takes");
                self.steps.add(&shape.pointer, StepKind::Renamed, message);
            }
            let is_required = required.contains(&key);
            let Written { schema, codec, nullable } = self.write(shape, Place::Property);
            let partial = partial.contains(&key).then(|| Value::Object(schema.clone()));
            // Of a partial property the value may come as JSON text, under another name.
            if is_required && !nullable && partial.is_none() {
                still_required.push(Value::from(name.as_str()));
            }
            schemas.insert(name.clone(), Value::Object(schema));
            fields.push(Field { key, name, codec, null_when_absent: is_required && nullable, partial });
        }
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), Value::Object(schemas));
        if !still_required.is_empty() {
            schema.insert("required".into(), still_required.into());
        }
        if closed {
            schema.insert("additionalProperties".into(), false.into());
        }
        let plain = |field: &Field| {
            field.codec == Codec::Same && field.key == field.name && !field.null_when_absent && field.partial.is_none()
        };
        let codec =
            if fields.iter().all(plain) { Codec::Same } else { Codec::Object(Box::new(ObjectCodec::new(fields))) };
        (schema, codec)
    }
}

/// Whether a constraint is one of this kind of value.
fn belongs(keyword: &str, kinds: Kinds) -> bool {
    match keyword {
        "minLength" | "maxLength" | "pattern" => kinds.string,
        "minItems" | "maxItems" | "uniqueItems" => kinds.array,
        _ => kinds.number,
    }
}

/// Adds title, description, format, default and examples, the latter two in the lowered form.
fn annotate(schema: &mut Map<String, Value>, annotations: Map<String, Value>, kinds: Kinds, codec: &Codec) {
    for (key, value) in annotations {
        let value = match key.as_str() {
            "format" if !kinds.string => continue,
            "default" if value.is_null() || !kinds.has(&value) => continue,
            "default" => codec.encode(&value),
            "examples" => {
                let examples = value.as_array().into_iter().flatten();
                examples.filter(|example| !example.is_null() && kinds.has(example)).map(|e| codec.encode(e)).collect()
            }
            _ => value,
        };
        if value != json!([]) {
            schema.insert(key, value);
        }
    }
}

/// Names that every provider takes, each once: letters, digits, `_`, `.` and `-`, at most 64.
fn safe_names<'a>(keys: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let fits = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '_' | '.' | '-');
    let is_safe = |key: &str| (1..=MAX_PROPERTY_NAME).contains(&key.len()) && key.chars().all(fits);
    let mut taken: HashSet<String> = keys.clone().map(str::to_owned).collect();
    let mut next: HashMap<String, usize> = HashMap::new();
    keys.map(|key| {
        if is_safe(key) {
            return key.to_owned();
        }
        let clean: String = key.chars().map(|ch| if fits(ch) { ch } else { '_' }).collect();
        let clean = clean.trim_matches('_');
        let base: String = if clean.is_empty() { "property".into() } else { clean.chars().take(56).collect() };
        let number = next.entry(base.clone()).or_insert(1);
        loop {
            let name = if *number == 1 { base.clone() } else { format!("{base}_{number}") };
            *number += 1;
            if taken.insert(name.clone()) {
                return name;
            }
        }
    })
    .collect()
}

/// Kinds in words: "a boolean or a number".
fn words(kinds: Kinds, joiner: &str) -> String {
    let all = [
        (kinds.string, "text"),
        (kinds.boolean, "a boolean"),
        (kinds.number, "a number"),
        (kinds.array, "a list"),
        (kinds.object, "an object"),
        (kinds.null, "null"),
    ];
    let named: Vec<&str> = all.into_iter().filter(|(there, _)| *there).map(|(_, word)| word).collect();
    match named.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, first)) => format!("{} {joiner} {last}", first.join(", ")),
        None => String::new(),
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
