//! Each provider's documented shape, as JSON Schema, holds for what we give it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use toolcrib_definition::{Definition, ProviderFormat, ToolView};

/// The documented shape of one tool of a provider.
fn documented(format: ProviderFormat) -> Value {
    let schema = json!({ "type": "object" });
    let name = json!({ "type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$" });
    let text = json!({ "type": "string", "minLength": 1 });
    let object = |properties: Value| {
        let required: Vec<String> = properties.as_object().unwrap().keys().cloned().collect();
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    };
    match format {
        ProviderFormat::OpenAiChat => object(json!({
            "type": { "const": "function" },
            "function": object(json!({ "name": name, "description": text, "parameters": schema })),
        })),
        ProviderFormat::OpenAiChatStrict => object(json!({
            "type": { "const": "function" },
            "function": object(json!({
                "name": name, "description": text, "parameters": strict_schema(), "strict": { "const": true },
            })),
        })),
        ProviderFormat::OpenAiResponses | ProviderFormat::OpenAiResponsesStrict => object(json!({
            "type": { "const": "function" }, "name": name, "description": text,
            "parameters": if format == ProviderFormat::OpenAiResponses { schema } else { strict_schema() },
            "strict": { "const": format == ProviderFormat::OpenAiResponsesStrict },
        })),
        ProviderFormat::Anthropic => object(json!({ "name": name, "description": text, "input_schema": schema })),
        ProviderFormat::Gemini => object(json!({ "name": name, "description": text, "parametersJsonSchema": schema })),
        ProviderFormat::GeminiParameters => {
            object(json!({ "name": name, "description": text, "parameters": gemini_schema() }))
        }
        ProviderFormat::Bedrock => object(json!({
            "toolSpec": object(json!({
                "name": name, "description": text, "inputSchema": object(json!({ "json": schema })),
            })),
        })),
        ProviderFormat::Mcp => object(json!({
            "name": { "type": "string", "pattern": "^[A-Za-z0-9_.-]{1,128}$" }, "description": text, "inputSchema": schema,
            "annotations": object(json!({
                "readOnlyHint": { "type": "boolean" }, "destructiveHint": { "type": "boolean" },
                "idempotentHint": { "type": "boolean" }, "openWorldHint": { "type": "boolean" },
            })),
        })),
    }
}

/// OpenAI's strict mode, at every level.
fn strict_schema() -> Value {
    json!({
        "type": "object", "required": ["type", "properties", "required", "additionalProperties"],
        "properties": {
            "type": { "const": "object" }, "additionalProperties": { "const": false },
            "properties": { "additionalProperties": { "properties": {
                "default": false, "minLength": false, "type": { "type": ["string", "array"] },
            } } },
        },
    })
}

