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
use toolcrib_store::EffectTransaction;

use crate::ask_question::AskQuestion;
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

/// A tool written in Rust whose effect is in the store's own database. Its effect and the end of its call commit
/// together, so it happens exactly once, also when the process is killed.
///
/// On SQLite the transaction holds the right to write, so other writes wait: be done in a moment.
#[async_trait]
pub trait TransactionalTool: Send + Sync + 'static {
    /// What the tool takes: a struct whose top-level fields follow the name rule.
    type Arguments: DeserializeOwned + JsonSchema + Send;
    /// The name the model calls.
    const NAME: &'static str;
    /// What the model reads.
    const DESCRIPTION: &'static str;
    /// The group, for allowlists.
    const GROUP: Option<&'static str> = None;

    /// Does the work in the open transaction, which commits when this returns a result and is undone when it
    /// returns an error. Whatever it does elsewhere happens as often as the call is tried.
    ///
    /// # Errors
    /// [`CodeToolError`], which the model reads. Then nothing of it happened.
    async fn call(
        &self,
        arguments: Self::Arguments,
        transaction: &mut EffectTransaction,
        context: &CallContext,
    ) -> Result<Value, CodeToolError>;
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
    /// Whether a person answers in the place of the tool.
    asks_a_person: bool,
}

/// A tool with its argument type hidden.
#[async_trait]
trait Runner: Send + Sync {
    async fn run(
        &self,
        arguments: Map<String, Value>,
        transaction: Option<&mut EffectTransaction>,
        context: &CallContext,
    ) -> Result<Value, CodeToolError>;
}

struct Typed<T>(T);
struct TypedTransactional<T>(T);

fn typed<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, CodeToolError> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| CodeToolError(format!("invalid arguments: {error}")))
}

fn as_object(value: Value) -> Value {
    match value {
        object @ Value::Object(_) => object,
        other => json!({ "value": other }),
    }
}

#[async_trait]
impl<T: CodeTool> Runner for Typed<T> {
    async fn run(
        &self,
        arguments: Map<String, Value>,
        _transaction: Option<&mut EffectTransaction>,
        context: &CallContext,
    ) -> Result<Value, CodeToolError> {
        self.0.call(typed(arguments)?, context).await.map(as_object)
    }
}

#[async_trait]
impl<T: TransactionalTool> Runner for TypedTransactional<T> {
    async fn run(
        &self,
        arguments: Map<String, Value>,
        transaction: Option<&mut EffectTransaction>,
        context: &CallContext,
    ) -> Result<Value, CodeToolError> {
        let missing = || CodeToolError("the tool needs a transaction, and there is none".to_owned());
        let transaction = transaction.ok_or_else(missing)?;
        self.0.call(typed(arguments)?, transaction, context).await.map(as_object)
    }
}

impl RegisteredCodeTool {
    /// Checks a code tool.
    ///
    /// # Errors
    /// [`RegistryError::CodeTool`] when its name, description or schema breaks a rule.
    pub fn new<T: CodeTool>(tool: T) -> Result<Self, RegistryError> {
        if T::EFFECT == EffectMode::Transactional {
            let message = "a tool whose effect commits with its call implements TransactionalTool".to_owned();
            let problem = Problem { pointer: "/effect".to_owned(), code: ProblemCode::Effect, message };
            let problems = Problems::from_iter([problem]);
            return Err(RegistryError::CodeTool { name: T::NAME.to_owned(), problems });
        }
        let schema = schema_of::<T::Arguments>();
        Self::checked(T::NAME, T::DESCRIPTION, T::GROUP, T::EFFECT, &schema, Box::new(Typed(tool)))
    }

    /// Checks a transactional tool.
    ///
    /// # Errors
    /// [`RegistryError::CodeTool`] when its name, description or schema breaks a rule.
    pub fn transactional<T: TransactionalTool>(tool: T) -> Result<Self, RegistryError> {
        let (schema, effect) = (schema_of::<T::Arguments>(), EffectMode::Transactional);
        Self::checked(T::NAME, T::DESCRIPTION, T::GROUP, effect, &schema, Box::new(TypedTransactional(tool)))
    }

    /// The tool `ask_question`: a person's answer is its result. Only agents that name it may use it.
    ///
    /// # Errors
    /// As [`RegisteredCodeTool::new`].
    pub(crate) fn ask_question() -> Result<Self, RegistryError> {
        Ok(Self { asks_a_person: true, ..Self::new(AskQuestion)? })
    }

    fn checked(
        name: &str,
        description: &'static str,
        group: Option<&'static str>,
        effect: EffectMode,
        schema: &Value,
        runner: Box<dyn Runner>,
    ) -> Result<Self, RegistryError> {
        let refuse = |problems| RegistryError::CodeTool { name: name.to_owned(), problems };
        let wrong = |pointer: &str, code, message: String| {
            refuse(Problems::from_iter([Problem { pointer: pointer.to_owned(), code, message }]))
        };
        let parsed = name.parse().map_err(|error: InvalidName| wrong("/name", ProblemCode::Name, error.to_string()))?;
        if description.trim().is_empty() {
            return Err(wrong("/description", ProblemCode::Description, "the description is blank".to_owned()));
        }
        let parameters = Parameters::from_schema(schema).map_err(refuse)?;
        Ok(Self { name: parsed, description, group, effect, parameters, runner, asks_a_person: false })
    }

    /// Whether a person answers in the place of the tool.
    pub fn asks_a_person(&self) -> bool {
        self.asks_a_person
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

    /// Runs the tool with arguments that its schema accepts. A transactional one needs its transaction.
    ///
    /// # Errors
    /// What the tool says.
    pub async fn run(
        &self,
        arguments: &Map<String, Value>,
        transaction: Option<&mut EffectTransaction>,
        context: &CallContext,
    ) -> Result<Value, CodeToolError> {
        self.runner.run(self.parameters.typed(arguments), transaction, context).await
    }
}
