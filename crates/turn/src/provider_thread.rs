//! The thread on which a provider's connections live and its answers are read.
//!
//! The genai crate reads on inside one poll as long as there are bytes, and copies what it has with each piece of an event that
//! does not end. With the connection on another thread there are always bytes, and then nothing that is polled beside it, a
//! limit or a cancellation, ever has its turn. On one thread with the connection there are none after each piece, so that
//! reading can be given up; and one provider that is read slowly slows no other.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

/// The thread of a provider. It ends when this is dropped.
pub(crate) struct ProviderThread {
    handle: Handle,
    _ends_it: oneshot::Sender<()>,
}

impl ProviderThread {
    pub(crate) fn start(provider: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (ends_it, ended) = oneshot::channel::<()>();
        let name = format!("provider {}", provider.chars().take(40).collect::<String>());
        std::thread::Builder::new().name(name.replace('\0', "")).spawn(move || runtime.block_on(ended))?;
        Ok(Self { handle, _ends_it: ends_it })
    }

    /// Works on something there, until the handle is dropped.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> AbortOnDropHandle<T> {
        AbortOnDropHandle::new(self.handle.spawn(work))
    }
}