/// The fields of Gemini's `Schema`, at every level.
fn gemini_schema() -> Value {
    json!({ "$ref": "#/$defs/schema", "$defs": { "schema": {
        "type": "object", "required": ["type"], "additionalProperties": false,
        "properties": {
            "type": { "enum": ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"] },
            "format": { "type": "string" }, "title": { "type": "string" }, "description": { "type": "string" },
            "enum": { "type": "array", "items": { "type": "string" } },
            "minItems": {}, "maxItems": {}, "minLength": {}, "maxLength": {}, "pattern": {}, "minimum": {}, "maximum": {},
            "required": { "type": "array" },
            "properties": { "additionalProperties": { "$ref": "#/$defs/schema" } },
            "items": { "$ref": "#/$defs/schema" },
        },
    } } })
}

fn tool(method: &str) -> Definition {
    Definition::from_value(&json!({
        "name": "search_products",
        "description": "Search the catalog",
        "parameters": { "properties": { "zulu": { "type": "number", "minimum": 1.10 }, "alpha": { "type": "string" } } },
        "request": { "method": method, "url": "https://api.example.test/search" },
    }))
    .unwrap()
}

/// The definitions of a schema inside, which references look for at the root.
fn find_definitions(value: &Value) -> Option<Value> {
    let map = value.as_object()?;
    map.get("$defs").cloned().or_else(|| map.values().find_map(find_definitions))
}

#[test]
fn every_format_has_the_documented_shape() {
    let tool = tool("GET");
    for format in ProviderFormat::ALL {
        let given = format.tool(ToolView::from(&tool)).unwrap();
        let mut shape_of = documented(format);
        if let Some(definitions) = find_definitions(&shape_of) {
            shape_of["$defs"] = definitions;
        }
        let shape = jsonschema::validator_for(&shape_of).unwrap();
        let errors: Vec<String> = shape.iter_errors(&given).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{}", format.as_str());
        assert_eq!(ProviderFormat::named(format.as_str()), Some(format));
    }
}

#[test]
fn the_schema_is_passed_on_to_the_letter() {
    let tool = tool("GET");
    let written = r#"{"properties":{"zulu":{"type":"number","minimum":1.10},"alpha":{"type":"string"}}}"#;
    let rewritten =
        [ProviderFormat::OpenAiChatStrict, ProviderFormat::OpenAiResponsesStrict, ProviderFormat::GeminiParameters];
    for format in ProviderFormat::ALL.into_iter().filter(|format| !rewritten.contains(format)) {
        let given = format.tool(ToolView::from(&tool)).unwrap().to_string();
        // The number in this test went through the macro, which keeps 1.10 as 1.1.
        assert!(given.contains(&written.replace("1.10", "1.1")), "{}: {given}", format.as_str());
    }
}

#[test]
fn lists_are_wrapped_as_each_provider_takes_them() {
    let tool = tool("POST");
    let gemini = ProviderFormat::Gemini.tools([ToolView::from(&tool)]).tools;
    assert_eq!(gemini[0]["functionDeclarations"][0]["name"], "search_products");
    assert_eq!(ProviderFormat::Gemini.tools([]).tools, json!([]));
    assert_eq!(ProviderFormat::Anthropic.tools([ToolView::from(&tool)]).tools.as_array().unwrap().len(), 1);
    let mcp = ProviderFormat::Mcp.tool(ToolView::from(&tool)).unwrap();
    assert_eq!(mcp["annotations"]["readOnlyHint"], false);
    assert_eq!(mcp["annotations"]["destructiveHint"], true);
}

#[test]
fn a_tool_that_a_provider_refuses_does_not_spoil_the_list() {
    let good = tool("GET");
    let nested = |properties: Value| {
        let parameters =
            json!({ "type": "object", "properties": { "o": { "type": "object", "properties": properties } } });
        let url = "https://api.example.test/x";
        let request = json!({ "method": "POST", "url": url, "body": { "o": "{{o}}" } });
        let tool = json!({ "name": "other", "description": "O", "parameters": parameters, "request": request });
        Definition::from_value(&tool).unwrap()
    };
    let (odd, free) = (nested(json!({ "a b": { "type": "string" } })), nested(json!({})));
    for (format, bad) in [(ProviderFormat::Anthropic, &odd), (ProviderFormat::OpenAiChatStrict, &free)] {
        let list = format.tools([ToolView::from(bad), ToolView::from(&good)]);
        assert_eq!(list.tools.as_array().unwrap().len(), 1, "{list:?}");
        assert_eq!(list.left_out[0].tool, "other");
    }
}

#[test]
fn strict_mode_lets_null_stand_for_what_is_left_out() {
    let parameters = json!({ "type": "object", "properties": {
        "must": { "type": "string", "minLength": 2 }, "may": { "type": "integer" }, "one": { "type": "string", "enum": ["a"] },
    }, "required": ["must"] });
    let request = json!({ "url": "https://api.example.test/x", "query": { "q": "{{must}}{{may}}{{one}}" } });
    let tool = json!({ "name": "t", "description": "T", "parameters": parameters, "request": request });
    let tool = Definition::from_value(&tool).unwrap();
    let strict = ProviderFormat::OpenAiResponsesStrict.tool(ToolView::from(&tool)).unwrap();
    assert_eq!(strict["parameters"]["required"], json!(["must", "may", "one"]));
    assert_eq!(strict["parameters"]["properties"]["may"]["type"], json!(["integer", "null"]));
    assert_eq!(strict["parameters"]["properties"]["one"]["enum"], json!(["a", null]));
    let sent = json!({ "must": "xy", "may": null, "one": null });
    tool.parameters.check(sent.as_object().unwrap()).unwrap();
}
