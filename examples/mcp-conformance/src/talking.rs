//! Code tools that tell their caller things, and ask it things.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use toolcrib_definition::Definition;
use toolcrib_registry::{Ask, CallContext, CodeTool, CodeToolError, LogLevel, Registry, RegistryBuilder};
use toolcrib_store::Expect;

/// No arguments.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
pub struct Nothing {}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
pub struct Prompt {
    /// The prompt to send to the LLM
    pub prompt: String,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
pub struct Message {
    /// The message to show the user
    pub message: String,
}

const STEP: Duration = Duration::from_millis(50);

fn text(text: impl Into<String>) -> Value {
    json!({ "content": [{ "type": "text", "text": text.into() }] })
}

fn elicitation(message: &str, properties: Value, required: Value) -> Ask {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    Ask::Elicitation(json!({ "message": message, "requestedSchema": schema }))
}

fn sampling(prompt: &str) -> Ask {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    Ask::Sampling(json!({ "messages": [message], "maxTokens": 100 }))
}

async fn ask(context: &CallContext, key: &str, ask: Ask) -> Result<Value, CodeToolError> {
    let mut answers = context.client.ask(vec![(key.to_owned(), ask)]).await?;
    Ok(answers.pop().unwrap_or_default())
}

/// A tool without arguments that is one function of its context.
macro_rules! tool {
    ($type:ident, $name:literal, $description:literal, $arguments:ty, |$given:pat_param, $context:ident| $body:block) => {
        struct $type;

        #[async_trait]
        impl CodeTool for $type {
            type Arguments = $arguments;
            const NAME: &'static str = $name;
            const DESCRIPTION: &'static str = $description;

            async fn call(&self, $given: $arguments, $context: &CallContext) -> Result<Value, CodeToolError> $body
        }
    };
}

tool!(WithProgress, "test_tool_with_progress", "Tells how far it is", Nothing, |_, context| {
    for progress in [0.0, 50.0, 100.0] {
        context.client.progress(progress, Some(100.0), None);
        tokio::time::sleep(STEP).await;
    }
    Ok(text("done"))
});

tool!(WithLogging, "test_tool_with_logging", "Logs what it does", Nothing, |_, context| {
    for words in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        context.client.log(LogLevel::Info, "test_tool_with_logging", words.into());
        tokio::time::sleep(STEP).await;
    }
    Ok(text("logged"))
});

tool!(Logging, "test_logging_tool", "Logs once, if anybody listens", Nothing, |_, context| {
    context.client.log(LogLevel::Info, "test_logging_tool", "logged".into());
    Ok(text("logged"))
});

tool!(Sampling, "test_sampling", "Asks the caller's model", Prompt, |Prompt { prompt }, context| {
    let answer = ask(context, "completion", sampling(&prompt)).await?;
    Ok(text(format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or("none"))))
});

tool!(MissingCapability, "test_missing_capability", "Needs a caller with a model", Nothing, |_, context| {
    ask(context, "completion", sampling("Anything")).await.map(|_| text("sampled"))
});

tool!(Elicitation, "test_elicitation", "Asks the person", Message, |Message { message }, context| {
    let properties = json!({
        "username": { "type": "string", "description": "User's response" },
        "email": { "type": "string", "description": "User's email address" },
    });
    let answer = ask(context, "user", elicitation(&message, properties, json!(["username", "email"]))).await?;
    Ok(text(format!("User response: {answer}")))
});

tool!(StreamingElicitation, "test_streaming_elicitation", "Asks the person on the way", Nothing, |_, context| {
    let properties = json!({ "ok": { "type": "boolean" } });
    ask(context, "confirm", elicitation("Go on?", properties, json!(["ok"]))).await.map(|_| text("went on"))
});

tool!(Defaults, "test_elicitation_sep1034_defaults", "Asks with defaults", Nothing, |_, context| {
    let properties = json!({
        "name": { "type": "string", "description": "User name", "default": "John Doe" },
        "age": { "type": "integer", "description": "User age", "default": 30 },
        "score": { "type": "number", "description": "User score", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "description": "Verification status", "default": true },
    });
    let answer = ask(context, "user", elicitation("Please review", properties, json!([]))).await?;
    Ok(text(format!("Elicitation completed: {answer}")))
});

tool!(Enums, "test_elicitation_sep1330_enums", "Asks with choices", Nothing, |_, context| {
    let titled: Vec<Value> =
        (1..=3).map(|n| json!({ "const": format!("value{n}"), "title": format!("Choice {n}") })).collect();
    let options = json!(["option1", "option2", "option3"]);
    let properties = json!({
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled },
        "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"] },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled } },
    });
    let answer = ask(context, "choices", elicitation("Please choose", properties, json!([]))).await?;
    Ok(text(format!("Elicitation completed: {answer}")))
});

tool!(InputElicitation, "test_input_required_result_elicitation", "Asks for a name", Nothing, |_, context| {
    let question = elicitation("What is your name?", json!({ "name": { "type": "string" } }), json!(["name"]));
    let answer = ask(context, "user_name", question).await?;
    Ok(text(format!("Hello, {}!", answer["content"]["name"].as_str().unwrap_or("stranger"))))
});

