//! The providers of a deployment: retries, models that stand in for others, and a breaker for each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::StreamExt;
use tokio::time::Instant;
use toolcrib_egress::{Dial, Guard, HostPattern, Policy, Resolve, TargetHost, TrustRoots};
use toolcrib_executor::{BreakerReport, Breakers};
use toolcrib_registry::ModelChoice;

use crate::genai_provider::GenaiProvider;
use crate::message::{Message, ModelCall};
use crate::model::{ModelError, ModelEvent, ModelProvider, ModelRequest, Usage};
use crate::provider_settings::{ProviderSettings, SecretLookup};

/// The first pause before a request is tried anew.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause, also when a provider asks for a longer one: then another model is better.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// The longest answer of a model, in bytes of text (4 MiB): no more is kept, whatever it goes on to say.
const LONGEST_ANSWER: usize = 4 << 20;

/// The providers of a deployment. Share it behind an [`Arc`].
#[derive(Default)]
pub struct Providers {
    known: BTreeMap<String, Known>,
    breakers: Breakers,
}

struct Known {
    provider: Arc<dyn ModelProvider>,
    retries: usize,
    /// The name of the secret that is its key.
    key: Option<String>,
}

/// A whole answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) calls: Vec<ModelCall>,
    pub(crate) usage: Usage,
    pub(crate) model: ModelChoice,
    pub(crate) cut: bool,
}

/// Is told what a model says, as it says it.
#[async_trait]
pub(crate) trait Listener: Send {
    /// A piece of text.
    async fn text(&mut self, text: &str);
    /// What was said so far came to nothing, and is said anew by this model.
    async fn again(&mut self, model: &ModelChoice, why: &ModelError);
}

impl Providers {
    /// Adds a provider that is asked over HTTP. Its connections pass a policy of their own: its host and no other.
    ///
    /// # Errors
    /// [`ModelError::NotConfigured`] when the settings can't be used.
    pub fn add(
        &mut self,
        name: &str,
        settings: &ProviderSettings,
        resolver: Arc<dyn Resolve>,
        dialler: Arc<dyn Dial>,
        roots: &TrustRoots,
        secrets: SecretLookup,
    ) -> Result<(), ModelError> {
        let open =
            Policy { allow_http: settings.allow_http, allow_private: settings.allow_private, ..Policy::default() };
        let policy = match open.check_url(&settings.base_url).map(|target| target.host().clone()) {
            Ok(TargetHost::Name(host)) => match host.parse::<HostPattern>() {
                Ok(host) => Policy { hosts: Some(vec![host]), ..open },
                Err(_) => open,
            },
            // What is blocked is said by the provider's own check.
            Ok(TargetHost::Address(_)) | Err(_) => open,
        };
        let guard = Guard::new(Arc::new(policy), resolver, dialler, settings.connect_timeout);
        let provider = Arc::new(GenaiProvider::new(name, settings.clone(), guard, roots, secrets)?);
        self.known
            .insert(name.to_owned(), Known { provider, retries: settings.retries, key: settings.api_key.clone() });
        Ok(())
    }

    /// Adds a provider that is written in Rust.
    pub fn add_custom(&mut self, name: &str, provider: Arc<dyn ModelProvider>) {
        self.known.insert(name.to_owned(), Known { provider, retries: 0, key: None });
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
    }

    /// Those that need a key, each with the name of the secret that holds it.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &str)> {
        self.known.iter().filter_map(|(name, known)| Some((name.as_str(), known.key.as_deref()?)))
    }

    /// Those that failed lately.
    pub fn breakers(&self) -> Vec<BreakerReport> {
        self.breakers.report(Instant::now())
    }

    /// Asks the models in their order until one gives a whole answer.
    pub(crate) async fn ask(
        &self,
        models: &[ModelChoice],
        request: &ModelRequest,
        listener: &mut dyn Listener,
    ) -> Result<Answer, ModelError> {
        let mut last = ModelError::NotConfigured { reason: "the agent names no model".to_owned() };
        for (place, model) in models.iter().enumerate() {
            if place > 0 {
                listener.again(model, &last).await;
            }
            let request = request_for(model, request);
            match self.ask_one(model, &request, listener).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    tracing::warn!(model = %model, code = error.code(), error = %error, "turn.model.ask failed");
                    last = error;
                }
            }
        }
        Err(last)
    }

    async fn ask_one(
        &self,
        model: &ModelChoice,
        request: &ModelRequest,
        listener: &mut dyn Listener,
    ) -> Result<Answer, ModelError> {
        let name = &model.provider;
        let Some(known) = self.known.get(name) else {
            let names = self.names().collect::<Vec<_>>().join(", ");
            let there = if names.is_empty() { "none is configured".to_owned() } else { format!("there are {names}") };
            let reason = format!("there is no provider {name:?}; {there}");
            return Err(ModelError::NotConfigured { reason });
        };
        let pauses = ExponentialBuilder::default()
            .with_min_delay(FIRST_PAUSE)
            .with_max_delay(LONGEST_PAUSE)
            .with_max_times(known.retries)
            .with_jitter()
            .build();
        let mut pauses = pauses.into_iter();
        loop {
            self.breakers
                .admit(name, Instant::now())
                .map_err(|left| ModelError::Paused { provider: name.clone(), left })?;
            let error = match self.ask_once(known, model, request, listener).await {
                Ok(answer) => {
                    self.breakers.succeeded(name);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            match &error {
                // What is refused says that the provider works.
                ModelError::Refused { .. } => self.breakers.succeeded(name),
                ModelError::NotConfigured { .. } | ModelError::Blocked { .. } => self.breakers.unasked(name),
                _ => self.breakers.failed(name, Instant::now()),
            }
            let Some(pause) = pauses.next().filter(|_| error.retryable()) else { return Err(error) };
            let pause = match &error {
                ModelError::Busy { retry_after: Some(asked), .. } if *asked > LONGEST_PAUSE => return Err(error),
                ModelError::Busy { retry_after: Some(asked), .. } => pause.max(*asked),
                _ => pause,
            };
            tokio::time::sleep(pause).await;
            listener.again(model, &error).await;
        }
    }

    async fn ask_once(
        &self,
        known: &Known,
        model: &ModelChoice,
        request: &ModelRequest,
        listener: &mut dyn Listener,
    ) -> Result<Answer, ModelError> {
        let mut stream = known.provider.ask(request).await?;
        let mut text = String::new();
        while let Some(event) = stream.next().await {
            match event? {
                ModelEvent::Text(piece) => {
                    if text.len() + piece.len() > LONGEST_ANSWER {
                        let reason = format!("it is longer than {LONGEST_ANSWER} bytes");
                        return Err(ModelError::Unreadable { reason });
                    }
                    listener.text(&piece).await;
                    text.push_str(&piece);
                }
                ModelEvent::End { calls, usage, cut } => {
                    return Ok(Answer { text, calls, usage, model: model.clone(), cut });
                }
            }
        }
        Err(ModelError::BrokenOff { reason: "the stream ended without an end of the answer".to_owned() })
    }
}

/// The request as this model's provider understands it: signatures of others stay out.
fn request_for(model: &ModelChoice, request: &ModelRequest) -> ModelRequest {
    let mut request = ModelRequest { model: model.model.clone(), ..request.clone() };
    for message in &mut request.messages {
        if let Message::Assistant { calls, .. } = message {
            for call in calls.iter_mut().filter(|call| call.signed_by.as_ref() != Some(&model.provider)) {
                call.signatures.clear();
            }
        }
    }
    request
}
