//! Bounds of one exchange.

use std::time::Duration;

/// Bounds of one exchange. Every one is always on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// DNS, TCP and TLS together. Default 10 s.
    pub connect: Duration,
    /// From the request to the first byte of the answer. Default 600 s: the time of the call decides.
    pub first_byte: Duration,
    /// The largest body of an answer in bytes, after decompression. Default 1 MiB.
    pub body_bytes: usize,
    /// The largest head of an answer in bytes. Default 64 KiB.
    pub head_bytes: usize,
    /// Exchanges with one host and port at the same time; more wait. Default 64.
    pub in_flight_per_host: usize,
    /// How long an idle connection is kept for the next read. Default 30 s.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(600),
            body_bytes: 1 << 20,
            head_bytes: 64 << 10,
            in_flight_per_host: 64,
            idle: Duration::from_secs(30),
        }
    }
}
