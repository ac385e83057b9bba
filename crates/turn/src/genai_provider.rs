//! Providers over the genai crate: OpenAI, Anthropic, Gemini, and what speaks like OpenAI.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream;
use genai::adapter::AdapterKind;
use genai::chat::{
    CacheControl, ChatFrameSink, ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, ContentPart, MessageContent,
    StopReason, StreamEnd, Tool, ToolCall, ToolResponse,
};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use toolcrib_egress::{EgressError, Guard, Target, TrustRoots};

use crate::frame_guard::{FrameGuard, Refused};
use crate::message::{Message, ModelCall};
use crate::model::{ModelError, ModelEvent, ModelProvider, ModelRequest, ModelStream, Usage};
use crate::provider_settings::{ProviderSettings, SecretLookup, WireFormat};

/// How much of what a provider says is passed on, in characters.
const SAID: usize = 500;

/// A provider that is asked over HTTP.
pub(crate) struct GenaiProvider {
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
        Ok(Self { name: name.to_owned(), settings, client, guard, target, secrets })
    }

    /// Its key, as it is now; none for a server that wants none.
    fn key(&self) -> Result<Option<SecretString>, ModelError> {
        let Some(secret) = &self.settings.api_key else { return Ok(None) };
        let key = (self.secrets)(secret).filter(|key| !key.expose_secret().is_empty());
        key.map(Some).ok_or_else(|| ModelError::NotConfigured {
            reason: format!("the secret {secret:?}, the key of the provider {}, is not configured", self.name),
        })
    }

    fn service(&self, model: &str) -> Result<ServiceTarget, ModelError> {
        let key = self.key()?.map(|key| key.expose_secret().to_owned()).unwrap_or_default();
        let kind = match self.settings.format {
            WireFormat::OpenAiChat => AdapterKind::OpenAI,
            WireFormat::OpenAiResponses => AdapterKind::OpenAIResp,
            WireFormat::Anthropic => AdapterKind::Anthropic,
            WireFormat::Gemini => AdapterKind::Gemini,
        };
        let base = format!("{}/", self.settings.base_url.trim_end_matches('/'));
        Ok(ServiceTarget {
            endpoint: Endpoint::from_owned(base),
            auth: AuthData::from_single(key),
            model: ModelIden::new(kind, model),
        })
    }
}

#[async_trait]
impl ModelProvider for GenaiProvider {
    async fn ask(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let key = self.key()?;
        let masked = move |error: ModelError| match &key {
            Some(key) => error.map_words(|words| words.replace(key.expose_secret(), "***")),
            None => error,
        };
        let stream = self.ask_unmasked(request).await.map_err(&masked)?;
        let key = self.key()?;
        let say = move |event: ModelEvent| match (event, &key) {
            (ModelEvent::Text(text), Some(key)) => ModelEvent::Text(text.replace(key.expose_secret(), "***")),
            (event, _) => event,
        };
        Ok(Box::pin(stream.map(move |event| event.map(&say).map_err(&masked))))
    }
}

