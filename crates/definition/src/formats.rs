//! A definition as each provider wants it. The schema is passed on to the letter where the provider takes
//! JSON Schema, and rewritten for the two forms that take less of it.

mod gemini;
mod strict;

use serde_json::{Map, Value, json};

use crate::definition::Definition;
use crate::effect::EffectMode;
use crate::name::ToolName;
use crate::parameters::Parameters;

/// A format in which agents' runtimes take tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderFormat {
    /// OpenAI Chat Completions: an element of `tools`.
    OpenAiChat,
    /// OpenAI Chat Completions with `strict`: every property is required, and null stands for none.
    OpenAiChatStrict,
    /// OpenAI Responses: an element of `tools`, not strict.
    OpenAiResponses,
    /// OpenAI Responses with `strict`.
    OpenAiResponsesStrict,
    /// Anthropic Messages: an element of `tools`.
    Anthropic,
    /// Gemini: a function declaration with `parametersJsonSchema`.
    Gemini,
    /// Gemini: a function declaration with `parameters`, its own dialect of OpenAPI 3.0.
    GeminiParameters,
    /// Bedrock Converse: an element of `toolConfig.tools`.
    Bedrock,
    /// MCP: an element of the `tools/list` result.
    Mcp,
}

impl ProviderFormat {
    /// Every format.
    pub const ALL: [ProviderFormat; 9] = [
        ProviderFormat::OpenAiChat,
        ProviderFormat::OpenAiChatStrict,
        ProviderFormat::OpenAiResponses,
        ProviderFormat::OpenAiResponsesStrict,
        ProviderFormat::Anthropic,
        ProviderFormat::Gemini,
        ProviderFormat::GeminiParameters,
        ProviderFormat::Bedrock,
        ProviderFormat::Mcp,
    ];

    /// The name in `?format=`.
    pub fn as_str(self) -> &'static str {
        match self {
            ProviderFormat::OpenAiChat => "openai",
            ProviderFormat::OpenAiChatStrict => "openai-strict",
            ProviderFormat::OpenAiResponses => "openai-responses",
            ProviderFormat::OpenAiResponsesStrict => "openai-responses-strict",
            ProviderFormat::Anthropic => "anthropic",
            ProviderFormat::Gemini => "gemini",
            ProviderFormat::GeminiParameters => "gemini-parameters",
            ProviderFormat::Bedrock => "bedrock",
            ProviderFormat::Mcp => "mcp",
        }
    }

    /// The format with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// One tool in this format.
    ///
    /// # Errors
    /// Why the provider would refuse it, and with it perhaps the whole list.
    pub fn tool(self, tool: ToolView<'_>) -> Result<Value, String> {
        let ToolView { name, description, parameters, effect } = tool;
        // Moved in as it is: the macro would read its numbers anew, and 1E5 is not 1e+5 to the letter.
        let schema = Value::Object(match self {
            ProviderFormat::OpenAiChatStrict | ProviderFormat::OpenAiResponsesStrict => {
                strict::schema(parameters.schema())?
            }
            ProviderFormat::GeminiParameters => gemini::schema(parameters.schema()),
            ProviderFormat::Anthropic => {
                check_property_names(parameters.schema())?;
                parameters.schema().clone()
            }
            _ => parameters.schema().clone(),
        });
        let named = |key: &str, schema: Value| {
            let mut out = Map::new();
            out.insert("name".into(), name.as_str().into());
            out.insert("description".into(), description.into());
            out.insert(key.into(), schema);
            out
        };
        let wrapped = |key: &str, value: Value| Map::from_iter([(key.to_owned(), value)]);
        Ok(Value::Object(match self {
            ProviderFormat::OpenAiChat | ProviderFormat::OpenAiChatStrict => {
                let mut out = wrapped("type", "function".into());
                let mut function = named("parameters", schema);
                if self == ProviderFormat::OpenAiChatStrict {
                    function.insert("strict".into(), true.into());
                }
                out.insert("function".into(), Value::Object(function));
                out
            }
            ProviderFormat::OpenAiResponses | ProviderFormat::OpenAiResponsesStrict => {
                let mut out = wrapped("type", "function".into());
                out.extend(named("parameters", schema));
                // This API takes a missing `strict` as true, which wants another schema than ours.
                out.insert("strict".into(), (self == ProviderFormat::OpenAiResponsesStrict).into());
                out
            }
            ProviderFormat::Anthropic => named("input_schema", schema),
            ProviderFormat::Gemini => named("parametersJsonSchema", schema),
            ProviderFormat::GeminiParameters => named("parameters", schema),
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
        }))
    }

    /// The value of the provider's `tools` for a list of tools. One that the provider would refuse is left
    /// out, since some refuse the whole list for it.
    pub fn tools<'a>(self, tools: impl IntoIterator<Item = ToolView<'a>>) -> ToolList {
        let mut list = Vec::new();
        let mut left_out = Vec::new();
        for tool in tools {
            match self.tool(tool) {
                Ok(value) => list.push(value),
                Err(reason) => left_out.push(LeftOut { tool: tool.name.to_string(), reason }),
            }
        }
        let tools = match self {
            ProviderFormat::Gemini | ProviderFormat::GeminiParameters if list.is_empty() => json!([]),
            ProviderFormat::Gemini | ProviderFormat::GeminiParameters => {
                Value::Array(vec![Value::Object(Map::from_iter([("functionDeclarations".to_owned(), list.into())]))])
            }
            _ => Value::Array(list),
        };
        ToolList { tools, left_out }
    }
}

/// A list of tools for a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolList {
    /// The value of the provider's `tools`.
    pub tools: Value,
    /// The tools that are not in it.
    pub left_out: Vec<LeftOut>,
}

/// A tool that a provider would refuse.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    /// Its name.
    pub tool: String,
    /// Why.
    pub reason: String,
}

/// The names of properties that Anthropic takes, at any depth.
fn check_property_names(schema: &Map<String, Value>) -> Result<(), String> {
    let fits = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '_' | '.' | '-');
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if !(1..=64).contains(&name.len()) || !name.chars().all(fits) {
            return Err(format!("the property {name:?} has a name other than 1 to 64 letters, digits, _, . and -"));
        }
        property.as_object().map_or(Ok(()), check_property_names)?;
    }
    schema.get("items").and_then(Value::as_object).map_or(Ok(()), check_property_names)
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
