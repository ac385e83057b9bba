//! Schemas of every construct, and instances that try to fit them.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

const KEYS: [&str; 7] = ["a", "b", "kind", "$v", "x y", "a__json", "__v"];

fn small_json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number(), text()];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let key = select(KEYS.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((key, inner), 0..3).prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
    .boxed()
}

fn text() -> BoxedStrategy<Value> {
    // Texts that are JSON are those that a string of JSON may be mistaken for.
    let texts = vec!["", "5", " 5 ", "-1.5", "true", "null", "\"q\"", "[1]", "{\"a\": 1}", "plain", "red", "é"];
    select(texts).prop_map(Value::from).boxed()
}

fn number() -> BoxedStrategy<Value> {
    prop_oneof![(-3..9i64).prop_map(Value::from), select(vec![json!(2.5), json!(-0.5), json!(5.0)])].boxed()
}

fn leaf() -> BoxedStrategy<Value> {
    prop_oneof![
        4 => select(vec!["string", "integer", "number", "boolean", "object", "array"]).prop_map(|t| json!({ "type": t })),
        2 => vec(select(vec!["string", "integer", "number", "boolean", "null", "object", "array"]), 1..4)
            .prop_map(|mut types| { types.sort_unstable(); types.dedup(); json!({ "type": types }) }),
        2 => vec(small_json(), 1..4).prop_map(|values| json!({ "enum": values })),
        1 => small_json().prop_map(|value| json!({ "const": value })),
        1 => select(vec![json!({}), json!(true), json!({ "description": "anything" })]),
        1 => select(vec![
            json!({ "type": "string", "minLength": 2, "pattern": "^[a-z]" }),
            json!({ "type": "integer", "minimum": 0, "exclusiveMaximum": 7 }),
            json!({ "type": ["number", "null"], "multipleOf": 2, "default": null }),
            json!({ "type": "string", "not": { "const": "red" }, "format": "date" }),
            json!({ "type": "array", "contains": { "type": "integer" }, "uniqueItems": true }),
        ]),
        2 => select(vec!["#/$defs/one", "#/$defs/two", "#/$defs/nowhere"]).prop_map(|r| json!({ "$ref": r })),
    ]
    .boxed()
}

fn object(inner: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let properties = vec((select(KEYS.to_vec()), inner.clone()), 0..4);
    let required = vec(select(KEYS.to_vec()), 0..3);
    let additional = prop_oneof![
        3 => Just(None), 2 => Just(Some(json!(false))), 1 => Just(Some(json!(true))),
        1 => inner.prop_map(Some),
    ];
    (properties, required, additional)
        .prop_map(|(properties, mut required, additional)| {
            let properties: Map<String, Value> = properties.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
            required.sort_unstable();
            required.dedup();
            let mut schema = json!({ "type": "object", "properties": properties, "required": required });
            if let Some(additional) = additional {
                schema["additionalProperties"] = additional;
            }
            schema
        })
        .boxed()
}

fn any_schema() -> BoxedStrategy<Value> {
    leaf()
        .prop_recursive(3, 24, 3, |inner| {
            let list = inner.clone().prop_map(|items| json!({ "type": "array", "items": items }));
            let tuple = (vec(inner.clone(), 1..3), prop::option::of(inner.clone()), any::<bool>()).prop_map(
                |(places, rest, fixed)| {
                    let mut schema = json!({ "type": "array", "prefixItems": places });
                    if fixed {
                        schema["maxItems"] = schema["prefixItems"].as_array().unwrap().len().into();
                    } else if let Some(rest) = rest {
                        schema["items"] = rest;
                    }
                    schema
                },
            );
            let union = (select(vec!["anyOf", "oneOf", "allOf"]), vec(inner.clone(), 1..4))
                .prop_map(|(key, forms)| json!({ key: forms }));
            let nullable = inner.clone().prop_map(|one| json!({ "anyOf": [one, { "type": "null" }], "default": null }));
            let tagged = vec(object(inner.clone()), 2..4).prop_map(|mut forms| {
                for (i, form) in forms.iter_mut().enumerate() {
                    form["properties"]["kind"] = json!({ "const": format!("k{i}") });
                    form["required"] = json!(["kind"]);
                }
                json!({ "oneOf": forms })
            });
            let beside = (object(inner.clone()), select(vec!["#/$defs/one", "#/$defs/two"])).prop_map(
                |(mut schema, reference)| {
                    schema["$ref"] = reference.into();
                    schema
                },
            );
            prop_oneof![list, tuple, union, nullable, tagged, beside, object(inner.boxed())]
        })
        .boxed()
}

/// The `inputSchema` of a tool.
pub fn schema() -> BoxedStrategy<Value> {
    (object(any_schema()), any_schema(), any_schema(), prop::option::of(any_schema()))
        .prop_map(|(mut root, one, two, all)| {
            root["$defs"] = json!({ "one": one, "two": two });
            if let Some(all) = all {
                root["allOf"] = json!([all]);
            }
            root
        })
        .boxed()
}

