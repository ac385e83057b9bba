//! The turns that are worked on or followed in this process.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio_util::sync::CancellationToken;
use toolcrib_store::{Clock, SessionKey};

use crate::event::EventLog;

/// The turns that are worked on or followed in this process, by id.
pub(crate) struct LiveTurns {
    turns: Mutex<HashMap<String, Live>>,
    clock: Arc<dyn Clock>,
}

struct Live {
    log: Weak<EventLog>,
    cancel: CancellationToken,
    of: SessionKey,
}

impl LiveTurns {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { turns: Mutex::default(), clock }
    }

    /// The log of a turn in this process, and what cancels it here.
    pub(crate) fn enlist(&self, id: &str, of: SessionKey) -> (Arc<EventLog>, CancellationToken) {
        let mut live = self.lock();
        if let Some(known) = live.get(id)
            && let Some(log) = known.log.upgrade()
        {
            return (log, known.cancel.clone());
        }
        let (log, cancel) = (Arc::new(EventLog::new(Arc::clone(&self.clock))), CancellationToken::new());
        live.retain(|_, known| known.log.strong_count() > 0);
        live.insert(id.to_owned(), Live { log: Arc::downgrade(&log), cancel: cancel.clone(), of });
        (log, cancel)
    }

    /// Asks a turn that is worked on here for its end.
    pub(crate) fn cancel(&self, id: &str) {
        if let Some(live) = self.lock().get(id) {
            live.cancel.cancel();
        }
    }

    /// Their sessions.
    pub(crate) fn sessions(&self) -> Vec<SessionKey> {
        let live = self.lock();
        let here: HashSet<&SessionKey> =
            live.values().filter(|known| known.log.strong_count() > 0).map(|known| &known.of).collect();
        here.into_iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Live>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
