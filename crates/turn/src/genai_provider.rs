//! Providers over the genai crate: OpenAI, Anthropic, Gemini, and what speaks like OpenAI.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream;
use genai::adapter::AdapterKind;
use genai::chat::{CacheControl, ChatFrameSink, ChatOptions, ChatRequest};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::mpsc;
use toolcrib_egress::{Guard, Target, TrustRoots};

use crate::frame_guard::FrameGuard;
use crate::genai_errors::{cut, egress_error, model_error, of_panic};
use crate::genai_wire::{chat_of, event_of};
use crate::key_mask::KeyMask;
use crate::model::{ModelError, ModelProvider, ModelRequest, ModelStream};
use crate::provider_settings::{ProviderSettings, SecretLookup, WireFormat};
use crate::provider_thread::ProviderThread;

/// Events of an answer that wait to be taken.
const WAITING_EVENTS: usize = 64;

/// A provider that is asked over HTTP.
pub(crate) struct GenaiProvider {
    wire: Arc<Wire>,
    thread: ProviderThread,
}

/// What is needed to ask it.
struct Wire {
    name: String,
    settings: ProviderSettings,
    client: Client,
    guard: Guard,
    target: Target,
    secrets: SecretLookup,
}

impl GenaiProvider {
    /// A provider whose connections pass this guard.
    pub(crate) fn new(
        name: &str,
        settings: ProviderSettings,
        guard: Guard,
        roots: &TrustRoots,
        secrets: SecretLookup,
    ) -> Result<Self, ModelError> {
        let not_configured =
            |reason: String| ModelError::NotConfigured { reason: format!("providers.{name}: {reason}") };
        let target = guard
            .policy()
            .check_url(&settings.base_url)
            .map_err(|blocked| not_configured(format!("base_url: {blocked} [{}]", blocked.reason.code())))?;
        let tls = roots.client_config().map_err(|error| not_configured(error.to_string()))?;
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .dns_resolver(GuardedNames { guard: guard.clone(), target: target.clone() })
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .connect_timeout(settings.connect_timeout)
            .build()
            .map_err(|error| not_configured(error.to_string()))?;
        let client = Client::builder()
            .with_reqwest(http)
            .build()
            .map_err(|error| not_configured(format!("the client can't be made: {error}")))?;
        let thread = ProviderThread::start(name)
            .map_err(|error| not_configured(format!("its thread can't be started: {error}")))?;
        let wire = Arc::new(Wire { name: name.to_owned(), settings, client, guard, target, secrets });
        Ok(Self { wire, thread })
    }

    /// Asks on the provider's own thread. What comes is given up when the stream is dropped.
    async fn ask_there(&self, request: &ModelRequest, key: Option<&SecretString>) -> Result<ModelStream, ModelError> {
        let (sender, mut receiver) = mpsc::channel(WAITING_EVENTS);
        let (wire, asked) = (Arc::clone(&self.wire), self.wire.asked(request, key));
        let reading = self.thread.spawn(async move {
            match wire.ask_unmasked(asked).await {
                Err(error) => drop(sender.send(Err(error)).await),
                Ok(mut events) => {
                    while let Some(event) = events.next().await {
                        if sender.send(event).await.is_err() {
                            return;
                        }
                    }
                }
            }
        });
        let gone = || ModelError::BrokenOff { reason: "reading the answer failed inside".to_owned() };
        // What comes first decides whether the request was accepted.
        let first = receiver.recv().await.ok_or_else(gone)??;
        let rest = stream::unfold((receiver, reading), |(mut receiver, reading)| async move {
            let event = receiver.recv().await?;
            Some((event, (receiver, reading)))
        });
        Ok(Box::pin(stream::iter([Ok(first)]).chain(rest)))
    }
}

impl Wire {
    /// Its key, as it is now; none for a server that wants none.
    fn key(&self) -> Result<Option<SecretString>, ModelError> {
        let Some(secret) = &self.settings.api_key else { return Ok(None) };
        let key = (self.secrets)(secret).filter(|key| !key.expose_secret().is_empty());
        key.map(Some).ok_or_else(|| ModelError::NotConfigured {
            reason: format!("the secret {secret:?}, the key of the provider {}, is not configured", self.name),
        })
    }

