//! The connector that judges the address it dials.
//!
//! The name is resolved once, every answer is judged, and the socket goes to an address that was
//! judged. Nothing between can change the answer, so a name that resolves differently the second
//! time has no second time.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tower_service::Service;

use crate::dial::{Dial, Stream};
use crate::error::{EgressError, Phase};
use crate::policy::{MixedAnswers, Policy};
use crate::resolve::Resolve;
use crate::target::{Target, TargetHost};

/// The least time that one of several addresses is given.
const MIN_SHARE: Duration = Duration::from_millis(250);

/// Policy, resolver and dialler together: the only way to a socket.
#[derive(Clone)]
pub struct Guard {
    policy: Arc<Policy>,
    resolver: Arc<dyn Resolve>,
    dialler: Arc<dyn Dial>,
    connect_timeout: Duration,
}

impl Guard {
    /// A guard of this policy.
    pub fn new(
        policy: Arc<Policy>,
        resolver: Arc<dyn Resolve>,
        dialler: Arc<dyn Dial>,
        connect_timeout: Duration,
    ) -> Self {
        Self { policy, resolver, dialler, connect_timeout }
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The addresses a target may be dialled at, in the order of the resolver.
    ///
    /// # Errors
    /// [`EgressError::Resolve`] when there is none, [`EgressError::Blocked`] when the policy refuses.
    pub async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, EgressError> {
        let answers = match target.host() {
            TargetHost::Address(address) => vec![*address],
            TargetHost::Name(name) => {
                let failed = |reason| EgressError::Resolve { host: name.clone(), reason };
                let answers = self.resolver.resolve(name).await.map_err(|error| failed(error.reason))?;
                if answers.is_empty() {
                    return Err(failed("the name has no address".to_owned()));
                }
                answers
            }
        };
        let mut allowed = Vec::with_capacity(answers.len());
        let mut refused = None;
        for address in answers {
            match self.policy.judge_address(address) {
                Ok(()) => allowed.push(SocketAddr::new(address.to_canonical(), target.port())),
                Err(blocked) => refused = refused.or(Some(blocked)),
            }
        }
        match refused {
            Some(blocked) if allowed.is_empty() || self.policy.mixed_answers == MixedAnswers::Deny => {
                Err(blocked.into())
            }
            _ => Ok(allowed),
        }
    }

    /// Connects to the first address that accepts.
    ///
    /// # Errors
    /// As [`Guard::addresses`], and [`EgressError::Connect`] or [`EgressError::Timeout`].
    pub async fn connect(&self, target: &Target) -> Result<Box<dyn Stream>, EgressError> {
        let connecting = async {
            let mut last = String::new();
            let addresses = self.addresses(target).await?;
            for (i, address) in addresses.iter().enumerate() {
                // One address that never answers leaves time for the others.
                let left = addresses.len() - i;
                let share = self.connect_timeout / u32::try_from(left).unwrap_or(u32::MAX);
                match tokio::time::timeout(share.max(MIN_SHARE), self.dialler.dial(*address)).await {
                    Ok(Ok(stream)) => return Ok(stream),
                    Ok(Err(error)) => last = error.to_string(),
                    Err(_) => last = format!("{address} does not answer"),
                }
            }
            Err(EgressError::Connect { host: target.authority().to_string(), reason: last })
        };
        match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(result) => result,
            Err(_) => Err(EgressError::Timeout { phase: Phase::Connect, limit: self.connect_timeout }),
        }
    }
}

/// [`Guard`] as the connector of hyper's clients.
#[derive(Clone)]
pub(crate) struct GuardConnector(pub(crate) Guard);

impl Service<Uri> for GuardConnector {
    type Response = GuardedStream;
    type Error = EgressError;
    type Future = Pin<Box<dyn Future<Output = Result<GuardedStream, EgressError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), EgressError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let guard = self.0.clone();
        Box::pin(async move {
            let target = guard.policy.check_url(&uri.to_string())?;
            Ok(GuardedStream(TokioIo::new(guard.connect(&target).await?)))
        })
    }
}

/// A stream to an address that was judged.
pub(crate) struct GuardedStream(TokioIo<Box<dyn Stream>>);

impl Connection for GuardedStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for GuardedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl hyper::rt::Write for GuardedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }
}
