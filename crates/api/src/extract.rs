//! Path and query parameters whose faults are problem JSON like all others.

use axum::extract::{FromRequestParts, Path as AxumPath, Query as AxumQuery};
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::problem::ApiError;

/// The parameters in the path.
pub(crate) struct Path<T>(pub(crate) T);

/// The parameters in the query.
pub(crate) struct Query<T>(pub(crate) T);

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
