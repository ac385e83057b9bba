//! Load over keep-alive connections, bounded in time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// What a round of load came to.
pub struct Round {
    /// Requests a second.
    pub rate: f64,
    /// The time that 99 of 100 requests stay under.
    pub p99: Duration,
}

/// Sends the same request over and over on `connections` connections for `time`.
pub async fn run(
    address: SocketAddr,
    connections: usize,
    time: Duration,
    request: impl Fn() -> anyhow::Result<Request<Full<Bytes>>> + Clone + Send + 'static,
) -> anyhow::Result<Round> {
    let started = Instant::now();
    let tasks: Vec<_> = (0..connections)
        .map(|_| {
            let request = request.clone();
            tokio::spawn(async move {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection);
                let mut times = Vec::new();
                while started.elapsed() < time {
                    let sent = Instant::now();
                    let response = sender.send_request(request()?).await?;
                    anyhow::ensure!(response.status().is_success(), "HTTP {}", response.status());
                    response.into_body().collect().await?;
                    times.push(sent.elapsed());
                }
                anyhow::Ok(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    let elapsed = started.elapsed();
    times.sort();
    Ok(Round { rate: times.len() as f64 / elapsed.as_secs_f64(), p99: super::quantile(&times, 0.99) })
}
