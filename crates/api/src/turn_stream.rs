//! A turn as server-sent events, each named after what happens.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde_json::json;
use toolcrib_turn::{TurnEvent, TurnHandle};

use crate::auth::Principal;
use crate::state::ApiState;

/// How often an idle stream says that it lives.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The events of a turn until its end, the turn itself first.
pub(crate) fn stream_of(
    state: ApiState,
    principal: Principal,
    turn: TurnHandle,
) -> Sse<impl Stream<Item = Result<SseEvent, Infallible>>> {
    let events = unfold((Following::new(state, principal, turn), false), |(mut following, began)| async move {
        let event = match began {
            false => {
                let data = json!({ "id": following.turn.id(), "session": following.turn.session() });
                SseEvent::default().event("turn").data(data.to_string())
            }
            true => {
                let event = following.next().await?;
                let data = serde_json::to_string(&*event).unwrap_or_default();
                SseEvent::default().event(event.name()).data(data)
            }
        };
        Some((Ok(event), (following, true)))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// Somebody who follows a turn, as long as their token is good and the server serves.
pub(crate) struct Following {
    state: ApiState,
    principal: Principal,
    pub(crate) turn: TurnHandle,
}

impl Following {
    pub(crate) fn new(state: ApiState, principal: Principal, turn: TurnHandle) -> Self {
        Self { state, principal, turn }
    }

    /// The next thing that happens; none when there is nothing more to be told.
    pub(crate) async fn next(&mut self) -> Option<Arc<TurnEvent>> {
        let event = tokio::select! {
            event = self.turn.next() => event,
            () = self.state.shutdown.cancelled() => return None,
        };
        if self.principal.token_id.as_ref().is_some_and(|id| !self.state.tokens.is_good(id)) {
            return None;
        }
        event.inspect_err(|error| tracing::warn!(error = %error, "api.turn.follow failed")).ok().flatten()
    }
}
