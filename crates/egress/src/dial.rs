//! Opening connections as a parameter.

use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A byte stream to a peer.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens a connection to an address that was judged.
#[async_trait]
pub trait Dial: Send + Sync {
    /// Connects.
    ///
    /// # Errors
    /// What the operating system says.
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>>;
}

/// TCP, with Nagle's delay off.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpDialler;

#[async_trait]
impl Dial for TcpDialler {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}
