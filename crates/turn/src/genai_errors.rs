//! What went wrong with a provider, out of the errors of the genai crate.

use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;
use toolcrib_egress::EgressError;

use crate::frame_guard::Refused;
use crate::model::ModelError;

/// How much of what a provider says is passed on, in characters.
const SAID: usize = 500;

/// What the guard of events said, or a fault of the crate itself.
pub(crate) fn of_panic(panic: &(dyn std::any::Any + Send)) -> ModelError {
    let reason = panic.downcast_ref::<Refused>().map(|Refused(reason)| reason.clone());
    ModelError::Unreadable { reason: reason.unwrap_or_else(|| "reading it failed inside".to_owned()) }
}

pub(crate) fn model_error(error: &genai::Error) -> ModelError {
    if let Some(status) = error.status() {
        return of_status(status.as_u16(), &said(error), error.headers().and_then(retry_after));
    }
    match error {
        genai::Error::WebStream { error, .. } => from_source(&**error),
        genai::Error::WebModelCall { webc_error, .. } | genai::Error::WebAdapterCall { webc_error, .. } => {
            from_source(webc_error)
        }
        genai::Error::ChatResponse { body, .. } => in_band(body),
        other => ModelError::Unreadable { reason: other.to_string() },
    }
}

/// An error event inside a stream that began well.
fn in_band(body: &Value) -> ModelError {
    let error = body.get("error").unwrap_or(body);
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let message = if text("message").is_empty() { body.to_string() } else { text("message").to_owned() };
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
    message.unwrap_or(body).to_owned()
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
    let reason = reasons.pop().unwrap_or_default();
    if connecting { ModelError::Unreachable { reason } } else { ModelError::BrokenOff { reason } }
}

pub(crate) fn egress_error(error: &EgressError) -> ModelError {
    match error {
        EgressError::Blocked(_) => ModelError::Blocked { reason: error.to_string() },
        other => ModelError::Unreachable { reason: other.to_string() },
    }
}

/// What is passed on of what a provider says.
pub(crate) fn cut(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(SAID) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
