//! How many calls there were, for charts.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolcrib_store::CallCount;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Access, Principal};
use crate::extract::Query;
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;
use crate::traces::FLUSH;

const HOUR_MS: i64 = 3_600_000;

/// How far back is counted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActivityQuery {
    /// How many hours, 1 to 168; 24 when left out
    hours: Option<i64>,
}

/// The calls of the last hours.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ActivityBody {
    /// Oldest first; the last is the hour that goes on.
    hours: Vec<HourBody>,
}

/// The calls that began in an hour.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HourBody {
    /// When it began, in ms since 1970.
    at: i64,
    calls: i64,
    /// Those that ended as `error`, the blocked ones among them.
    errors: i64,
    /// Those that the egress policy blocked.
    blocked: i64,
}

/// Count the calls of the last hours
#[utoipa::path(get, path = "/v1/activity", tag = "operations", params(ActivityQuery), security(("token" = [])),
    responses((status = 200, body = ActivityBody), (status = 400, body = ProblemBody), (status = 403, body = ProblemBody)))]
pub(crate) async fn count(
    State(state): State<ApiState>,
    principal: Principal,
    Query(query): Query<ActivityQuery>,
) -> Result<Json<ActivityBody>, ApiError> {
    principal.may(Access::Observe)?;
    let hours = query.hours.unwrap_or(24);
    if !(1..=168).contains(&hours) {
        return Err(ApiError::Request("hours is 1 to 168".to_owned()));
    }
    state.executor.recorder().flush(FLUSH).await;
    let store = state.registry().store();
    let this_hour = store.clock().now_ms().div_euclid(HOUR_MS) * HOUR_MS;
    let since = this_hour - (hours - 1) * HOUR_MS;
    let mut counted = Vec::new();
    for hour in 0..hours {
        let at = since + hour * HOUR_MS;
        let CallCount { calls, errors, blocked } = store.count_calls(at, at + HOUR_MS).await?;
        counted.push(HourBody { at, calls, errors, blocked });
    }
    Ok(Json(ActivityBody { hours: counted }))
}
