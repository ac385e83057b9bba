//! A body of server-sent events, read as it comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::{StreamExt, unfold};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use sse_stream::{Sse, SseByteStream};
use tokio::time::Instant;
use toolcrib_egress::{Completeness, Streamed};

use crate::error::McpError;

/// Whether an answer is a stream of events.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
}

/// The events of a body until `deadline`, each at most `most` bytes. Bounded by the bound of the body too.
pub(crate) fn events(
    body: Streamed,
    deadline: Instant,
    most: usize,
) -> impl Stream<Item = Result<Sse, McpError>> + Send + Unpin {
    let since_event = Arc::new(AtomicUsize::new(0));
    let read = Arc::clone(&since_event);
    let chunks = unfold(Some((body, read)), move |state| async move {
        let (mut body, read) = state?;
        match body.chunk(deadline).await {
            Ok(Some(bytes)) if read.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len() > most => {
                Some((Err(Cut(Completeness::OverBound(most))), None))
            }
            Ok(Some(bytes)) => Some((Ok::<Bytes, Cut>(bytes), Some((body, read)))),
            Ok(None) => None,
            Err(completeness) => Some((Err(Cut(completeness)), None)),
        }
    });
    let events = SseByteStream::new(Box::pin(chunks));
    Box::pin(events.map(move |event| {
        since_event.store(0, Ordering::Relaxed);
        event.map_err(|error| match error {
            sse_stream::Error::Body(error) => match error.downcast::<Cut>() {
                Ok(cut) => cut.0.into(),
                Err(_) => McpError::protocol("the stream broke off"),
            },
            other => McpError::protocol(format!("the stream is no valid text/event-stream: {other}")),
        })
    }))
}

/// Why a body ended before its end, as an error that goes through the parser.
#[derive(Debug, thiserror::Error)]
#[error("the body is not whole: {0:?}")]
struct Cut(Completeness);
