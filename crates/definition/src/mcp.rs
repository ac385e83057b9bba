//! What a definition keeps of the MCP tool that it calls.

use serde_json::{Map, Value, json};

use crate::body::BodyTemplate;
use crate::fields::Fields;
use crate::problem::{ProblemCode, Problems};
use crate::request::{Method, Request};

/// The MCP tool behind a data tool. Its call goes through an MCP client, and its arguments are checked
/// against the schema that the server published.
#[derive(Debug, Clone, PartialEq)]
pub struct McpTool {
    /// The name of the server's row.
    pub server: String,
    /// The name that the server gives the tool.
    pub tool: String,
    /// The `inputSchema` as the server published it.
    pub input_schema: Value,
    /// The `outputSchema`, if there is one.
    pub output_schema: Option<Value>,
    /// The `annotations`, if there are any. A server may say anything of itself: nothing trusts them.
    pub annotations: Option<Value>,
    /// The title for people, if there is one.
    pub title: Option<String>,
    /// Whether the server speaks only the older HTTP with SSE.
    pub sse: bool,
    /// Why the tool can't be used now, such as that its server no longer has it. It stays, so that a rule
    /// about it stays too.
    pub disabled: Option<String>,
}

impl McpTool {
    /// Reads `protocol` and `mcp`, which go together. `Ok(None)` is a tool over plain HTTP.
    pub(crate) fn read(fields: &Fields<'_>, problems: &mut Problems) -> Result<Option<Self>, ()> {
        let before = problems.len();
        let protocol = fields.text("protocol", problems);
        if problems.len() > before {
            return Err(());
        }
        let mut wrong = |key: &str, message: &str| {
            problems.add(fields.at(key), ProblemCode::Protocol, message);
            Err(())
        };
        let mcp = match (protocol.unwrap_or("http"), fields.get("mcp")) {
            ("http", None) => return Ok(None),
            ("mcp", Some(mcp)) => mcp,
            ("mcp", None) => return wrong("mcp", "protocol mcp needs mcp: {server, tool, input_schema}"),
            ("http", Some(_)) => return wrong("protocol", "a tool with mcp has the protocol \"mcp\""),
            _ => return wrong("protocol", "the protocol is \"http\" or \"mcp\""),
        };
        let known =
            ["server", "tool", "input_schema", "output_schema", "annotations", "title", "transport", "disabled"];
        let mcp = Fields::read(mcp, &fields.at("mcp"), "mcp", &known, problems).ok_or(())?;
        let mut name = |key: &str| match mcp.text(key, problems) {
            // A name is a text in a body, where braces would be a placeholder.
            Some(text) if !text.is_empty() && !text.contains("{{") => Some(text.to_owned()),
            _ => {
                problems.add(mcp.at(key), ProblemCode::Protocol, format!("mcp.{key} is a name"));
                None
            }
        };
        let (server, tool) = (name("server"), name("tool"));
        let input_schema = mcp.get("input_schema").filter(|schema| schema.is_object() || schema.is_boolean()).cloned();
        if input_schema.is_none() {
            let message = "mcp.input_schema is the JSON Schema that the server published";
            problems.add(mcp.at("input_schema"), ProblemCode::Protocol, message);
        }
        let title = mcp.text("title", problems).map(str::to_owned);
        let disabled = mcp.text("disabled", problems).map(str::to_owned);
        let transport = mcp.text("transport", problems).unwrap_or("http");
        if !matches!(transport, "http" | "sse") {
            problems.add(mcp.at("transport"), ProblemCode::Protocol, "the transport is \"http\" or \"sse\"");
        }
        Ok(Some(Self {
            server: server.ok_or(())?,
            tool: tool.ok_or(())?,
            input_schema: input_schema.ok_or(())?,
            output_schema: mcp.get("output_schema").cloned(),
            annotations: mcp.get("annotations").cloned(),
            title,
            sse: transport == "sse",
            disabled,
        }))
    }

    /// Checks that the request is a `tools/call` of this tool.
    pub(crate) fn check_request(&self, request: &Request, problems: &mut Problems) {
        if request.method != Method::Post {
            let message = "a call of an MCP tool is a POST";
            problems.add("/request/method", ProblemCode::Protocol, message);
        }
        if request.body.as_ref().map(BodyTemplate::written) != Some(&self.call_body()) {
            let message = format!("the body of an MCP tool is {}", self.call_body());
            problems.add("/request/body", ProblemCode::Protocol, message);
        }
    }

    /// The body of a call, without the id that the client gives it.
    pub fn call_body(&self) -> Value {
        json!({
            "jsonrpc": "2.0",
            "method": "tools/call",
            "params": { "name": self.tool, "arguments": "{{call.arguments}}" },
        })
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut out = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                out.insert(key.to_owned(), value);
            }
        };
        put("server", Some(self.server.as_str().into()));
        put("tool", Some(self.tool.as_str().into()));
        put("input_schema", Some(self.input_schema.clone()));
        put("output_schema", self.output_schema.clone());
        put("annotations", self.annotations.clone());
        put("title", self.title.clone().map(Value::from));
        put("transport", self.sse.then(|| "sse".into()));
        put("disabled", self.disabled.clone().map(Value::from));
        Value::Object(out)
    }
}
