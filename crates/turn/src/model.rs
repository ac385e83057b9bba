//! A model as the loop sees it: a request, and a stream of what it says.

use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{Message, ModelCall};

/// What a model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The model, as its provider calls it.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools it may ask for.
    pub tools: Vec<ToolOffer>,
    /// How freely it chooses its words; the provider's default when none.
    pub temperature: Option<f64>,
    /// The longest answer, in tokens; the provider's default when none.
    pub max_output_tokens: Option<u32>,
}

/// A tool that is offered to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOffer {
    /// The name.
    pub name: String,
    /// What the model reads.
    pub description: String,
    /// JSON Schema of the arguments, to the letter.
    pub parameters: Value,
}

/// What a model says, as it says it.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// A piece of its text.
    Text(String),
    /// It is done. Without this, an answer broke off.
    End {
        /// The calls it asks for, in its order; their ids are the provider's.
        calls: Vec<ModelCall>,
        /// What it cost.
        usage: Usage,
        /// Whether the answer was cut at the longest it may be.
        cut: bool,
    },
}

/// Tokens, as the provider counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of prompts.
    pub input_tokens: u64,
    /// Those of them that came from the provider's cache.
    pub cached_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.cached_tokens += other.cached_tokens;
        self.output_tokens += other.output_tokens;
    }
}

/// The stream of an answer.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// Something that answers as a model does.
#[async_trait]
pub trait ModelProvider: Send + Sync {
    /// Asks a model. The stream begins when the provider has accepted the request.
    ///
    /// # Errors
    /// [`ModelError`], here or in the stream.
    async fn ask(&self, request: &ModelRequest) -> Result<ModelStream, ModelError>;
}

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// It has too much to do, and says when to come back.
    #[error("the provider is busy (HTTP {status}): {message}")]
    Busy {
        /// The HTTP status: 429, 503 or 529.
        status: u16,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
        /// What it says.
        message: String,
    },
    /// It failed.
    #[error("the provider failed (HTTP {status}): {message}")]
    Failed {
        /// The HTTP status, 500 or more, 408 or 409.
        status: u16,
        /// What it says.
        message: String,
    },
    /// It refuses the request: another try would end the same.
    #[error("the provider refuses the request (HTTP {status}): {message}")]
    Refused {
        /// The HTTP status, 400 or more.
        status: u16,
        /// What it says.
        message: String,
    },
    /// It could not be reached.
    #[error("the provider can't be reached: {reason}")]
    Unreachable {
        /// Why.
        reason: String,
    },
    /// This deployment does not let anybody go there.
    #[error("{reason}")]
    Blocked {
        /// The egress policy's own words.
        reason: String,
    },
    /// Its answer broke off.
    #[error("the answer broke off: {reason}")]
    BrokenOff {
        /// How.
        reason: String,
    },
    /// Its answer can't be read.
    #[error("the answer can't be read: {reason}")]
    Unreadable {
        /// Why.
        reason: String,
    },
    /// It failed repeatedly and is left alone for a moment.
    #[error("the provider {provider} failed repeatedly and is left alone for {} s", left.as_secs().max(1))]
    Paused {
        /// Its name.
        provider: String,
        /// How much longer.
        left: Duration,
    },
    /// There is no provider of this name, or its key is not configured.
    #[error("{reason}")]
    NotConfigured {
        /// What is missing, and how to configure it.
        reason: String,
    },
}

impl ModelError {
    /// Whether the same request may be answered a moment later.
    pub fn retryable(&self) -> bool {
        match self {
            ModelError::Busy { .. }
            | ModelError::Failed { .. }
            | ModelError::Unreachable { .. }
            | ModelError::BrokenOff { .. }
            | ModelError::Unreadable { .. } => true,
            ModelError::Refused { .. }
            | ModelError::Blocked { .. }
            | ModelError::Paused { .. }
            | ModelError::NotConfigured { .. } => false,
        }
    }

    /// The same with its words changed.
    pub(crate) fn map_words(mut self, change: impl FnOnce(&str) -> String) -> Self {
        match &mut self {
            ModelError::Busy { message: words, .. }
            | ModelError::Failed { message: words, .. }
            | ModelError::Refused { message: words, .. }
            | ModelError::Unreachable { reason: words }
            | ModelError::Blocked { reason: words }
            | ModelError::BrokenOff { reason: words }
            | ModelError::Unreadable { reason: words }
            | ModelError::NotConfigured { reason: words } => *words = change(words),
            ModelError::Paused { .. } => {}
        }
        self
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ModelError::Busy { .. } => "model.busy",
            ModelError::Failed { .. } => "model.failed",
            ModelError::Refused { .. } => "model.refused",
            ModelError::Unreachable { .. } => "model.unreachable",
            ModelError::Blocked { .. } => "model.blocked",
            ModelError::BrokenOff { .. } => "model.broken_off",
            ModelError::Unreadable { .. } => "model.unreadable",
            ModelError::Paused { .. } => "model.paused",
            ModelError::NotConfigured { .. } => "model.not_configured",
        }
    }
}
