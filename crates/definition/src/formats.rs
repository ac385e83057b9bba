//! A definition as each provider wants it. The schema is passed on to the letter.

use serde_json::{Map, Value, json};

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
        // Moved in as it is: the macro would read its numbers anew, and 1E5 is not 1e+5 to the letter.
        let schema = Value::Object(parameters.schema().clone());
        let named = |key: &str, schema: Value| {
            let mut out = Map::new();
            out.insert("name".into(), name.as_str().into());
            out.insert("description".into(), description.into());
            out.insert(key.into(), schema);
            out
        };
        let wrapped = |key: &str, value: Value| Map::from_iter([(key.to_owned(), value)]);
        Value::Object(match self {
            ProviderFormat::OpenAiChat => {
                let mut out = wrapped("type", "function".into());
                out.insert("function".into(), Value::Object(named("parameters", schema)));
                out
            }
            ProviderFormat::OpenAiResponses => {
                let mut out = wrapped("type", "function".into());
                out.extend(named("parameters", schema));
                // This API takes a missing `strict` as true, which wants another schema than ours.
                out.insert("strict".into(), false.into());
                out
            }
            ProviderFormat::Anthropic => named("input_schema", schema),
            ProviderFormat::Gemini => named("parametersJsonSchema", schema),
            ProviderFormat::Bedrock => {
                let schema = Value::Object(wrapped("json", schema));
                wrapped("toolSpec", Value::Object(named("inputSchema", schema)))
            }
            ProviderFormat::Mcp => {
                let mut out = named("inputSchema", schema);
                let read_only = effect == EffectMode::Idempotent;
                let hints = json!({
                    "readOnlyHint": read_only,
                    "destructiveHint": !read_only,
                    "idempotentHint": read_only,
                    "openWorldHint": true,
                });
                out.insert("annotations".into(), hints);
                out
            }
        })
    }

    /// The value of the provider's `tools` for a list of tools.
    pub fn tools<'a>(self, tools: impl IntoIterator<Item = ToolView<'a>>) -> Value {
        let list: Vec<Value> = tools.into_iter().map(|tool| self.tool(tool)).collect();
        match self {
            ProviderFormat::Gemini if list.is_empty() => json!([]),
            ProviderFormat::Gemini => {
                Value::Array(vec![Value::Object(Map::from_iter([("functionDeclarations".to_owned(), list.into())]))])
            }
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
