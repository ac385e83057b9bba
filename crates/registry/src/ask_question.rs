//! The tool by which a model asks an operator.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::code_tool::{CallContext, CodeTool, CodeToolError};

/// Parks the call until a person has answered; the answer is its result. The executor does that, so the tool itself
/// never runs.
pub(crate) struct AskQuestion;

/// What is asked.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Question {
    /// What you need to know, in a sentence that a person can answer without seeing this conversation
    #[schemars(length(min = 1, max = 4000))]
    #[expect(dead_code, reason = "the executor reads the arguments themselves")]
    question: String,
    /// What kind of answer is needed; text when left out
    #[expect(dead_code, reason = "the executor reads the arguments themselves")]
    answer_type: Option<AnswerType>,
    /// The answers to choose from, if only some are possible
    #[schemars(length(max = 50))]
    #[expect(dead_code, reason = "the executor reads the arguments themselves")]
    choices: Option<Vec<String>>,
}

/// The kind of an answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnswerType {
    Text,
    Number,
    Boolean,
}

#[async_trait]
impl CodeTool for AskQuestion {
    type Arguments = Question;
    const NAME: &'static str = "ask_question";
    const DESCRIPTION: &'static str =
        "Ask a person who runs this service for information that no tool has. The answer may take long.";

    async fn call(&self, _question: Question, _context: &CallContext) -> Result<Value, CodeToolError> {
        Err(CodeToolError("nobody can be asked here".to_owned()))
    }
}
