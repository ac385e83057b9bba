//! Streams that tell a client that its tools changed.

use axum::response::Response;
use futures_util::stream::{self, StreamExt};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use toolcrib_store::Revision;

use super::address::Caller;
use super::calls::event_stream;
use super::rpc::{notification, result};
use crate::state::ApiState;

/// The key that names the subscription a message belongs to.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// `subscriptions/listen` of the current era.
pub(super) fn listen(state: ApiState, caller: Caller, id: Value, params: &Map<String, Value>) -> Response {
    let filter = params.get("notifications").cloned().unwrap_or_default();
    let wants_tools = filter.get("toolsListChanged") == Some(&Value::Bool(true));
    let agreed = if wants_tools { json!({ "toolsListChanged": true }) } else { json!({}) };
    let meta = json!({ SUBSCRIPTION: id });
    let taken =
        notification("notifications/subscriptions/acknowledged", json!({ "notifications": agreed, "_meta": meta }));
    let told = notification("notifications/tools/list_changed", json!({ "_meta": meta }));
    let over = result(&id, json!({ "resultType": "complete", "_meta": meta }));
    let changes = changes(state, caller, wants_tools).map(move |()| told.clone());
    event_stream(stream::once(std::future::ready(taken)).chain(changes).chain(stream::once(std::future::ready(over))))
}

/// The stream that a legacy client opens with GET.
pub(super) fn legacy(state: ApiState, caller: Caller) -> Response {
    let told = notification("notifications/tools/list_changed", json!({}));
    event_stream(changes(state, caller, true).map(move |()| told.clone()))
}

/// An element for each change of the agent's own list, until shutdown or until the token is no longer good.
fn changes(state: ApiState, caller: Caller, wants_tools: bool) -> impl stream::Stream<Item = ()> + Send + 'static {
    let revisions = state.registry().changes();
    let mark = mark(&state, &caller);
    let begin = Following { state, caller, revisions, mark };
    stream::unfold(begin, move |mut following| async move {
        loop {
            tokio::select! {
                () = following.state.shutdown.cancelled() => return None,
                changed = following.revisions.changed() => changed.ok()?,
            }
            let token = following.caller.key.0.as_ref();
            if token.is_some_and(|id| !following.state.tokens.is_good(id)) {
                return None;
            }
            let now = mark_of(&following);
            if wants_tools && now != following.mark {
                following.mark = now;
                return Some(((), following));
            }
        }
    })
}

struct Following {
    state: ApiState,
    caller: Caller,
    revisions: watch::Receiver<Revision>,
    mark: Option<u64>,
}

fn mark_of(following: &Following) -> Option<u64> {
    mark(&following.state, &following.caller)
}

/// What the agent's list is, in short; none when there is no such agent any more.
fn mark(state: &ApiState, caller: &Caller) -> Option<u64> {
    let snapshot = state.registry().snapshot();
    Some(state.mcp_parts.lists.list(&snapshot, &caller.agent_id)?.mark)
}
