//! Tools written in Rust.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use toolcrib_definition::{
    Ctx, EffectMode, InvalidName, Parameters, Problem, ProblemCode, Problems, ToolName, ToolView,
};

use crate::error::RegistryError;
use crate::schema_of::schema_of;
use crate::tool_client::ToolClient;

/// A tool written in Rust. The argument type is the schema, so what the model sees and what the
/// code takes can't disagree.
#[async_trait]
pub trait CodeTool: Send + Sync + 'static {
    /// What the tool takes: a struct whose top-level fields follow the name rule.
    type Arguments: DeserializeOwned + JsonSchema + Send;
    /// The name the model calls.
    const NAME: &'static str;
    /// What the model reads.
    const DESCRIPTION: &'static str;
    /// The group, for allowlists.
    const GROUP: Option<&'static str> = None;
    /// What a crash may do to a call.
    const EFFECT: EffectMode = EffectMode::Idempotent;

    /// Does the work. An object is the result as it is (one with MCP `content` is passed on as that), anything else is wrapped as `{"value": …}`.
    ///
    /// # Errors
    /// [`CodeToolError`], which the model reads.
    async fn call(&self, arguments: Self::Arguments, context: &CallContext) -> Result<Value, CodeToolError>;
}

/// An error that the model reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CodeToolError(pub String);

/// What a code tool is given beside its arguments.
#[derive(Clone)]
pub struct CallContext {
    /// The turn context, set by the trusted caller.
    pub ctx: Ctx,
    /// The stable key of the call.
    pub call_id: String,
    /// The session.
    pub session: String,
    /// Cancelled when the time of the call is over or the caller gives up; the tool has a moment to end.
    pub cancellation: CancellationToken,
    /// The caller, to tell it how far the work is and to ask it things.
    pub client: Arc<dyn ToolClient>,
}

impl std::fmt::Debug for CallContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallContext").field("call_id", &self.call_id).finish_non_exhaustive()
    }
}

/// A code tool whose name, description and schema were checked.
pub struct RegisteredCodeTool {
    name: ToolName,
    description: &'static str,
    group: Option<&'static str>,
    effect: EffectMode,
    parameters: Parameters,
    runner: Box<dyn Runner>,
}

/// [`CodeTool`] with its argument type hidden.
#[async_trait]
trait Runner: Send + Sync {
    async fn run(&self, arguments: Map<String, Value>, context: &CallContext) -> Result<Value, CodeToolError>;
}

struct Typed<T>(T);

#[async_trait]
impl<T: CodeTool> Runner for Typed<T> {
    async fn run(&self, arguments: Map<String, Value>, context: &CallContext) -> Result<Value, CodeToolError> {
        let arguments = serde_json::from_value(Value::Object(arguments))
            .map_err(|error| CodeToolError(format!("invalid arguments: {error}")))?;
        match self.0.call(arguments, context).await? {
            object @ Value::Object(_) => Ok(object),
            other => Ok(json!({ "value": other })),
        }
    }
}

impl RegisteredCodeTool {
    /// Checks a code tool.
    ///
    /// # Errors
    /// [`RegistryError::CodeTool`] when its name, description or schema breaks a rule.
    pub fn new<T: CodeTool>(tool: T) -> Result<Self, RegistryError> {
        let refuse = |problems| RegistryError::CodeTool { name: T::NAME.to_owned(), problems };
        let wrong = |pointer: &str, code, message: String| {
            refuse(Problems::from_iter([Problem { pointer: pointer.to_owned(), code, message }]))
        };
        let bad_name = |error: InvalidName| wrong("/name", ProblemCode::Name, error.to_string());
        let name = T::NAME.parse().map_err(bad_name)?;
        if T::DESCRIPTION.trim().is_empty() {
            return Err(wrong("/description", ProblemCode::Description, "the description is blank".to_owned()));
        }
        if T::EFFECT == EffectMode::Transactional {
            let message = "a transactional tool needs the ledger, which this version does not have".to_owned();
            return Err(wrong("/effect", ProblemCode::Effect, message));
        }
        let parameters = Parameters::from_schema(&schema_of::<T::Arguments>()).map_err(refuse)?;
        Ok(Self {
            name,
            description: T::DESCRIPTION,
            group: T::GROUP,
            effect: T::EFFECT,
            parameters,
            runner: Box::new(Typed(tool)),
        })
    }

    /// The name.
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// The group.
    pub fn group(&self) -> Option<&str> {
        self.group
    }

    /// What a crash may do to a call.
    pub fn effect(&self) -> EffectMode {
        self.effect
    }

    /// What a provider is told of the tool.
    pub fn view(&self) -> ToolView<'_> {
        ToolView { name: &self.name, description: self.description, parameters: &self.parameters, effect: self.effect }
    }

    /// Runs the tool with arguments that its schema accepts.
    ///
    /// # Errors
    /// What the tool says.
    pub async fn run(&self, arguments: &Map<String, Value>, context: &CallContext) -> Result<Value, CodeToolError> {
        self.runner.run(self.parameters.typed(arguments), context).await
    }
}
