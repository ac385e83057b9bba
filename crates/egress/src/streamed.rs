//! An answer whose body is still to be read, and the connection that it comes over.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, HeaderValue};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::body::{self, Completeness};
use crate::client::{Inbound, Timings};
use crate::in_flight::Place;

/// An answer whose body is read as it comes. Dropping it ends the exchange.
pub struct Streamed {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// How long each phase took until now.
    pub timings: Timings,
    body: Incoming,
    bound: usize,
    read: usize,
    place: Option<Place>,
    _driver: Option<Driver>,
}

impl Streamed {
    pub(crate) fn new(
        response: http::Response<Incoming>,
        timings: Timings,
        bound: usize,
        place: Place,
        driver: Option<Driver>,
    ) -> Self {
        let (head, body) = response.into_parts();
        let (status, headers) = (head.status, head.headers);
        Self { status, headers, timings, body, bound, read: 0, place: Some(place), _driver: driver }
    }

    /// The same answer with another bound on its body, in bytes.
    #[must_use]
    pub fn bounded(self, bound: usize) -> Self {
        Self { bound, ..self }
    }

    /// Gives the place among the exchanges of the host back: a stream that stays open for long would keep
    /// calls waiting.
    #[must_use]
    pub fn without_place(self) -> Self {
        Self { place: None, ..self }
    }

    /// Reads the body. The head has come, so there is an answer whatever happens now: how much of the
    /// body there is, is in `completeness`.
    pub async fn collect(self, deadline: Instant) -> Inbound {
        let Self { status, headers, mut timings, body, bound, place: _place, _driver, .. } = self;
        let started = Instant::now();
        let (raw, completeness) = body::collect(body, bound, deadline).await;
        let (body, completeness) = body::decompress(&headers, raw, completeness, bound).await;
        timings.body = started.elapsed();
        Inbound { status, headers, body, completeness, timings }
    }

    /// The next part of the body; none at its end.
    ///
    /// # Errors
    /// [`Completeness`], which says why there is no more: it broke off, the time is over, the body is over
    /// its bound, or it is compressed although that was not asked for.
    pub async fn chunk(&mut self, deadline: Instant) -> Result<Option<Bytes>, Completeness> {
        let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
        if !self.headers.get_all(CONTENT_ENCODING).iter().all(plain) {
            return Err(Completeness::Unreadable);
        }
        loop {
            let frame = match tokio::time::timeout_at(deadline, self.body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(_))) => return Err(Completeness::BrokenOff),
                Ok(None) => return Ok(None),
                Err(_) => return Err(Completeness::TimedOut),
            };
            let Ok(data) = frame.into_data() else { continue };
            self.read += data.len();
            if self.read > self.bound {
                return Err(Completeness::OverBound(self.bound));
            }
            return Ok(Some(data));
        }
    }
}

/// The task that drives a connection. It ends together with the exchange it belongs to.
pub(crate) struct Driver(pub(crate) tokio::task::JoinHandle<Result<(), hyper::Error>>);

impl Driver {
    /// Ends the task and waits until it has.
    pub(crate) async fn stop(&mut self) {
        self.0.abort();
        // Cancelled or ended by itself: either way it writes no more.
        let _ = (&mut self.0).await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}
