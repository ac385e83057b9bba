//! How many exchanges run with each host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Counts exchanges by host and port.
pub(crate) struct InFlight {
    each: usize,
    hosts: Arc<Mutex<HashMap<Arc<str>, Arc<Semaphore>>>>,
}

/// A place among the exchanges of a host, given back when it is dropped.
pub(crate) struct Place {
    permit: Option<OwnedSemaphorePermit>,
    host: Arc<str>,
    hosts: Arc<Mutex<HashMap<Arc<str>, Arc<Semaphore>>>>,
}

impl InFlight {
    pub(crate) fn new(each: usize) -> Self {
        Self { each: each.max(1), hosts: Arc::default() }
    }

    /// Waits for a place.
    pub(crate) async fn enter(&self, host: Arc<str>) -> Place {
        let semaphore = {
            let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(hosts.entry(Arc::clone(&host)).or_insert_with(|| Arc::new(Semaphore::new(self.each))))
        };
        // The semaphore is never closed, so there is always a permit in the end.
        let permit = semaphore.acquire_owned().await.ok();
        Place { permit, host, hosts: Arc::clone(&self.hosts) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        // The map is one owner; any other is an exchange that runs or waits.
        if hosts.get(&self.host).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            hosts.remove(&self.host);
        }
    }
}
