//! A stream that counts the bytes written to it, so that a failure is known to be *not sent* or
//! *in doubt*. It stands above TLS: nothing of the request is out before a byte is counted.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

pub(crate) struct Counted<S> {
    inner: S,
    written: Arc<AtomicU64>,
}

impl<S> Counted<S> {
    pub(crate) fn new(inner: S) -> (Self, Arc<AtomicU64>) {
        let written = Arc::new(AtomicU64::new(0));
        (Self { inner, written: Arc::clone(&written) }, written)
    }

    /// Counts before the bytes are handed on: a write that fails half-way may have sent some.
    fn count(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::SeqCst);
    }
}

impl<S: Read + Unpin> Read for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: Write + Unpin> Write for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        if !buf.is_empty() {
            self.count(buf.len());
        }
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
