//! Reading an original schema into a shape.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::report::{StepKind, Steps};
use super::shape::{Kinds, ObjectShape, Shape};
use super::{MAX_RECURSION, MAX_SCHEMAS};
use crate::json::child_pointer;
use crate::schema::{MAX_PATTERNS, compiles};

/// How many bytes of listed values and annotations are copied of one original. References can copy a
/// list any number of times.
const MAX_COPIED: usize = 1 << 20;
/// How often a reference by name is looked for.
const MAX_SEARCHES: usize = 200;
/// How deep schemas may lie in each other; below is any value.
const MAX_DEPTH: usize = 24;

const OBJECT_KEYWORDS: [&str; 10] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
];
const LIST_KEYWORDS: [&str; 7] =
    ["items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"];
/// Keywords that say less than the safe subset can say, and go.
const DROPPED: [&str; 19] = [
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "minContains",
    "maxContains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
];
const ANNOTATIONS: [&str; 5] = ["title", "description", "default", "examples", "format"];

pub(super) struct Reader<'a> {
    root: &'a Value,
    steps: &'a mut Steps,
    /// The references that are being followed.
    following: Vec<String>,
    schemas: usize,
    /// Bytes of listed values and of annotations that were copied.
    copied: usize,
    /// How often the document was searched for a name.
    searches: usize,
    patterns: usize,
    /// Whether keywords beside `$ref` mean nothing, as before draft 2019-09.
    ref_stands_alone: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(root: &'a Value, steps: &'a mut Steps) -> Self {
        let draft = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let ref_stands_alone = ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|old| draft.contains(old));
        Self { root, steps, following: Vec::new(), schemas: 0, copied: 0, searches: 0, patterns: 0, ref_stands_alone }
    }

    pub(super) fn read_root(&mut self) -> Shape {
        self.read(self.root, "", 0)
    }

    fn read(&mut self, schema: &Value, pointer: &str, depth: usize) -> Shape {
        self.schemas += 1;
        if self.schemas > MAX_SCHEMAS || depth > MAX_DEPTH {
            self.steps.add(pointer, StepKind::TooLarge, "the schema is too large or too deep; from here on any value");
            return Shape::any(pointer);
        }
        match schema {
            Value::Bool(false) => Shape::of(pointer, Kinds::none()),
            Value::Object(map) => self.read_map(map, pointer, depth),
            _ => Shape::any(pointer),
        }
    }

    fn read_map(&mut self, map: &Map<String, Value>, pointer: &str, depth: usize) -> Shape {
        let reference = ["$ref", "$dynamicRef", "$recursiveRef"].iter().find_map(|key| map.get(*key)?.as_str());
        let mut shape = match reference {
            Some(_) if self.ref_stands_alone => Shape::any(pointer),
            _ => self.read_keywords(map, pointer, depth),
        };
        if let Some(reference) = reference {
            shape = shape.and(self.follow(reference, pointer, depth));
        }
        if self.ref_stands_alone && reference.is_some() {
            return shape;
        }
        if let Some(Value::Array(all)) = map.get("allOf") {
            let at = child_pointer(pointer, "allOf");
            self.steps.add(&at, StepKind::AllOfMerged, "its schemas are merged into one");
            for (i, one) in all.iter().enumerate() {
                shape = shape.and(self.read(one, &child_pointer(&at, &i.to_string()), depth + 1));
            }
        }
        for key in ["anyOf", "oneOf"] {
            let Some(Value::Array(forms)) = map.get(key).filter(|forms| **forms != Value::Array(Vec::new())) else {
                continue;
            };
            let at = child_pointer(pointer, key);
            let mut union = Shape::of(&at, Kinds::none());
            for (i, form) in forms.iter().enumerate() {
                union = union.or(self.read(form, &child_pointer(&at, &i.to_string()), depth + 1));
            }
            if union.merged {
                let message = "its objects are one object; the properties common to all are required";
                self.steps.add(&at, StepKind::UnionMerged, message);
            }
            union.pointer = at;
            shape = shape.and(union);
        }
        shape.pointer = pointer.to_owned();
        shape
    }

    fn read_keywords(&mut self, map: &Map<String, Value>, pointer: &str, depth: usize) -> Shape {
        self.copied += ["enum", "const", "description", "default", "examples", "pattern", "title"]
            .iter()
            .filter_map(|key| map.get(*key))
            .map(weight)
            .sum::<usize>();
        if self.copied > MAX_COPIED {
            self.steps.add(pointer, StepKind::TooLarge, "the schema is too large; from here on any value");
            return Shape::any(pointer);
        }
        let (mut kinds, integer) = read_type(map);
        if map.get("nullable") == Some(&Value::Bool(true)) {
            kinds.null = true;
        }
        let mut shape = Shape { integer, ..Shape::of(pointer, kinds) };
        shape.values = match (map.get("const"), map.get("enum")) {
            (Some(value), _) => Some(vec![value.clone()]),
            (None, Some(Value::Array(values))) => Some(values.clone()),
            _ => None,
        };
        for key in ANNOTATIONS {
            let fits = |value: &&Value| match key {
                "default" => true,
                "examples" => value.is_array(),
                _ => value.is_string(),
            };
            if let Some(value) = map.get(key).filter(fits) {
                shape.annotations.insert(key.to_owned(), value.clone());
            }
        }
        self.read_constraints(map, pointer, &mut shape);
        if kinds.array {
            shape.items = self.read_items(map, pointer, depth);
        }
        if kinds.object {
            shape.object = self.read_object(map, pointer, depth);
        }
        for keyword in DROPPED.iter().filter(|keyword| map.contains_key(**keyword)) {
            let message = format!("{keyword} is outside the safe subset; the server judges it");
            self.steps.add(&child_pointer(pointer, keyword), StepKind::KeywordDropped, message);
        }
        shape.keep_possible_values();
        shape
    }

    fn read_constraints(&mut self, map: &Map<String, Value>, pointer: &str, shape: &mut Shape) {
        let is_count = |value: &Value| value.as_f64().is_some_and(|n| n >= 0.0 && n.fract() == 0.0);
        for (keyword, value) in map {
            let fits = match keyword.as_str() {
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
                "multipleOf" => value.as_f64().is_some_and(|n| n > 0.0),
                "minLength" | "maxLength" | "minItems" | "maxItems" => is_count(value),
                "uniqueItems" => value.is_boolean(),
                "pattern" => {
                    self.patterns += 1;
                    self.patterns <= MAX_PATTERNS && value.as_str().is_some_and(compiles)
                }
                _ => continue,
            };
            if fits {
                shape.constraints.insert(keyword.clone(), value.clone());
            } else {
                let message = format!("{keyword} can't be taken over as it is; the server judges it");
                self.steps.add(&child_pointer(pointer, keyword), StepKind::KeywordDropped, message);
            }
        }
    }

    fn read_items(&mut self, map: &Map<String, Value>, pointer: &str, depth: usize) -> Option<Box<Shape>> {
        let (key, rest_key) = match (map.get("prefixItems"), map.get("items")) {
            (Some(Value::Array(_)), _) => ("prefixItems", "items"),
            (_, Some(Value::Array(_))) => ("items", "additionalItems"),
            (_, Some(items)) => {
                return Some(Box::new(self.read(items, &child_pointer(pointer, "items"), depth + 1)));
            }
            _ => return None,
        };
        let at = child_pointer(pointer, key);
        self.steps.add(&at, StepKind::TupleList, "a tuple is a list of what may stand at any of its places");
        let places = map.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut union = Shape::of(&at, Kinds::none());
        for (i, place) in places.iter().enumerate() {
            union = union.or(self.read(place, &child_pointer(&at, &i.to_string()), depth + 1));
        }
        let most = map.get("maxItems").and_then(Value::as_f64);
        if most.is_none_or(|most| most > places.len() as f64) {
            let rest = match map.get(rest_key) {
                Some(rest) => self.read(rest, &child_pointer(pointer, rest_key), depth + 1),
                None => Shape::any(&at),
            };
            union = union.or(rest);
        }
        Some(Box::new(union))
    }

    fn read_object(&mut self, map: &Map<String, Value>, pointer: &str, depth: usize) -> ObjectShape {
        let mut object = ObjectShape::default();
        let at = child_pointer(pointer, "properties");
        for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let shape = self.read(schema, &child_pointer(&at, name), depth + 1);
            object.properties.push((name.clone(), shape));
        }
        for name in map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if object.required.iter().any(|known| known == name) {
                continue;
            }
            object.required.push(name.to_owned());
        }
        object.closed =
            map.get("additionalProperties") == Some(&Value::Bool(false)) && !map.contains_key("patternProperties");
        if map.get("additionalProperties").is_some_and(Value::is_object) {
            let message = "a schema for additional properties is dropped: any may be there";
            self.steps.add(&child_pointer(pointer, "additionalProperties"), StepKind::KeywordDropped, message);
        }
        object
    }

    fn follow(&mut self, reference: &str, pointer: &str, depth: usize) -> Shape {
        let at = child_pointer(pointer, "$ref");
        // A name is looked for in the whole document.
        self.searches += usize::from(!matches!(reference, "#") && !reference.starts_with("#/"));
        let found = if self.searches > MAX_SEARCHES { None } else { resolve(self.root, reference) };
        let Some((target, place)) = found else {
            let message = format!("{reference:?} leads nowhere in this schema, and nothing is fetched: any value");
            self.steps.add(&at, StepKind::RefUnresolved, message);
            return Shape::any(pointer);
        };
        let rounds = self.following.iter().filter(|known| **known == place).count();
        if rounds >= MAX_RECURSION {
            let message = format!("{reference} contains itself; after {MAX_RECURSION} rounds it is a free object");
            self.steps.add(&at, StepKind::RecursionCut, message);
            let (kinds, _) = read_type(target.as_object().unwrap_or(&Map::new()));
            let object = Kinds { object: true, ..Kinds::none() };
            return Shape::of(pointer, if kinds == object { object } else { Kinds::all() });
        }
        self.steps.add(&at, StepKind::RefInlined, format!("{reference} is written out"));
        self.following.push(place.clone());
        let shape = self.read(target, &place, depth + 1);
        self.following.pop();
        shape
    }
}

