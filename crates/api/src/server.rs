//! Serving the router over HTTP/1.1, with or without TLS, until shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Bounds of the serving side.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// How long a client may take to send the head of a request. Default 10 s.
    pub header_timeout: Duration,
    /// The largest head of a request, in bytes. Default 64 KiB.
    pub max_head: usize,
    /// Connections at the same time; more wait to be accepted. Default 4,096.
    pub max_connections: usize,
    /// How long calls in flight may take to end after shutdown began. Default 60 s.
    pub drain: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            max_head: 64 << 10,
            max_connections: 4_096,
            drain: Duration::from_secs(60),
        }
    }
}

/// A listener with what it serves.
pub struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    settings: ServerSettings,
}

impl Server {
    /// Binds an address.
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn bind(
        address: SocketAddr,
        tls: Option<Arc<rustls::ServerConfig>>,
        router: Router,
        settings: ServerSettings,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener, tls: tls.map(TlsAcceptor::from), router, settings })
    }

    /// The address that was bound, with its real port.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown`, then lets the requests in flight end. Tells whether they all did.
    pub async fn run(self, shutdown: CancellationToken) -> bool {
        let Server { listener, tls, router, settings } = self;
        let graceful = GracefulShutdown::new();
        let places = Arc::new(Semaphore::new(settings.max_connections));
        loop {
            let place = tokio::select! {
                () = shutdown.cancelled() => break,
                place = Arc::clone(&places).acquire_owned() => place,
            };
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let (stream, router, settings) = match accepted {
                Ok((stream, _)) => (stream, router.clone(), settings.clone()),
                Err(error) => {
                    // Out of file descriptors, most likely: a moment helps, a busy loop does not.
                    tracing::warn!(error = %error, "api.connection.accept failed");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (tls, watcher) = (tls.clone(), graceful.watcher());
            tokio::spawn(async move {
                let _place = place;
                serve(stream, tls, router, &settings, watcher).await;
            });
        }
        drop(listener);
        tokio::time::timeout(settings.drain, graceful.shutdown()).await.is_ok()
    }
}

async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    settings: &ServerSettings,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Small answers should not wait for the client's acknowledgement.
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve_http(stream, router, settings, watcher).await,
        Some(tls) => match tokio::time::timeout(settings.header_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => serve_http(stream, router, settings, watcher).await,
            Ok(Err(error)) => tracing::debug!(error = %error, "api.connection.tls failed"),
            Err(_) => tracing::debug!("api.connection.tls timed out"),
        },
    }
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: Router,
    settings: &ServerSettings,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let service = router.map_request(|request: http::Request<Incoming>| request.map(axum::body::Body::new));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_buf_size(settings.max_head.max(8 << 10))
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(error = %error, "api.connection ended");
    }
}
