//! What a deployment says of a provider.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

/// Finds a secret by its name, now.
pub type SecretLookup = Arc<dyn Fn(&str) -> Option<SecretString> + Send + Sync>;

/// The form in which a provider is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireFormat {
    /// OpenAI Chat Completions, which Ollama, vLLM, llama.cpp and many others speak too.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini `generateContent`.
    Gemini,
}

impl WireFormat {
    /// Every format.
    pub const ALL: [WireFormat; 4] =
        [WireFormat::OpenAiChat, WireFormat::OpenAiResponses, WireFormat::Anthropic, WireFormat::Gemini];

    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            WireFormat::OpenAiChat => "openai",
            WireFormat::OpenAiResponses => "openai-responses",
            WireFormat::Anthropic => "anthropic",
            WireFormat::Gemini => "gemini",
        }
    }

    /// The format with this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == word)
    }

    /// Where its maker serves it.
    pub fn default_base_url(self) -> &'static str {
        match self {
            WireFormat::OpenAiChat | WireFormat::OpenAiResponses => "https://api.openai.com/v1",
            WireFormat::Anthropic => "https://api.anthropic.com/v1",
            WireFormat::Gemini => "https://generativelanguage.googleapis.com/v1beta",
        }
    }
}

/// A provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSettings {
    /// The form in which it is asked.
    pub format: WireFormat,
    /// Where.
    pub base_url: String,
    /// The name of the secret that is its key; none for a server that wants none.
    pub api_key: Option<String>,
    /// Whether plain `http` is allowed to it. Default false.
    pub allow_http: bool,
    /// Whether its address may be private. Default false.
    pub allow_private: bool,
    /// How long connecting may take. Default 10 s.
    pub connect_timeout: Duration,
    /// How long the beginning of an answer may take. Default 60 s.
    pub first_byte_timeout: Duration,
    /// How long an answer may say nothing. Default 60 s.
    pub idle_timeout: Duration,
    /// How often a request is tried anew. Default 2.
    pub retries: usize,
}

impl ProviderSettings {
    /// A provider at its maker's address.
    pub fn new(format: WireFormat) -> Self {
        Self {
            format,
            base_url: format.default_base_url().to_owned(),
            api_key: None,
            allow_http: false,
            allow_private: false,
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            retries: 2,
        }
    }
}
