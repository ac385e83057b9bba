//! What changed, for whoever waits for it.

use tokio::sync::broadcast;

/// How many changes a slow listener may lag behind; it then looks at everything.
const KEPT: usize = 256;

/// What kind of rows changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Tools, skills, agents, MCP servers or tokens.
    Catalog,
    /// A call of the ledger may run now.
    Ready,
    /// A call of the ledger ended, or waits for a person.
    Settled,
    /// A turn ended, waits for a person, or is asked to end.
    Turn,
}

impl Change {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Change::Catalog => "catalog",
            Change::Ready => "ready",
            Change::Settled => "settled",
            Change::Turn => "turn",
        }
    }

    pub(crate) fn named(word: &str) -> Option<Self> {
        [Change::Catalog, Change::Ready, Change::Settled, Change::Turn]
            .into_iter()
            .find(|change| change.as_str() == word)
    }
}

/// The stream of changes. A change is told after it was committed; none may be relied on to be told, so
/// whoever waits also looks now and then.
#[derive(Debug, Clone)]
pub struct Changes(broadcast::Sender<Change>);

impl Default for Changes {
    fn default() -> Self {
        Self(broadcast::Sender::new(KEPT))
    }
}

impl Changes {
    /// Listens from now on.
    pub fn listen(&self) -> ChangeListener {
        ChangeListener(self.0.subscribe())
    }

    pub(crate) fn tell(&self, change: Change) {
        // An error means that nobody listens.
        let _ = self.0.send(change);
    }
}

/// A listener to [`Changes`].
#[derive(Debug)]
pub struct ChangeListener(broadcast::Receiver<Change>);

impl ChangeListener {
    /// Waits for the next change of this kind. Changes that were missed count as one.
    pub async fn next(&mut self, wanted: Change) {
        loop {
            match self.0.recv().await {
                Ok(change) if change != wanted => {}
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                // The store is gone, and with it what could change.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}