impl GenaiProvider {
    async fn ask_unmasked(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        // An address in the URL never reaches the resolver, so it is judged here as well.
        self.guard.addresses(&self.target).await.map_err(|error| egress_error(&error))?;
        let service = self.service(&request.model)?;
        let mut options = ChatOptions::default()
            .with_capture_usage(true)
            .with_capture_content(true)
            .with_capture_tool_calls(true)
            .with_stream_header_timeout(self.settings.first_byte_timeout)
            .with_stream_read_timeout(self.settings.idle_timeout);
        if let Some(temperature) = request.temperature {
            options = options.with_temperature(temperature);
        }
        if let Some(most) = request.max_output_tokens {
            options = options.with_max_tokens(most);
        }
        if self.settings.format == WireFormat::Anthropic {
            options = options.with_cache_control(CacheControl::Ephemeral);
        }
        let frames = Arc::new(FrameGuard::default());
        let sink: Arc<dyn ChatFrameSink> = Arc::<FrameGuard>::clone(&frames);
        options = options.with_raw_frame_sink_arc(sink);
        let started = self.client.exec_chat_stream(service, chat_of(request), Some(&options)).await;
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

fn chat_of(request: &ModelRequest) -> ChatRequest {
    let messages = request.messages.iter().flat_map(messages_of).collect();
    let tool = |offer: &crate::model::ToolOffer| {
        Tool::new(offer.name.as_str())
            .with_description(offer.description.as_str())
            .with_schema(offer.parameters.clone())
    };
    let mut chat = ChatRequest::new(messages);
    if !request.system.is_empty() {
        chat = chat.with_system(request.system.as_str());
    }
    if !request.tools.is_empty() {
        chat = chat.with_tools(request.tools.iter().map(tool).collect::<Vec<_>>());
    }
    chat
}

fn messages_of(message: &Message) -> Vec<ChatMessage> {
    match message {
        Message::User { text } => vec![ChatMessage::user(text.as_str())],
        Message::Assistant { text, calls } => {
            let mut parts = Vec::with_capacity(calls.len() + 1);
            if !text.is_empty() {
                parts.push(ContentPart::Text(text.clone()));
            }
            parts.extend(calls.iter().map(|call| {
                ContentPart::ToolCall(ToolCall {
                    call_id: call.id.clone(),
                    fn_name: call.tool.clone(),
                    fn_arguments: as_object(&call.arguments),
                    thought_signatures: Some(call.signatures.clone()).filter(|signatures| !signatures.is_empty()),
                })
            }));
            vec![ChatMessage::assistant(MessageContent::from_parts(parts))]
        }
        Message::Tool { results } => {
            let response = |result: &crate::message::CallResult| {
                ToolResponse::new(result.id.as_str(), result.text.as_str()).with_fn_name(result.tool.as_str())
            };
            vec![ChatMessage::from(results.iter().map(response).collect::<Vec<_>>())]
        }
    }
}

/// What was no object when the model wrote it goes back as one: not every wire can carry anything else.
fn as_object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        other => serde_json::json!({ "unreadable": other }),
    }
}

/// What the guard of events said, or a fault of the crate itself.
fn of_panic(panic: &(dyn std::any::Any + Send)) -> ModelError {
    let reason = panic.downcast_ref::<Refused>().map(|Refused(reason)| reason.clone());
    ModelError::Unreadable { reason: reason.unwrap_or_else(|| "reading it failed inside".to_owned()) }
}

fn event_of(
    event: Result<ChatStreamEvent, genai::Error>,
    frames: &FrameGuard,
) -> Option<Result<ModelEvent, ModelError>> {
    match event {
        Ok(ChatStreamEvent::Chunk(chunk)) if chunk.content.is_empty() => None,
        Ok(ChatStreamEvent::Chunk(chunk)) => Some(Ok(ModelEvent::Text(chunk.content))),
        Ok(ChatStreamEvent::End(end)) => Some(end_of(end, frames)),
        Ok(_) => None,
        Err(error) => Some(Err(model_error(&error))),
    }
}

fn end_of(end: StreamEnd, frames: &FrameGuard) -> Result<ModelEvent, ModelError> {
    // A connection that closes too early ends the stream too, but no provider said why.
    let Some(stop) = &end.captured_stop_reason else {
        return Err(ModelError::BrokenOff { reason: "the stream ended without an end of the answer".to_owned() });
    };
    let cut = matches!(stop, StopReason::MaxTokens(_));
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or_default();
    let usage = end.captured_usage.as_ref().map_or_else(Usage::default, |usage| Usage {
        input_tokens: count(usage.prompt_tokens),
        cached_tokens: count(usage.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens)),
        output_tokens: count(usage.completion_tokens),
    });
    let call = |call: ToolCall| ModelCall {
        id: call.call_id,
        tool: call.fn_name,
        arguments: match call.fn_arguments {
            // No arguments at all are an empty object.
            Value::Null => Value::Object(serde_json::Map::new()),
            Value::String(text) if text.trim().is_empty() => Value::Object(serde_json::Map::new()),
            other => other,
        },
        signatures: call.thought_signatures.unwrap_or_default(),
        signed_by: None,
    };
    let calls = end.captured_into_tool_calls().unwrap_or_default().into_iter().enumerate();
    // Copies that fill a gap are no calls.
    let calls = calls.filter(|(index, _)| frames.named(*index)).map(|(_, named)| call(named)).collect();
    Ok(ModelEvent::End { calls, usage, cut })
}

