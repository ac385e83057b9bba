//! The stream on which a server tells that its tools changed.

use futures_util::StreamExt;
use serde_json::json;
use tokio::time::Instant;

use crate::client::McpClient;
use crate::endpoint::Endpoint;
use crate::error::{McpError, McpFailure};
use crate::events::{events, is_event_stream};
use crate::exchange::{Exchange, Mode};
use crate::handler::reply;
use crate::message::{Received, receive};
use crate::session::Session;

impl McpClient {
    /// Opens the stream on which a server tells that its tools changed, and follows it until it ends.
    ///
    /// # Errors
    /// [`McpFailure`] when the server has no such stream, or it broke off.
    pub async fn follow(&self, endpoint: &Endpoint, until: Instant) -> Result<(), McpFailure> {
        let (slot, session) = self.session(endpoint, until).await?;
        let exchange = Exchange {
            inner: &self.0,
            endpoint,
            session: &session,
            mode: Mode::Repeatable,
            deadline: until,
            progress: None,
        };
        let stream = match &session {
            Session::Sse(session) => {
                session.ended().await;
                return Ok(());
            }
            Session::Legacy { .. } => exchange.get_stream(None, until).await?,
            Session::Current => {
                let filter = json!({ "notifications": { "toolsListChanged": true } });
                let params = filter.as_object().cloned().unwrap_or_default();
                exchange.listen("subscriptions/listen", params).await?
            }
        };
        if !stream.status.is_success() || !is_event_stream(&stream.headers) {
            let status = stream.status.as_u16();
            if session.has_id() && matches!(status, 400 | 404) {
                self.forget(&slot, &session).await;
                return Err(McpFailure::unsent(McpError::SessionLost));
            }
            return Err(McpFailure::unsent(McpError::Http { status, body: "no stream of changes".to_owned() }));
        }
        let mut events = events(stream.without_place(), until, self.0.max_answer);
        while let Some(event) = events.next().await {
            let data = event.map_err(McpFailure::unsent)?.data.unwrap_or_default();
            match receive(data.as_bytes()) {
                Ok(Received::Notification { method, params }) => {
                    self.0.notified(endpoint, &method, &params);
                }
                Ok(Received::Request { id, method, params }) => {
                    let reply = reply(self.0.handler.as_ref(), &id, &method, &params).await;
                    exchange.notify(&reply).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
