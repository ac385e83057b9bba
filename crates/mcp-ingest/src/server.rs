//! An MCP server as a row.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolcrib_definition::{Definition, Problem, ProblemCode, Problems};

use crate::endpoint::Transport;

/// The longest name of a server, and the longest prefix, in bytes: it begins the names of its tools.
pub const MAX_SERVER_NAME: usize = 32;

/// An MCP server whose tools are adopted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpServer {
    /// The name, which begins the names of its tools unless `prefix` is set.
    pub name: String,
    /// What begins the names of new tools instead of `<name>__`; empty for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Where it is.
    pub url: String,
    /// `http` or `sse`.
    #[serde(default)]
    pub transport: TransportName,
    /// Headers of every request, with secrets as `{{secret.*}}` and the context as `{{ctx.*}}`.
    #[serde(default)]
    pub headers: Map<String, Value>,
    /// Whether its tools may be used.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Whether changes wait until somebody accepts them.
    #[serde(default)]
    pub hold: bool,
    /// Whether a tool that calls itself read-only is believed; else each call may have an effect.
    #[serde(default)]
    pub trust_annotations: bool,
    /// The whole time of one call in seconds; none means the agent's limit.
    #[serde(default)]
    pub timeout: Option<u16>,
}

/// [`Transport`] as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransportName {
    /// Streamable HTTP.
    #[default]
    Http,
    /// HTTP with SSE.
    Sse,
}

impl From<TransportName> for Transport {
    fn from(name: TransportName) -> Self {
        match name {
            TransportName::Http => Transport::Http,
            TransportName::Sse => Transport::Sse,
        }
    }
}

fn yes() -> bool {
    true
}

impl McpServer {
    /// Reads a server.
    ///
    /// # Errors
    /// Every problem at once, with pointers into the row.
    pub fn from_value(value: &Value) -> Result<Self, Problems> {
        let one = |pointer: &str, message: String| {
            let pointer = pointer.to_owned();
            Problems::from_iter([Problem { pointer, code: ProblemCode::Protocol, message }])
        };
        if let Some(Value::String(_)) = value.get("command") {
            let message = "a server that is a command speaks over stdio, and Toolcrib starts no programs; run it \
                           behind a bridge that serves streamable HTTP, and give its url";
            return Err(one("/command", message.to_owned()));
        }
        let server: Self = serde_json::from_value(value.clone())
            .map_err(|error| one("", format!("this is no MCP server: {error}")))?;
        if !is_server_name(&server.name) {
            let message = format!(
                "{:?} is no name of a server: a lower-case letter, then a-z, 0-9, _ and -, at most {MAX_SERVER_NAME}",
                server.name
            );
            return Err(one("/name", message));
        }
        if let Some(prefix) = server.prefix.as_deref().filter(|prefix| !is_prefix(prefix)) {
            let message = format!(
                "{prefix:?} can't begin names of tools: a lower-case letter, then a-z, 0-9 and _, at most \
                 {MAX_SERVER_NAME}; or nothing, for the names as the server has them"
            );
            return Err(one("/prefix", message));
        }
        let ours = |name: &&String| {
            let name = name.to_ascii_lowercase();
            matches!(name.as_str(), "accept" | "content-type" | "last-event-id") || name.starts_with("mcp-")
        };
        if let Some(name) = server.headers.keys().find(ours) {
            return Err(one(
                &format!("/headers/{name}"),
                format!("the header {name} is the protocol's own; leave it out"),
            ));
        }
        // The rules of URL and headers are those of every tool.
        server.probe().map(|_| server).map_err(|problems| {
            let moved = problems.iter().map(|problem| {
                let pointer = match problem.pointer.strip_prefix("/request") {
                    Some(rest) => rest.to_owned(),
                    None if problem.pointer.starts_with("/secret_headers") => "/headers".to_owned(),
                    None => problem.pointer.clone(),
                };
                Problem { pointer, ..problem.clone() }
            });
            Problems::from_iter(moved.collect::<Vec<_>>())
        })
    }

    /// The stored form.
    pub fn to_json(&self) -> Value {
        json!(self)
    }

    /// What begins the names of its new tools.
    pub fn prefix(&self) -> String {
        self.prefix.clone().unwrap_or_else(|| format!("{}__", self.name.replace('-', "_")))
    }

    /// The group of its tools.
    pub fn group(&self) -> String {
        format!("mcp:{}", self.name)
    }

    /// A tool that the server need not have, to render the address and headers of requests to it.
    ///
    /// # Errors
    /// What is wrong with the URL or the headers.
    pub fn probe(&self) -> Result<Definition, Problems> {
        let tool = json!({ "name": "probe", "inputSchema": { "type": "object" } });
        Definition::from_value(&self.tool_value("probe", "The server itself", &tool, None))
    }

    /// The definition of a tool, as JSON.
    pub(crate) fn tool_value(&self, name: &str, description: &str, tool: &Value, parameters: Option<Value>) -> Value {
        let original = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let holds_secret =
            |value: &Value| value.as_str().is_some_and(|text| text.replace(' ', "").contains("{{secret."));
        let secrets: Vec<&String> =
            self.headers.iter().filter(|(_, v)| holds_secret(v)).map(|(name, _)| name).collect();
        let get = |key: &str| tool.get(key).filter(|value| !value.is_null()).cloned();
        let read_only = tool.pointer("/annotations/readOnlyHint") == Some(&Value::Bool(true));
        let mut mcp = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                mcp.insert(key.to_owned(), value);
            }
        };
        put("server", Some(self.name.as_str().into()));
        put("tool", Some(original.into()));
        put("input_schema", get("inputSchema"));
        put("output_schema", get("outputSchema"));
        put("annotations", get("annotations"));
        put("title", get("title").filter(Value::is_string));
        put("transport", (self.transport == TransportName::Sse).then(|| "sse".into()));
        put("disabled", (!self.enabled).then(|| "its server is disabled".into()));
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| out.insert(key.to_owned(), value);
        put("name", name.into());
        put("description", description.into());
        if let Some(parameters) = parameters {
            put("parameters", parameters);
        }
        let body = json!({
            "jsonrpc": "2.0",
            "method": "tools/call",
            "params": { "name": original, "arguments": "{{call.arguments}}" },
        });
        put("request", json!({ "method": "POST", "url": self.url, "headers": self.headers, "body": body }));
        put("response", json!({ "extract": "mcp_content" }));
        put("secret_headers", json!(secrets));
        put("side_effect", (!(self.trust_annotations && read_only)).into());
        put("timeout", json!(self.timeout));
        put("group", self.group().into());
        put("protocol", "mcp".into());
        put("mcp", Value::Object(mcp));
        Value::Object(out)
    }
}

/// Whether names of tools can begin with a text.
fn is_prefix(text: &str) -> bool {
    text.is_empty() || (is_server_name(text) && !text.contains('-'))
}

/// Whether a text can be the name of a server.
pub fn is_server_name(text: &str) -> bool {
    text.len() <= MAX_SERVER_NAME
        && text.starts_with(|ch: char| ch.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}
