//! The JSON Schema of a definition and of a manifest, for editors. The checker has the last word: a
//! schema can't say that a placeholder names a declared parameter.

use serde_json::{Map, Value, json};

use crate::definition::MAX_TIMEOUT;
use crate::name::MAX_NAME;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The JSON Schema (draft 2020-12) of a definition.
///
/// ```
/// let schema = toolcrib_definition::definition_schema();
/// assert_eq!(schema["required"][0], "name");
/// ```
pub fn definition_schema() -> Value {
    let mut properties = own_properties();
    properties.insert("request".into(), request_schema());
    json!({
        "$schema": DIALECT,
        "title": "Toolcrib definition",
        "type": "object",
        "properties": properties,
        "required": ["name", "description", "request"],
        "additionalProperties": false,
    })
}

/// The JSON Schema (draft 2020-12) of a manifest.
pub fn manifest_schema() -> Value {
    let mut tool = own_properties();
    tool.extend(request_properties());
    tool.insert("request".into(), json!({ "type": ["object", "null"], "properties": request_properties() }));
    tool.insert("endpoint".into(), text_or_null("What stands for {endpoint} in the path_template"));
    tool.insert("base_url".into(), text_or_null("The beginning of the URL"));
    tool.insert("path_template".into(), text_or_null("The path, with {endpoint} in it"));
    tool.insert("type".into(), json!({ "enum": ["function", null] }));
    tool.insert("function".into(), json!({ "type": ["object", "null"], "description": "An OpenAI function" }));
    tool.insert(
        "inputSchema".into(),
        json!({ "type": ["object", "null"], "description": "The schema of an MCP tool" }),
    );
    for ignored in ["title", "annotations", "outputSchema", "_meta", "icons", "execution", "strict"] {
        tool.insert(ignored.into(), json!({ "description": "Taken from an MCP tool and not used" }));
    }
    let mut defaults = request_properties();
    defaults.remove("url");
    for key in ["base_url", "path_template", "secret_headers", "response", "group", "tags", "timeout"] {
        if let Some(schema) = tool.get(key) {
            defaults.insert(key.into(), schema.clone());
        }
    }
    json!({
        "$schema": DIALECT,
        "title": "Toolcrib manifest",
        "type": "object",
        "properties": {
            "version": { "const": 1 },
            "defaults": { "type": ["object", "null"], "properties": defaults },
            "tools": { "type": ["array", "null"], "items": { "type": "object", "properties": tool } },
        },
        "additionalProperties": false,
    })
}

fn text_or_null(description: &str) -> Value {
    json!({ "type": ["string", "null"], "description": description })
}

/// Everything of a definition but its request.
fn own_properties() -> Map<String, Value> {
    let texts = json!({ "type": ["array", "string", "null"], "items": { "type": "string" } });
    let scalar = json!({ "type": ["string", "number", "boolean"] });
    let properties = json!({
        "name": { "type": "string", "pattern": "^[a-z][a-z0-9_]*$", "maxLength": MAX_NAME, "description": "The name the model calls" },
        "description": { "type": "string", "pattern": "\\S", "description": "What the model reads" },
        "parameters": {
            "description": "JSON Schema in the safe subset, or the flat list",
            "anyOf": [
                { "type": "object" },
                { "type": "null" },
                { "type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "name": { "type": "string" },
                        "type": { "enum": [
                            "string", "number", "integer", "boolean", "array:string", "array:number", "array:integer",
                            "array:boolean", null,
                        ] },
                        "required": { "type": ["boolean", "null"] },
                        "description": { "type": ["string", "null"] },
                    },
                    "required": ["name"],
                    "additionalProperties": false,
                } },
            ],
        },
        "response": {
            "type": ["object", "null"],
            "properties": {
                "extract": { "enum": ["body_raw", "status", "json_path", "evidence_envelope", "mcp_content", null] },
                "path": text_or_null("RFC 9535 when it starts with $, else dotted names"),
            },
            "additionalProperties": false,
        },
        "secret_headers": texts,
        "side_effect": { "type": ["boolean", "null"], "description": "Whether a call changes something outside" },
        "timeout": { "type": ["integer", "null"], "minimum": 1, "maximum": MAX_TIMEOUT, "description": "Seconds" },
        "group": text_or_null("The group, for allowlists"),
        "lowered_from": { "type": ["object", "null"], "description": "The JSON Schema that the parameters were lowered from: it checks the arguments" },
        "protocol": { "enum": ["http", "mcp", null], "description": "mcp: the call goes through the MCP client" },
        "mcp": {
            "type": ["object", "null"],
            "description": "The MCP tool that is called, as its server published it",
            "properties": {
                "server": { "type": "string" },
                "tool": { "type": "string" },
                "input_schema": { "type": ["object", "boolean"] },
                "output_schema": {},
                "annotations": {},
                "title": { "type": ["string", "null"] },
                "transport": { "enum": ["http", "sse", null] },
                "disabled": { "type": ["string", "null"] },
            },
            "required": ["server", "tool", "input_schema"],
            "additionalProperties": false,
        },
        "tags": texts,
        "halt_when": {
            "type": ["object", "null"],
            "properties": {
                "json_path": { "type": "string" },
                "equals": { "anyOf": [scalar, { "type": "array", "items": scalar, "minItems": 1 }] },
                "say": {
                    "type": ["object", "null"],
                    "properties": { "text": text_or_null("This text"), "json_path": text_or_null("The text at this path") },
                    "additionalProperties": false,
                },
            },
            "required": ["json_path", "equals"],
            "additionalProperties": false,
        },
        "evidence": {
            "anyOf": [
                { "type": ["string", "null"] },
                {
                    "type": "object",
                    "properties": {
                        "kind": { "type": "string" }, "items": text_or_null("items"), "attachments": text_or_null("attachments"),
                    },
                    "required": ["kind"],
                    "additionalProperties": false,
                },
            ],
        },
        "approval": {
            "anyOf": [
                { "enum": ["never", "always", "once", null] },
                { "type": "object", "properties": { "when": { "type": "string" } }, "required": ["when"], "additionalProperties": false },
            ],
        },
        "idempotency_key_header": text_or_null("The header that carries the stable key of the call"),
        "idempotency_key_life": {
            "type": ["integer", "null"], "minimum": 1, "maximum": 2_592_000,
            "description": "How long the upstream remembers that key, in seconds; a day when left out",
        },
        "not_performed_on": {
            "type": ["array", "null"], "items": { "type": "integer", "minimum": 300, "maximum": 599 },
            "description": "Statuses by which the upstream says that it did nothing",
        },
    });
    properties.as_object().cloned().unwrap_or_default()
}

fn request_properties() -> Map<String, Value> {
    let texts = json!({ "type": ["object", "null"], "additionalProperties": { "type": ["string", "number", "boolean", "null"] } });
    let properties = json!({
        "method": text_or_null("GET, HEAD, POST, PUT, PATCH or DELETE; GET when left out"),
        "url": text_or_null("http or https, with placeholders behind the host"),
        "headers": texts,
        "query": texts,
        "body": { "description": "A JSON value, or a text" },
    });
    properties.as_object().cloned().unwrap_or_default()
}

fn request_schema() -> Value {
    json!({
        "type": "object",
        "properties": request_properties(),
        "required": ["url"],
        "additionalProperties": false,
    })
}
