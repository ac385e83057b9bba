//! Lowering: a table of cases for each construct, and the property that nothing is lost.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod lowering {
    pub mod cases;
    pub mod schemas;
}

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolcrib_definition::lowering::lower;
use toolcrib_definition::{Parameters, ProblemCode};

use crate::lowering::cases::CASES;
use crate::lowering::schemas::{instance_of, schema};

fn parse(text: &str) -> Value {
    toolcrib_definition::json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn accepts(schema: &Value, value: &Value) -> bool {
    jsonschema::options().build(schema).is_ok_and(|validator| validator.is_valid(value))
}

/// Null properties count as absent, in arguments of every tool.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// The whole promise, for one schema and one instance that it accepts.
fn check(original: &Value, instance: &Map<String, Value>) {
    let lowered = lower(original);
    let parameters = Value::Object(lowered.parameters().clone());
    let encoded = lowered.encode(instance);
    let shown = || format!("original {original}\nlowered {parameters}\ninstance {instance:?}\nencoded {encoded:?}");
    assert!(accepts(&parameters, &without_nulls(&Value::Object(encoded.clone()))), "not accepted: {}", shown());
    assert_eq!(&lowered.restore(&encoded), instance, "not restored: {}", shown());
}

/// The lowered schema is in the safe subset, but for the names of properties.
fn check_subset(original: &Value) {
    let parameters = Value::Object(lower(original).parameters().clone());
    if let Err(problems) = Parameters::from_schema(&parameters) {
        let wrong = problems.iter().find(|problem| problem.code != ProblemCode::SchemaName);
        assert!(wrong.is_none(), "{wrong:?} in {parameters} of {original}");
    }
}

#[test]
fn each_construct_has_its_lowered_form() {
    for case in CASES {
        let original = parse(case.original);
        check_subset(&original);
        let lowered = lower(&original);
        let parameters = Value::Object(lowered.parameters().clone());
        let mut wanted = parse(case.lowered);
        if wanted.get("type").is_none() {
            wanted = json!({ "type": "object", "properties": wanted });
        }
        assert_eq!(parameters, wanted, "{}: {parameters}", case.name);
        let kinds: Vec<Value> = lowered.steps().iter().map(|step| serde_json::to_value(step.kind).unwrap()).collect();
        for kind in case.steps {
            assert!(kinds.iter().any(|known| known == kind), "{}: {kind} is not in {kinds:?}", case.name);
        }
        for (sent, restored) in case.restores {
            let (sent, restored) = (parse(sent), parse(restored));
            let got = lowered.restore(sent.as_object().unwrap());
            assert_eq!(Value::Object(got), restored, "{}: {sent}", case.name);
            if accepts(&original, &restored) {
                check(&original, restored.as_object().unwrap());
            }
        }
    }
}

#[test]
fn a_reference_to_the_network_is_never_fetched_and_a_bomb_is_bounded() {
    let network = json!({ "type": "object", "properties": { "a": { "$ref": "http://127.0.0.1:9/schema.json" } } });
    let lowered = lower(&network);
    assert_eq!(lowered.parameters()["properties"]["a"]["type"], "string");

    let mut definitions = Map::new();
    for level in 0..64 {
        let below = json!({ "$ref": format!("#/$defs/l{}", level + 1) });
        let both = json!({ "type": "object", "properties": { "a": below, "b": below } });
        definitions.insert(format!("l{level}"), both);
    }
    let bomb = json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/l0" } }, "$defs": definitions });
    let text = Value::Object(lower(&bomb).parameters().clone()).to_string();
    assert!(text.len() < 8 << 20, "{}", text.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn what_the_original_accepts_comes_back_exactly((original, instance) in schema().prop_flat_map(|original| {
        let instance = instance_of(&original);
        (Just(original), instance)
    })) {
        prop_assume!(accepts(&original, &instance));
        check(&original, instance.as_object().unwrap());
    }

    #[test]
    fn what_is_lowered_is_in_the_safe_subset(original in schema()) {
        check_subset(&original);
    }

    #[test]
    fn any_json_is_lowered_without_a_panic(text in "[\\[\\]{}\":,$a-z0-9/#]{0,80}") {
        if let Ok(value) = toolcrib_definition::json::parse(text.as_bytes()) {
            check_subset(&value);
        }
    }
}

fn mcp_tool(input_schema: &Value) -> toolcrib_definition::Definition {
    let tool = json!({
        "name": "files__move", "description": "Move a file", "protocol": "mcp",
        "mcp": { "server": "files", "tool": "move", "input_schema": input_schema },
        "request": { "method": "POST", "url": "https://mcp.example.test/mcp", "body": {
            "jsonrpc": "2.0", "method": "tools/call",
            "params": { "name": "move", "arguments": "{{call.arguments}}" },
        } },
        "response": { "extract": "mcp_content" },
    });
    toolcrib_definition::Definition::from_value(&tool).unwrap()
}

#[test]
fn a_call_is_judged_by_the_original_in_words_that_mend_it() {
    let tool = mcp_tool(&json!({
        "type": "object", "required": ["$from"],
        "properties": {
            "$from": { "type": "string" },
            "how": { "oneOf": [
                { "type": "object", "properties": { "kind": { "const": "copy" }, "times": { "type": "integer" } }, "required": ["kind"], "additionalProperties": false },
                { "type": "object", "properties": { "kind": { "const": "link" } }, "required": ["kind"], "additionalProperties": false },
            ] },
            "retries": { "type": "integer" },
        },
    }));
    let check = |sent: Value| {
        let restored = tool.parameters.restore(sent.as_object().unwrap().clone());
        tool.parameters.check(&restored).map(|()| Value::Object(restored)).map_err(|error| error.to_string())
    };
    assert_eq!(check(json!({ "from": "a" })).unwrap(), json!({ "$from": "a" }));
    assert_eq!(check(json!({ "from": "a", "retries": null })).unwrap(), json!({ "$from": "a" }));
    assert_eq!(check(json!({})).unwrap_err(), "invalid arguments: $from: missing (required)");
    let wrong = check(json!({ "from": "a", "how": { "kind": "copy", "times": "x" } })).unwrap_err();
    assert_eq!(wrong, "invalid arguments: how.times: expected integer, got a string");
    // What is stored reads as the same tool.
    let again = toolcrib_definition::Definition::from_value(&tool.to_json()).unwrap();
    assert_eq!(again, tool);
}

#[test]
fn a_schema_that_multiplies_itself_costs_no_more_than_its_bounds() {
    let mut definitions = Map::from_iter([("a0".to_owned(), json!({ "type": "string" }))]);
    for level in 1..46 {
        let below = json!({ "$ref": format!("#/$defs/a{}", level - 1) });
        definitions.insert(format!("a{level}"), json!({ "allOf": [below, below] }));
    }
    let doubled = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/a45" } }, "$defs": definitions });
    assert!(!toolcrib_definition::lowering::compiles(&doubled), "it is left to the server to judge");
    lower(&doubled);

    let values: Vec<u32> = (0..45_000).collect();
    let listed = |i: u32| (format!("p{i}"), json!({ "$ref": "#/$defs/e" }));
    let properties: Map<String, Value> = (0..4_900).map(listed).collect();
    let copied = json!({ "type": "object", "properties": properties, "$defs": { "e": { "enum": values } } });
    let text = Value::Object(lower(&copied).parameters().clone()).to_string();
    assert!(text.len() < 4 << 20, "{}", text.len());

    let odd: Map<String, Value> = (0..8_000).map(|i| ("ä".repeat(i % 40 + 1) + &i.to_string(), json!({}))).collect();
    let names: Map<String, Value> =
        (0..4_000_u32).map(|i| (char::from_u32(0x4e00 + i).unwrap().to_string(), json!({}))).collect();
    for properties in [odd, names] {
        let count = properties.len();
        let lowered = lower(&json!({ "type": "object", "properties": properties }));
        assert_eq!(lowered.parameters()["properties"].as_object().unwrap().len(), count);
    }
}