/// What a local reference leads to, and its pointer.
pub(super) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<(&'a Value, String)> {
    let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let own = root.get("$id").and_then(Value::as_str).unwrap_or_default().trim_end_matches('#');
    let (document, place) = if base.is_empty() || base == own {
        (root, String::new())
    } else {
        find(root, "", &|map| map.get("$id").and_then(Value::as_str) == Some(base))?
    };
    let fragment: Cow<'_, str> = percent_decode_str(fragment).decode_utf8().ok()?;
    if fragment.is_empty() || fragment.starts_with('/') {
        return Some((document.pointer(&fragment)?, format!("{place}{fragment}")));
    }
    find(document, &place, &|map| {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        text("$anchor") == Some(&*fragment)
            || text("$dynamicAnchor") == Some(&*fragment)
            || text("$id").and_then(|id| id.strip_prefix('#')) == Some(&*fragment)
    })
}

/// Takes every reference out of `schema` that leads nowhere in `root`.
pub(super) fn drop_unresolved(root: &Value, schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
                // Only a pointer is followed here: a name that the compiler did not find leads nowhere.
                let unresolved = |reference: &str| {
                    !(reference == "#" || reference.starts_with("#/")) || resolve(root, reference).is_none()
                };
                if map.get(key).is_some_and(|reference| reference.as_str().is_none_or(unresolved)) {
                    map.shift_remove(key);
                }
            }
            map.values_mut().for_each(|value| drop_unresolved(root, value));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_unresolved(root, item)),
        _ => {}
    }
}

