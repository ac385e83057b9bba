//! Whether the server lives, is ready, and what it counts.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::auth::{Access, Principal};
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// Say that the process lives
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, body = String)))]
pub(crate) async fn alive() -> &'static str {
    "alive\n"
}

/// Say whether requests may come
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, body = String), (status = 503, body = String, description = "Starting, stopping, or without its database")))]
pub(crate) async fn ready(State(state): State<ApiState>) -> Response {
    if !state.ready.load(Ordering::SeqCst) {
        return (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping\n").into_response();
    }
    match state.registry().store().revision().await {
        Ok(_) => "ready\n".into_response(),
        Err(error) => {
            tracing::warn!(error = %error, "api.ready failed");
            (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", error.code())).into_response()
        }
    }
}

/// Give the metrics in Prometheus' text format
#[utoipa::path(get, path = "/metrics", tag = "operations", security(("token" = [])),
    responses((status = 200, body = String), (status = 403, body = ProblemBody)))]
pub(crate) async fn metrics(State(state): State<ApiState>, principal: Principal) -> Result<Response, ApiError> {
    principal.may(Access::Observe)?;
    let mut text = String::new();
    encode(&mut text, &state.metrics).map_err(|_| ApiError::Internal)?;
    // What is read off the running parts is put in front of the counters, whose text ends with EOF.
    let mut now = Registry::default();
    let tools = Gauge::<i64>::default();
    tools.set(i64::try_from(state.registry().snapshot().tool_count()).unwrap_or(i64::MAX));
    now.register("toolcrib_tools", "Tools in the catalog", tools);
    let breakers = Family::<Vec<(String, String)>, Gauge>::default();
    for breaker in state.executor.dispatch().breakers() {
        let value = i64::from(breaker.state.as_str() != "closed");
        breakers.get_or_create(&vec![("host".to_owned(), breaker.host)]).set(value);
    }
    now.register("toolcrib_breaker_open", "Hosts that failed lately; 1 when calls are paused", breakers);
    let mut current = String::new();
    encode(&mut current, &now).map_err(|_| ApiError::Internal)?;
    let current = current.trim_end().trim_end_matches("# EOF");
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], format!("{current}{text}")).into_response())
}