    fn service(&self, model: &str, key: Option<&SecretString>) -> ServiceTarget {
        let key = key.map(|key| key.expose_secret().to_owned()).unwrap_or_default();
        let kind = match self.settings.format {
            WireFormat::OpenAiChat => AdapterKind::OpenAI,
            WireFormat::OpenAiResponses => AdapterKind::OpenAIResp,
            WireFormat::Anthropic => AdapterKind::Anthropic,
            WireFormat::Gemini => AdapterKind::Gemini,
        };
        let base = format!("{}/", self.settings.base_url.trim_end_matches('/'));
        ServiceTarget {
            endpoint: Endpoint::from_owned(base),
            auth: AuthData::from_single(key),
            model: ModelIden::new(kind, model),
        }
    }
}

#[async_trait]
impl ModelProvider for GenaiProvider {
    async fn ask(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        // Who can't be reached is said with the address that was tried.
        let at = |error: ModelError| match error {
            ModelError::Unreachable { reason } => {
                ModelError::Unreachable { reason: format!("{}: {reason}", self.wire.settings.base_url) }
            }
            other => other,
        };
        // What a provider says is cut only where its key can't be cut with it.
        let short = |error: ModelError| error.map_words(cut);
        let Some(key) = self.wire.key()? else {
            let stream = self.ask_there(request, None).await.map_err(at).map_err(short)?;
            return Ok(Box::pin(stream.map(move |event| event.map_err(short))));
        };
        let asked = self.ask_there(request, Some(&key)).await.map_err(at);
        let mut mask = KeyMask::new(key);
        let stream = asked.map_err(|error| short(mask.error(error)))?;
        let masked = stream.flat_map(move |event| stream::iter(mask.event(event)));
        Ok(Box::pin(masked.map(move |event| event.map_err(short))))
    }
}

/// A request in the crate's own form.
struct Asked {
    service: ServiceTarget,
    chat: ChatRequest,
    options: ChatOptions,
    frames: Arc<FrameGuard>,
}

impl Wire {
    fn asked(&self, request: &ModelRequest, key: Option<&SecretString>) -> Asked {
        let frames = Arc::new(FrameGuard::default());
        let sink: Arc<dyn ChatFrameSink> = Arc::<FrameGuard>::clone(&frames);
        let mut options = ChatOptions::default()
            .with_capture_usage(true)
            .with_capture_content(true)
            .with_capture_tool_calls(true)
            .with_stream_header_timeout(self.settings.first_byte_timeout)
            .with_stream_read_timeout(self.settings.idle_timeout)
            .with_raw_frame_sink_arc(sink);
        if let Some(temperature) = request.temperature {
            options = options.with_temperature(temperature);
        }
        if let Some(most) = request.max_output_tokens {
            options = options.with_max_tokens(most);
        }
        if self.settings.format == WireFormat::Anthropic {
            options = options.with_cache_control(CacheControl::Ephemeral);
        }
        Asked { service: self.service(&request.model, key), chat: chat_of(request), options, frames }
    }

    async fn ask_unmasked(&self, asked: Asked) -> Result<ModelStream, ModelError> {
        let Asked { service, chat, options, frames } = asked;
        // An address in the URL never reaches the resolver, so it is judged here as well.
        self.guard.addresses(&self.target).await.map_err(|error| egress_error(&error))?;
        let started = self.client.exec_chat_stream(service, chat, Some(&options)).await;
        let stream = started.map_err(|error| model_error(&error))?.stream;
        // The request goes out when the stream is first asked: what it says first decides whether it was accepted.
        let stream = AssertUnwindSafe(stream).catch_unwind().scan(false, |over, event| {
            // What panicked once is not asked again.
            let go_on = !std::mem::replace(over, event.is_err());
            std::future::ready(go_on.then_some(event))
        });
        let mut events = Box::pin(stream.filter_map(move |event| {
            std::future::ready(match event {
                Ok(event) => event_of(event, &frames),
                Err(panic) => Some(Err(of_panic(&*panic))),
            })
        }));
        match events.next().await {
            None => Err(ModelError::BrokenOff { reason: "the provider said nothing".to_owned() }),
            Some(Err(error)) => Err(error),
            Some(Ok(first)) => Ok(Box::pin(stream::iter([Ok(first)]).chain(events))),
        }
    }
}

/// The one name that this client may look up, through the guard, which judges each address.
struct GuardedNames {
    guard: Guard,
    target: Target,
}

impl Resolve for GuardedNames {
    fn resolve(&self, _name: Name) -> Resolving {
        let (guard, target) = (self.guard.clone(), self.target.clone());
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = guard.addresses(&target).await.map_err(Box::new)?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
