//! Reading and decompressing the body of an answer under a bound.

use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use bytes::BytesMut;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout_at};

/// How much of a body was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// All of it.
    Whole,
    /// The connection ended before the body did.
    BrokenOff,
    /// The time was over before the body was.
    TimedOut,
    /// It is compressed in a way that can't be read.
    Unreadable,
    /// The body is larger than the bound, which is in bytes.
    OverBound(usize),
}

/// The encodings that are asked for and understood.
pub(crate) const ACCEPT_ENCODING: &str = "gzip, br, zstd";

/// The largest zstd window, 8 MiB, which is what RFC 9659 asks of HTTP clients.
const ZSTD_WINDOW_LOG: u32 = 23;

/// Reads at most `bound` bytes until `deadline`.
pub(crate) async fn collect(mut body: Incoming, bound: usize, deadline: Instant) -> (BytesMut, Completeness) {
    let mut out = BytesMut::new();
    loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => return (out, Completeness::BrokenOff),
            Ok(None) => return (out, Completeness::Whole),
            Err(_) => return (out, Completeness::TimedOut),
        };
        let Some(data) = frame.data_ref() else { continue };
        let room = bound - out.len();
        if data.len() > room {
            out.extend_from_slice(&data[..room]);
            return (out, Completeness::OverBound(bound));
        }
        out.extend_from_slice(data);
    }
}

/// Decompresses a body as its headers say, at most to `bound` bytes. A body that was cut short gives
/// what could be read of it; one whose encoding is not known, or does not fit its data, gives nothing.
pub(crate) async fn decompress(
    headers: &HeaderMap,
    body: BytesMut,
    completeness: Completeness,
    bound: usize,
) -> (Vec<u8>, Completeness) {
    let encodings: Vec<String> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .flat_map(|value| value.to_str().unwrap_or("unreadable").split(','))
        .map(|encoding| encoding.trim().to_ascii_lowercase())
        .filter(|encoding| !encoding.is_empty() && encoding != "identity")
        .collect();
    let mut data = Vec::from(body);
    let mut completeness = completeness;
    if encodings.len() > 2 {
        return (Vec::new(), Completeness::Unreadable);
    }
    if data.is_empty() {
        return (data, completeness);
    }
    for encoding in encodings.iter().rev() {
        let input = data.as_slice();
        let (decoded, end) = match encoding.as_str() {
            "gzip" | "x-gzip" => read_bounded(GzipDecoder::new(input), bound).await,
            "br" => read_bounded(BrotliDecoder::new(input), bound).await,
            "zstd" => {
                let parameters = [DParameter::window_log_max(ZSTD_WINDOW_LOG)];
                read_bounded(ZstdDecoder::with_params(input, &parameters), bound).await
            }
            _ => return (Vec::new(), Completeness::Unreadable),
        };
        match end {
            End::Whole => {}
            End::OverBound => completeness = Completeness::OverBound(bound),
            // Cut data can't be decoded to its end; what came is still worth reading.
            End::Failed if completeness != Completeness::Whole => {}
            End::Failed => return (Vec::new(), Completeness::Unreadable),
        }
        data = decoded;
    }
    (data, completeness)
}

enum End {
    Whole,
    OverBound,
    Failed,
}

async fn read_bounded(mut decoder: impl AsyncRead + Unpin, bound: usize) -> (Vec<u8>, End) {
    let mut out = Vec::new();
    let mut chunk = vec![0; 16 << 10];
    loop {
        match decoder.read(&mut chunk).await {
            Ok(0) => return (out, End::Whole),
            Ok(n) if out.len() + n > bound => {
                out.extend_from_slice(&chunk[..bound - out.len()]);
                return (out, End::OverBound);
            }
            Ok(n) => out.extend_from_slice(&chunk[..n]),
            Err(_) => return (out, End::Failed),
        }
    }
}