/// An instance that has a fair chance to be accepted.
pub fn instance_of(schema: &Value) -> BoxedStrategy<Value> {
    let object = |value: Value| if value.is_object() { value } else { json!({}) };
    generate(schema, schema, 4).prop_map(object).boxed()
}

fn generate(schema: &Value, root: &Value, depth: usize) -> BoxedStrategy<Value> {
    let Some(map) = schema.as_object().filter(|map| !map.is_empty() && depth > 0) else { return small_json() };
    let below = |schema: &Value| generate(schema, root, depth - 1);
    if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.trim_start_matches('#')).map_or_else(small_json, below);
        let rest: Map<String, Value> =
            map.iter().filter(|(k, _)| *k != "$ref").map(|(k, v)| (k.clone(), v.clone())).collect();
        return if rest.is_empty() { target } else { merged(vec![below(&Value::Object(rest)), target]) };
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        let Some(forms) = map.get(key).and_then(Value::as_array) else { continue };
        let mut rest = map.clone();
        rest.shift_remove(key);
        let mut parts = vec![match key {
            "allOf" => merged(forms.iter().map(below).collect()),
            _ => proptest::strategy::Union::new(forms.iter().map(below)).boxed(),
        }];
        if rest.contains_key("type") {
            parts.insert(0, below(&Value::Object(rest)));
        }
        return merged(parts);
    }
    if let Some(values) = map.get("enum").and_then(Value::as_array) {
        return select(values.clone()).boxed();
    }
    if let Some(value) = map.get("const") {
        return Just(value.clone()).boxed();
    }
    let types = match map.get("type") {
        Some(Value::Array(types)) => types.clone(),
        Some(one) => vec![one.clone()],
        None => return small_json(),
    };
    let one = |kind: &Value| match kind.as_str() {
        Some("string") => text(),
        Some("integer") => (-3..9i64).prop_map(Value::from).boxed(),
        Some("number") => number(),
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("null") => Just(Value::Null).boxed(),
        Some("array") => match (map.get("prefixItems").and_then(Value::as_array), map.get("items")) {
            (Some(places), rest) => {
                let places: Vec<_> = places.iter().map(below).collect();
                let rest = rest.map_or_else(small_json, below);
                let most = if map.contains_key("maxItems") { 1 } else { 2 };
                (places, vec(rest, 0..most))
                    .prop_map(|(mut places, rest): (Vec<Value>, Vec<Value>)| {
                        places.extend(rest);
                        Value::from(places)
                    })
                    .boxed()
            }
            (None, items) => vec(items.map_or_else(small_json, below), 0..3).prop_map(Value::from).boxed(),
        },
        _ => generate_object(map, root, depth),
    };
    proptest::strategy::Union::new(types.iter().map(one)).boxed()
}

fn generate_object(map: &Map<String, Value>, root: &Value, depth: usize) -> BoxedStrategy<Value> {
    let required: Vec<&str> =
        map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let declared = map.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut entries: Vec<BoxedStrategy<Option<(String, Value)>>> = Vec::new();
    for (key, schema) in &declared {
        let (name, value) = (key.clone(), generate(schema, root, depth - 1));
        let entry = value.prop_map(move |value| (name.clone(), value));
        entries.push(match required.contains(&key.as_str()) {
            true => entry.prop_map(Some).boxed(),
            false => prop::option::weighted(0.6, entry).boxed(),
        });
    }
    for key in required.iter().filter(|key| !declared.contains_key(**key)) {
        let name = (*key).to_owned();
        entries.push(small_json().prop_map(move |value| Some((name.clone(), value))).boxed());
    }
    let extra = match map.get("additionalProperties") {
        Some(Value::Bool(false)) => return entries_to_object(entries, Just(Vec::new()).boxed()),
        Some(schema @ Value::Object(_)) => generate(schema, root, depth - 1),
        _ => small_json(),
    };
    let keys = vec!["a", "b", "kind", "__v", "v", "x_y", "v__json", "a__json", "b__json", "b__json__json", "x_y__json"];
    let extras = vec((select(keys).prop_map(str::to_owned), extra), 0..3).boxed();
    entries_to_object(entries, extras)
}

fn entries_to_object(
    entries: Vec<BoxedStrategy<Option<(String, Value)>>>,
    extras: BoxedStrategy<Vec<(String, Value)>>,
) -> BoxedStrategy<Value> {
    (entries, extras)
        .prop_map(|(entries, extras)| {
            let mut out: Map<String, Value> = entries.into_iter().flatten().collect();
            for (key, value) in extras {
                out.entry(key).or_insert(value);
            }
            Value::Object(out)
        })
        .boxed()
}

fn merged(parts: Vec<BoxedStrategy<Value>>) -> BoxedStrategy<Value> {
    parts
        .prop_map(|parts| {
            let mut all = Map::new();
            for part in &parts {
                match part {
                    Value::Object(map) => all.extend(map.clone()),
                    other => return other.clone(),
                }
            }
            Value::Object(all)
        })
        .boxed()
}
