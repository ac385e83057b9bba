//! Path and query parameters whose faults are problem JSON like all others.

use axum::extract::{FromRequestParts, Path as AxumPath, Query as AxumQuery};
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::problem::ApiError;

/// The parameters in the path.
pub(crate) struct Path<T>(pub(crate) T);

/// The parameters in the query.
pub(crate) struct Query<T>(pub(crate) T);

/// The state that a query names, of all that there are.
///
/// # Errors
/// When there is none of that name.
pub(crate) fn state_named<S: Copy>(
    word: Option<&str>,
    all: &[S],
    as_str: fn(S) -> &'static str,
) -> Result<Option<S>, ApiError> {
    let Some(word) = word else { return Ok(None) };
    let found = all.iter().copied().find(|state| as_str(*state) == word);
    found.map(Some).ok_or_else(|| {
        let known = all.iter().map(|state| as_str(*state)).collect::<Vec<_>>().join(", ");
        ApiError::Request(format!("there is no state {word:?}; there are {known}"))
    })
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = AxumPath::<T>::from_request_parts(parts, state).await;
        read.map(|AxumPath(value)| Self(value)).map_err(|fault| ApiError::Request(fault.body_text()))
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = AxumQuery::<T>::from_request_parts(parts, state).await;
        read.map(|AxumQuery(value)| Self(value)).map_err(|fault| ApiError::Request(fault.body_text()))
    }
}
