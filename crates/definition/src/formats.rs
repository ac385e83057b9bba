//! A definition as each provider wants it. The schema is passed on to the letter.

use serde_json::{Value, json};

use crate::definition::{Definition, EffectMode};
use crate::name::ToolName;
use crate::parameters::Parameters;

/// A format in which agents' runtimes take tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderFormat {
    /// OpenAI Chat Completions: an element of `tools`.
    OpenAiChat,
    /// OpenAI Responses: an element of `tools`, not strict.
    OpenAiResponses,
    /// Anthropic Messages: an element of `tools`.
    Anthropic,
    /// Gemini: a function declaration with `parametersJsonSchema`.
    Gemini,
    /// Bedrock Converse: an element of `toolConfig.tools`.
    Bedrock,
    /// MCP: an element of the `tools/list` result.
    Mcp,
}

impl ProviderFormat {
    /// Every format.
    pub const ALL: [ProviderFormat; 6] = [
        ProviderFormat::OpenAiChat,
        ProviderFormat::OpenAiResponses,
        ProviderFormat::Anthropic,
        ProviderFormat::Gemini,
        ProviderFormat::Bedrock,
        ProviderFormat::Mcp,
    ];

    /// The name in `?format=`.
    pub fn as_str(self) -> &'static str {
        match self {
            ProviderFormat::OpenAiChat => "openai",
            ProviderFormat::OpenAiResponses => "openai-responses",
            ProviderFormat::Anthropic => "anthropic",
            ProviderFormat::Gemini => "gemini",
            ProviderFormat::Bedrock => "bedrock",
            ProviderFormat::Mcp => "mcp",
        }
    }

    /// The format with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// One tool in this format.
    pub fn tool(self, tool: ToolView<'_>) -> Value {
        let ToolView { name, description, parameters, effect } = tool;
        let schema = parameters.schema();
        match self {
            ProviderFormat::OpenAiChat => json!({
                "type": "function",
                "function": { "name": name.as_str(), "description": description, "parameters": schema },
            }),
            // This API takes a missing `strict` as true, which wants another schema than ours.
            ProviderFormat::OpenAiResponses => json!({
                "type": "function",
                "name": name.as_str(),
                "description": description,
                "parameters": schema,
                "strict": false,
            }),
            ProviderFormat::Anthropic => json!({
                "name": name.as_str(), "description": description, "input_schema": schema,
            }),
            ProviderFormat::Gemini => json!({
                "name": name.as_str(), "description": description, "parametersJsonSchema": schema,
            }),
            ProviderFormat::Bedrock => json!({
                "toolSpec": {
                    "name": name.as_str(), "description": description, "inputSchema": { "json": schema },
                },
            }),
            ProviderFormat::Mcp => json!({
                "name": name.as_str(),
                "description": description,
                "inputSchema": schema,
                "annotations": {
                    "readOnlyHint": effect == EffectMode::Idempotent,
                    "destructiveHint": effect != EffectMode::Idempotent,
                    "idempotentHint": effect == EffectMode::Idempotent,
                    "openWorldHint": true,
                },
            }),
        }
    }

    /// The value of the provider's `tools` for a list of tools.
    pub fn tools<'a>(self, tools: impl IntoIterator<Item = ToolView<'a>>) -> Value {
        let list: Vec<Value> = tools.into_iter().map(|tool| self.tool(tool)).collect();
        match self {
            ProviderFormat::Gemini if list.is_empty() => json!([]),
            ProviderFormat::Gemini => json!([{ "functionDeclarations": list }]),
            _ => Value::Array(list),
        }
    }
}

/// What a provider is told of a tool, whether it is data or code.
#[derive(Debug, Clone, Copy)]
pub struct ToolView<'a> {
    /// The name.
    pub name: &'a ToolName,
    /// What the model reads.
    pub description: &'a str,
    /// The arguments.
    pub parameters: &'a Parameters,
    /// What a crash may do to a call.
    pub effect: EffectMode,
}

impl<'a> From<&'a Definition> for ToolView<'a> {
    fn from(definition: &'a Definition) -> Self {
        Self {
            name: &definition.name,
            description: &definition.description,
            parameters: &definition.parameters,
            effect: definition.effect(),
        }
    }
}