tool!(InputSampling, "test_input_required_result_sampling", "Asks a model", Nothing, |_, context| {
    let answer = ask(context, "capital_question", sampling("What is the capital of France?")).await?;
    Ok(text(answer["content"]["text"].as_str().unwrap_or("no answer")))
});

tool!(InputRoots, "test_input_required_result_list_roots", "Asks for folders", Nothing, |_, context| {
    let answer = ask(context, "client_roots", Ask::Roots).await?;
    Ok(text(format!("{} root(s)", answer["roots"].as_array().map_or(0, Vec::len))))
});

fn confirmation() -> Ask {
    elicitation("Please confirm", json!({ "ok": { "type": "boolean" } }), json!(["ok"]))
}

tool!(InputState, "test_input_required_result_request_state", "Asks with a state", Nothing, |_, context| {
    ask(context, "confirm", confirmation()).await.map(|_| text("state-ok"))
});

tool!(InputTampered, "test_input_required_result_tampered_state", "Refuses a changed state", Nothing, |_, context| {
    ask(context, "confirm", confirmation()).await.map(|_| text("state-ok"))
});

tool!(InputMultiple, "test_input_required_result_multiple_inputs", "Asks several things", Nothing, |_, context| {
    let name = elicitation("What is your name?", json!({ "name": { "type": "string" } }), json!(["name"]));
    let asks = vec![
        ("user_name".to_owned(), name),
        ("greeting".to_owned(), sampling("Generate a greeting")),
        ("client_roots".to_owned(), Ask::Roots),
    ];
    let answers = context.client.ask(asks).await?;
    Ok(text(format!("{} answers", answers.len())))
});

tool!(InputRounds, "test_input_required_result_multi_round", "Asks again and again", Nothing, |_, context| {
    let name = elicitation("Step 1: your name?", json!({ "name": { "type": "string" } }), json!(["name"]));
    let name = ask(context, "step1", name).await?;
    let color = elicitation("Step 2: a color?", json!({ "color": { "type": "string" } }), json!(["color"]));
    let color = ask(context, "step2", color).await?;
    Ok(text(format!("{} likes {}", name["content"]["name"], color["content"]["color"])))
});

tool!(
    InputCapabilities,
    "test_input_required_result_capabilities",
    "Asks what the caller can",
    Nothing,
    |_, context| {
        let mut asks = Vec::new();
        if context.client.supports("sampling") {
            asks.push(("greeting".to_owned(), sampling("Generate a greeting")));
        }
        if context.client.supports("elicitation") {
            asks.push(("confirm".to_owned(), confirmation()));
        }
        context.client.ask(asks).await.map(|answers| text(format!("{} answers", answers.len()))).map_err(Into::into)
    }
);

/// Writes a tool while the server runs.
pub struct ChangeTools(Arc<OnceLock<Arc<Registry>>>);

static REGISTRY: OnceLock<Arc<OnceLock<Arc<Registry>>>> = OnceLock::new();

impl ChangeTools {
    fn new() -> Self {
        Self(Arc::clone(REGISTRY.get_or_init(Arc::default)))
    }

    /// Gives it the registry that it changes, which is there only after its tools are.
    pub fn fill(registry: Arc<Registry>) {
        REGISTRY.get_or_init(Arc::default).get_or_init(|| registry);
    }
}

#[async_trait]
impl CodeTool for ChangeTools {
    type Arguments = Nothing;
    const NAME: &'static str = "test_trigger_tool_change";
    const DESCRIPTION: &'static str = "Changes the list of tools";

    async fn call(&self, _: Nothing, context: &CallContext) -> Result<Value, CodeToolError> {
        let failed = |error: String| CodeToolError(error);
        let registry = self.0.get().ok_or_else(|| failed("there is no registry yet".to_owned()))?;
        let tool = json!({
            "name": "changed", "description": format!("Changed by {}", context.call_id),
            "request": { "url": "https://example.com" },
        });
        let tool = Definition::from_value(&tool).map_err(|error| failed(error.to_string()))?;
        registry.put_tool(&tool, Expect::Anything, "conformance").await.map_err(|error| failed(error.to_string()))?;
        Ok(text("changed"))
    }
}

/// Adds the tools to a catalog.
pub fn add_to(builder: RegistryBuilder) -> RegistryBuilder {
    builder
        .code_tool(WithProgress)
        .code_tool(WithLogging)
        .code_tool(Logging)
        .code_tool(Sampling)
        .code_tool(MissingCapability)
        .code_tool(Elicitation)
        .code_tool(StreamingElicitation)
        .code_tool(Defaults)
        .code_tool(Enums)
        .code_tool(InputElicitation)
        .code_tool(InputSampling)
        .code_tool(InputRoots)
        .code_tool(InputState)
        .code_tool(InputTampered)
        .code_tool(InputMultiple)
        .code_tool(InputRounds)
        .code_tool(InputCapabilities)
        .code_tool(ChangeTools::new())
}
