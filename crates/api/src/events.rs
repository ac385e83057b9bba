//! What happens, as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::broadcast::error::RecvError;
use toolcrib_executor::Event;

use crate::auth::{Access, Principal};
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// Follow what happens: calls, egress blocks, changes of the catalog, lost traces
///
/// The stream begins now and holds nothing of the past. A listener that is too slow loses events and gets a `lagged`
/// event with their number.
#[utoipa::path(get, path = "/v1/events", tag = "events", security(("token" = [])),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = 403, body = ProblemBody)))]
pub(crate) async fn follow(
    State(state): State<ApiState>,
    principal: Principal,
) -> Result<Sse<impl Stream<Item = Result<SseEvent, Infallible>>>, ApiError> {
    principal.may(Access::FollowEvents)?;
    let receiver = state.executor.events().subscribe();
    let stream = unfold((receiver, state, principal), |(mut receiver, state, principal)| async {
        loop {
            let received = tokio::select! {
                () = state.shutdown.cancelled() => return None,
                received = receiver.recv() => received,
            };
            // A token that was revoked meanwhile is shown nothing more.
            if principal.token_id.as_ref().is_some_and(|id| !state.tokens.is_good(id)) {
                return None;
            }
            let event = match received {
                Ok(event) if !visible(&event, &principal) => continue,
                Ok(event) => {
                    let data = event.data.to_string();
                    SseEvent::default().id(event.id.to_string()).event(event.kind.as_str()).data(data)
                }
                Err(RecvError::Lagged(lost)) => {
                    SseEvent::default().event("lagged").data(format!("{{\"lost\":{lost}}}"))
                }
                Err(RecvError::Closed) => return None,
            };
            return Some((Ok(event), (receiver, state, principal)));
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

fn visible(event: &Event, principal: &Principal) -> bool {
    event.agent.as_deref().is_none_or(|agent| principal.sees_agent(agent))
}
