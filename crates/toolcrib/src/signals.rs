//! Signals: the first asks to end, the second insists, and SIGHUP reads the secrets again.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels `shutdown` at the first SIGINT or SIGTERM, and ends the process at the second.
pub(crate) async fn watch(shutdown: CancellationToken) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    for first in [true, false] {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if first {
            tracing::info!("shutting down: calls in flight are let end; a second signal stops at once");
            shutdown.cancel();
        }
    }
    tracing::warn!("stopped by a second signal");
    std::process::exit(130);
}

/// Calls `reload` at each SIGHUP.
pub(crate) async fn on_hangup(mut reload: impl FnMut()) -> std::io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    while hangup.recv().await.is_some() {
        reload();
    }
    Ok(())
}
