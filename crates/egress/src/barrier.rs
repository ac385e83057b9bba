//! What stands before the first byte of a request with a side effect.

use async_trait::async_trait;

/// Why a request was not sent although its connection stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld(
    /// Why, in words for an operator.
    pub String,
);

/// Is crossed once a connection stands, and before any byte of the request: the place to write down that the
/// request is about to be sent.
#[async_trait]
pub trait Barrier: Send + Sync {
    /// Returns when the first byte may be sent.
    ///
    /// # Errors
    /// [`Withheld`] when it may not. Then nothing is sent.
    async fn cross(&self) -> Result<(), Withheld>;
}

/// Nothing to write down.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBarrier;

#[async_trait]
impl Barrier for NoBarrier {
    async fn cross(&self) -> Result<(), Withheld> {
        Ok(())
    }
}
