//! What happens, for the script of a page: the API's own stream, with the token of the session.

use axum::Extension;
use axum::response::{IntoResponse, Response};

use crate::operator::Operator;

/// Follows what happens, as long as the page is open.
pub(crate) async fn follow(Extension(operator): Extension<Operator>) -> Response {
    match operator.api.stream("/v1/events").await {
        Ok(response) => response,
        Err(failure) => failure.into_response(),
    }
}
