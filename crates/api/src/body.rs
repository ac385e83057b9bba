//! Reading a JSON body exactly, within bounds of size and time.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value};
use toolcrib_definition::json::{ReadOptions, kind_of, read};

use crate::problem::ApiError;

/// The largest body, in bytes (4 MiB).
pub const MAX_BODY: usize = 4 << 20;
/// The largest manifest, in bytes (64 MiB).
pub const MAX_MANIFEST: usize = 64 << 20;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A JSON body of at most [`MAX_BODY`] bytes.
pub(crate) struct JsonBody(pub(crate) Value);

/// A JSON body of at most [`MAX_MANIFEST`] bytes.
pub(crate) struct ManifestBody(pub(crate) Value);

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        read_json(request, MAX_BODY).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequest<S> for ManifestBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        read_json(request, MAX_MANIFEST).await.map(Self)
    }
}

async fn read_json(request: Request, limit: usize) -> Result<Value, ApiError> {
    if let Some(kind) = request.headers().get(CONTENT_TYPE) {
        let text = kind.to_str().unwrap_or("unreadable");
        let media = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if media != "application/json" && !media.ends_with("+json") {
            return Err(ApiError::MediaType(media));
        }
    }
    let bytes = tokio::time::timeout(BODY_TIMEOUT, collect(request.into_body(), limit))
        .await
        .map_err(|_| ApiError::BodyTimeout { seconds: BODY_TIMEOUT.as_secs() })??;
    read(&bytes, ReadOptions { max_bytes: limit, ..ReadOptions::default() }).map_err(ApiError::Json)
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::TooLarge { limit }),
        Err(_) => Err(ApiError::BodyBroken),
    }
}

/// Gives a row the name of its address, where the body names none; another name is a mistake.
pub(crate) fn name_after_path(body: &mut Value, path: &str) -> Result<(), ApiError> {
    let Some(map) = body.as_object_mut() else { return Ok(()) };
    match map.entry("name").or_insert_with(|| path.into()) {
        Value::String(name) if name != path => {
            Err(ApiError::NameMismatch { body: name.clone(), path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

/// The keys of a request body, which is an object.
pub(crate) struct Keys(Map<String, Value>);

impl Keys {
    /// Reads a body as an object with the `known` keys.
    pub(crate) fn of(body: Value, known: &[&str]) -> Result<Self, ApiError> {
        let Value::Object(map) = body else {
            return Err(ApiError::Request(format!("the body is an object, not {}", kind_of(&body))));
        };
        match map.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => {
                Err(ApiError::Request(format!("the body has no key {key:?}; the keys are {}", known.join(", "))))
            }
            None => Ok(Self(map)),
        }
    }

    /// Takes a value out; null is none.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.0.shift_remove(key).filter(|value| !value.is_null())
    }

    /// Takes a string out.
    pub(crate) fn text(&mut self, key: &str) -> Result<Option<String>, ApiError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(ApiError::Request(format!("{key} is a string, not {}", kind_of(&other)))),
        }
    }

    /// Takes a boolean out.
    pub(crate) fn flag(&mut self, key: &str) -> Result<Option<bool>, ApiError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(ApiError::Request(format!("{key} is true or false, not {}", kind_of(&other)))),
        }
    }
}