fn model_error(error: &genai::Error) -> ModelError {
    if let Some(status) = error.status() {
        return of_status(status.as_u16(), &said(error), error.headers().and_then(retry_after));
    }
    match error {
        genai::Error::WebStream { error, .. } => from_source(&**error),
        genai::Error::WebModelCall { webc_error, .. } | genai::Error::WebAdapterCall { webc_error, .. } => {
            from_source(webc_error)
        }
        genai::Error::ChatResponse { body, .. } => in_band(body),
        other => ModelError::Unreadable { reason: cut(&other.to_string()) },
    }
}

/// An error event inside a stream that began well.
fn in_band(body: &Value) -> ModelError {
    let error = body.get("error").unwrap_or(body);
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let message = if text("message").is_empty() { cut(&body.to_string()) } else { cut(text("message")) };
    match text("type") {
        "overloaded_error" => ModelError::Busy { status: 529, retry_after: None, message },
        "rate_limit_error" | "rate_limit_exceeded" => ModelError::Busy { status: 429, retry_after: None, message },
        "invalid_request_error" | "authentication_error" | "permission_error" => {
            ModelError::Refused { status: 400, message }
        }
        _ => ModelError::Failed { status: 500, message },
    }
}

fn of_status(status: u16, message: &str, retry_after: Option<Duration>) -> ModelError {
    let message = message.to_owned();
    match status {
        429 | 503 | 529 => ModelError::Busy { status, retry_after, message },
        408 | 409 | 500.. => ModelError::Failed { status, message },
        _ => ModelError::Refused { status, message },
    }
}

/// What the body of a refusal says, without the rest of it.
fn said(error: &genai::Error) -> String {
    let body = match error {
        genai::Error::HttpError { body, .. } => body.as_str(),
        genai::Error::WebModelCall { webc_error: genai::webc::Error::ResponseFailedStatus { body, .. }, .. }
        | genai::Error::WebAdapterCall { webc_error: genai::webc::Error::ResponseFailedStatus { body, .. }, .. } => {
            body.as_str()
        }
        _ => "",
    };
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let message = parsed.as_ref().and_then(|body| {
        body.pointer("/error/message").or_else(|| body.get("message")).or_else(|| body.get("error"))?.as_str()
    });
    cut(message.unwrap_or(body))
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    number("retry-after-ms")
        .map(Duration::from_millis)
        .or_else(|| number(RETRY_AFTER.as_str()).map(Duration::from_secs))
}

/// What lies below an error of the HTTP client.
fn from_source(error: &(dyn std::error::Error + 'static)) -> ModelError {
    let mut reasons = vec![error.to_string()];
    let mut connecting = false;
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(http) = error.downcast_ref::<reqwest::Error>() {
            connecting |= http.is_connect();
        }
        if let Some(egress) = error.downcast_ref::<EgressError>() {
            return egress_error(egress);
        }
        if let Some(genai) = error.downcast_ref::<genai::Error>()
            && let Some(status) = genai.status()
        {
            return of_status(status.as_u16(), &said(genai), genai.headers().and_then(retry_after));
        }
        next = error.source();
        reasons.extend(next.map(ToString::to_string));
    }
    let reason = cut(reasons.last().map_or("", String::as_str));
    if connecting { ModelError::Unreachable { reason } } else { ModelError::BrokenOff { reason } }
}

fn egress_error(error: &EgressError) -> ModelError {
    match error {
        EgressError::Blocked(_) => ModelError::Blocked { reason: error.to_string() },
        other => ModelError::Unreachable { reason: other.to_string() },
    }
}

fn cut(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(SAID) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
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
