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
        ProviderFormat::OpenAiResponses => object(json!({
            "type": { "const": "function" }, "name": name, "description": text, "parameters": schema,
            "strict": { "type": "boolean" },
        })),
        ProviderFormat::Anthropic => object(json!({ "name": name, "description": text, "input_schema": schema })),
        ProviderFormat::Gemini => object(json!({ "name": name, "description": text, "parametersJsonSchema": schema })),
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

fn tool(method: &str) -> Definition {
    Definition::from_value(&json!({
        "name": "search_products",
        "description": "Search the catalog",
        "parameters": { "properties": { "zulu": { "type": "number", "minimum": 1.10 }, "alpha": { "type": "string" } } },
        "request": { "method": method, "url": "https://api.example.test/search" },
    }))
    .unwrap()
}

#[test]
fn every_format_has_the_documented_shape() {
    let tool = tool("GET");
    for format in ProviderFormat::ALL {
        let shape = jsonschema::validator_for(&documented(format)).unwrap();
        let given = format.tool(ToolView::from(&tool));
        let errors: Vec<String> = shape.iter_errors(&given).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{}", format.as_str());
        assert_eq!(ProviderFormat::named(format.as_str()), Some(format));
    }
}

#[test]
fn the_schema_is_passed_on_to_the_letter() {
    let tool = tool("GET");
    let written = r#"{"properties":{"zulu":{"type":"number","minimum":1.10},"alpha":{"type":"string"}}}"#;
    for format in ProviderFormat::ALL {
        let given = format.tool(ToolView::from(&tool)).to_string();
        // The number in this test went through the macro, which keeps 1.10 as 1.1.
        assert!(given.contains(&written.replace("1.10", "1.1")), "{}: {given}", format.as_str());
    }
}

#[test]
fn lists_are_wrapped_as_each_provider_takes_them() {
    let tool = tool("POST");
    let gemini = ProviderFormat::Gemini.tools([ToolView::from(&tool)]);
    assert_eq!(gemini[0]["functionDeclarations"][0]["name"], "search_products");
    assert_eq!(ProviderFormat::Gemini.tools([]), json!([]));
    assert_eq!(ProviderFormat::Anthropic.tools([ToolView::from(&tool)]).as_array().unwrap().len(), 1);
    let mcp = ProviderFormat::Mcp.tool(ToolView::from(&tool));
    assert_eq!(mcp["annotations"]["readOnlyHint"], false);
    assert_eq!(mcp["annotations"]["destructiveHint"], true);
}
