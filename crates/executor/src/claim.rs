//! A call of the ledger that this process works on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use toolcrib_egress::{Barrier, Withheld};
use toolcrib_store::{Lease, LedgerState, Settlement, Store, StoreError};

use crate::failpoint::failpoint;

/// The longest pause between two tries to write down how a call ended.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What this process holds, by the id of the call, each with the moment until which it surely holds it. Leases end
/// by the database's clock; this is ours, which nobody sets back.
#[derive(Default)]
pub(crate) struct Claims(Mutex<HashMap<String, Instant>>);

impl Claims {
    /// The ids that are held.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// The leases of these were prolonged.
    pub(crate) fn prolong(&self, ids: &[String], until: Instant) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            if let Some(place) = held.get_mut(id) {
                *place = until;
            }
        }
    }

    fn set(&self, id: &str, until: Instant) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), until);
    }

    fn until(&self, id: &str) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).copied()
    }

    fn forget(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// The right to run a call, until it is settled or dropped. When it is dropped without being settled, as by a panic,
/// the lease runs out and another takes the call over.
pub(crate) struct Claim {
    store: Store,
    claims: Arc<Claims>,
    lease: Lease,
    length: Duration,
    crossed: AtomicBool,
    /// Whether somebody elsewhere may wait for its end.
    announce: bool,
}

impl Claim {
    /// Holds a lease that was obtained at `since` or later.
    pub(crate) fn hold(
        store: Store,
        claims: Arc<Claims>,
        lease: Lease,
        length: Duration,
        since: Instant,
        announce: bool,
    ) -> Self {
        claims.set(&lease.id, since + length);
        Self { store, claims, lease, length, crossed: AtomicBool::new(false), announce }
    }

    pub(crate) fn id(&self) -> &str {
        &self.lease.id
    }

    pub(crate) fn owner(&self) -> &str {
        &self.lease.owner
    }

    /// Writes down how the call ended. A database that can't be written now is tried until it can, in the background:
    /// the outcome is known, and must not be lost.
    pub(crate) async fn settle(
        self,
        state: LedgerState,
        outcome: String,
        reason: Option<String>,
        running: &tokio_util::task::TaskTracker,
    ) {
        let settlement = Settlement { lease: self.lease.clone(), state, outcome, reason, announce: self.announce };
        match self.store.settle(settlement.clone()).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!(call = %self.lease.id, "the call was settled by somebody else"),
            Err(error) => {
                tracing::error!(error = %error, reason = error.reason(), call = %self.lease.id,
                    "the end of a call waits for the database");
                running.spawn(settle_later(self.store.clone(), settlement, Some(self)));
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.forget(&self.lease.id);
    }
}

/// Tries until the database takes it, or never will. The claim is kept meanwhile, so that nobody else takes the call.
pub(crate) async fn settle_later(store: Store, settlement: Settlement, _claim: Option<Claim>) {
    let mut pause = Duration::from_millis(100);
    loop {
        tokio::time::sleep(pause).await;
        match store.settle(settlement.clone()).await {
            Ok(_) => return,
            Err(error) if error.retryable() => pause = (pause * 2).min(LONGEST_PAUSE),
            Err(error) => {
                tracing::error!(error = %error, reason = error.reason(), call = %settlement.lease.id,
                    "the end of a call can't be written down");
                return;
            }
        }
    }
}

#[async_trait]
impl Barrier for Claim {
    /// The last moment at which the call is known to be unsent.
    async fn cross(&self) -> Result<(), Withheld> {
        failpoint!("ledger::claimed");
        if !self.crossed.load(Ordering::SeqCst) {
            let since = Instant::now();
            let lease_ms = i64::try_from(self.length.as_millis()).unwrap_or(i64::MAX);
            match self.store.mark_sent(&self.lease, lease_ms).await {
                Ok(true) => {}
                Ok(false) => return Err(Withheld("somebody else took the call over".to_owned())),
                Err(error) => return Err(Withheld(database_failed(&error))),
            }
            self.crossed.store(true, Ordering::SeqCst);
            self.claims.set(&self.lease.id, since + self.length);
            failpoint!("ledger::sent");
        }
        // Who was held up for longer than the lease is no longer the one to send.
        match self.claims.until(&self.lease.id) {
            Some(until) if Instant::now() < until => Ok(()),
            _ => Err(Withheld("it took so long that the call may be somebody else's by now".to_owned())),
        }
    }
}

fn database_failed(error: &StoreError) -> String {
    format!("it could not be written down that it is about to be sent: {error}")
}