/// The first object below `value` that `wanted` takes, with its pointer.
fn find<'a>(
    value: &'a Value,
    pointer: &str,
    wanted: &dyn Fn(&Map<String, Value>) -> bool,
) -> Option<(&'a Value, String)> {
    match value {
        Value::Object(map) if wanted(map) => Some((value, pointer.to_owned())),
        Value::Object(map) => map.iter().find_map(|(key, value)| find(value, &child_pointer(pointer, key), wanted)),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(i, item)| find(item, &child_pointer(pointer, &i.to_string()), wanted))
        }
        _ => None,
    }
}

/// Roughly how many bytes a value holds.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + items.len() * 8,
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + weight(value)).sum::<usize>(),
        _ => 8,
    }
}

/// The kinds that `type` names, and whether numbers are whole. Without a type, keywords of objects or
/// lists mean an object or a list, which is what their authors mean.
fn read_type(map: &Map<String, Value>) -> (Kinds, bool) {
    let mut kinds = Kinds::none();
    let (mut integer, mut number) = (false, false);
    let mut take = |name: &str| match name {
        "null" => kinds.null = true,
        "boolean" => kinds.boolean = true,
        "integer" => integer = true,
        "number" => number = true,
        "string" => kinds.string = true,
        "array" => kinds.array = true,
        "object" => kinds.object = true,
        _ => kinds = Kinds::all(),
    };
    match map.get("type") {
        Some(Value::String(name)) => take(name),
        Some(Value::Array(names)) if !names.is_empty() => {
            names.iter().for_each(|name| take(name.as_str().unwrap_or_default()));
        }
        _ => {
            let has = |keywords: &[&str]| keywords.iter().any(|keyword| map.contains_key(*keyword));
            if has(&OBJECT_KEYWORDS) {
                take("object");
            } else if has(&LIST_KEYWORDS) {
                take("array");
            } else {
                take("any");
            }
        }
    }
    kinds.number |= integer || number;
    (kinds, integer && !number)
}
