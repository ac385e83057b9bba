//! What a draft would be: what each provider is told, and the request of a sample call.

use maud::{Markup, html};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use toolcrib_definition::{Ctx, Definition, PathParam, ProviderFormat, RenderInput, Secrets, ToolView};

use crate::shown::{block, pretty, shown};

/// The formats that are shown, by the names that people know.
const SHOWN: [(ProviderFormat, &str); 4] = [
    (ProviderFormat::OpenAiChat, "OpenAI"),
    (ProviderFormat::Anthropic, "Anthropic"),
    (ProviderFormat::Gemini, "Gemini"),
    (ProviderFormat::Mcp, "MCP"),
];

/// Stands for every secret; nothing shows it.
struct AnySecret;

impl Secrets for AnySecret {
    fn secret(&self, _name: &str) -> Option<SecretString> {
        Some(SecretString::from("secret"))
    }
}

pub(crate) fn preview(definition: &Definition) -> Markup {
    html! {
        h2 { "What it would be" }
        (request(definition))
        @for (format, name) in SHOWN {
            details {
                summary { "What a model reads by " (name) }
                @match format.tool(ToolView::from(definition)) {
                    Ok(tool) => pre tabindex="0" { code { (pretty(&tool)) } },
                    Err(reason) => p.status.bad { (name) " would refuse it: " (shown(&reason)) },
                }
            }
        }
    }
}

/// The request of a call with sample arguments.
fn request(definition: &Definition) -> Markup {
    let arguments = sample(&Value::Object(definition.parameters.schema().clone()));
    let arguments = definition.parameters.restore(arguments.as_object().cloned().unwrap_or_default());
    let input = RenderInput {
        arguments: &arguments,
        ctx: &Ctx::default(),
        call_id: "call_sample",
        key: "call_sample",
        secrets: &AnySecret,
        path_param: PathParam::Encode,
    };
    html! {
        @match definition.render(input) {
            Ok(request) => {
                @let head = request.headers.iter().map(|header| format!("{}: {}\n", header.name, header.masked)).collect::<String>();
                @let text = format!("{} {}\n{head}\n{}", request.method, request.url, request.body.as_deref().unwrap_or_default());
                (block("The request, with sample arguments and masked secrets", &text.trim_end().into()))
            }
            Err(error) => p.hint { "With sample arguments there is no request: " (shown(&error.to_string())) },
        }
    }
}

/// A value that a schema takes, as far as that can be seen.
fn sample(schema: &Value) -> Value {
    let first = |key: &str| schema.get(key).and_then(|list| list.get(0)).cloned();
    let known = first("examples").or_else(|| schema.get("default").cloned()).or_else(|| first("enum"));
    if let Some(value) = known.or_else(|| schema.get("const").cloned()) {
        return value;
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") | None if schema.get("properties").is_some() => {
            let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            Value::Object(properties.map(|(name, schema)| (name.clone(), sample(schema))).collect::<Map<_, _>>())
        }
        Some("object") => json!({}),
        Some("array") => json!([sample(schema.get("items").unwrap_or(&Value::Null))]),
        Some("number" | "integer") => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("boolean") => true.into(),
        _ => "sample".into(),
    }
}
