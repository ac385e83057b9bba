//! A call of the ledger that this process works on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use toolcrib_egress::{Barrier, Withheld};
use toolcrib_store::{Connected, Lease, LedgerState, NewCall, Proposal, QueuedProposal, Settlement, Store, StoreError};

use crate::failpoint::{self, failpoint};

/// The longest pause between two tries to write down how a call ended.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What is recorded when the outcome itself can't be.
const UNRECORDED: &str =
    r#"{"status":"error","result":{"error":"the outcome could not be recorded"},"code":"call.internal"}"#;

/// A call, and for the how-manieth time it is worked on.
type Held = (String, i64);

/// What this process holds, each with the moment until which it surely holds it. Leases end by the database's clock; this
/// is ours, which nobody sets back.
#[derive(Default)]
pub(crate) struct Claims(Mutex<HashMap<Held, Instant>>);

impl Claims {
    /// The ids that are held.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().map(|(id, _)| id.clone()).collect()
    }

    /// The leases of these were prolonged.
    pub(crate) fn prolong(&self, renewed: &[Held], until: Instant) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for claim in renewed {
            if let Some(place) = held.get_mut(claim) {
                *place = until.max(*place);
            }
        }
    }

    fn set(&self, lease: &Lease, until: Instant) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((lease.id.clone(), lease.epoch), until);
    }

    fn until(&self, lease: &Lease) -> Option<Instant> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(&(lease.id.clone(), lease.epoch)).copied()
    }

    fn forget(&self, lease: &Lease) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(lease.id.clone(), lease.epoch));
    }
}

/// What became of the end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It stands, or will.
    AsSaid,
    /// Somebody else took the call over; what stands is theirs.
    ByAnother,
    /// Nobody knows yet what will stand.
    NotYet,
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
    /// The proposal by which it is got, while the answer is not there.
    queued: Option<Queued>,
}

/// A proposal under way. The connection is made meanwhile, and when it stands first, the call is written down as sent.
struct Queued {
    connected: Connected,
    waiting: tokio::sync::Mutex<Option<QueuedProposal>>,
    /// What came instead of the claim.
    instead: OnceLock<Result<Proposal, StoreError>>,
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
        claims.set(&lease, since + length);
        Self { store, claims, lease, length, crossed: AtomicBool::new(false), announce, queued: None }
    }

    /// Holds what a proposal will give, and whether it does is asked later: [`Claim::made`].
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the store is closed.
    pub(crate) async fn queue(
        store: Store,
        claims: Arc<Claims>,
        call: NewCall,
        length: Duration,
    ) -> Result<Self, StoreError> {
        let (since, connected) = (Instant::now(), Connected::default());
        let lease = Lease { id: call.id.clone(), owner: call.owner.clone(), epoch: 1 };
        let waiting = store.queue_proposal(call, connected.clone()).await?;
        // From now on it is prolonged, as long as it may take to connect.
        claims.set(&lease, since + length);
        let waiting = tokio::sync::Mutex::new(Some(waiting));
        let queued = Some(Queued { connected, waiting, instead: OnceLock::new() });
        Ok(Self { store, claims, lease, length, crossed: AtomicBool::new(false), announce: false, queued })
    }

    /// Waits until the call is written down. Whether it is ours to run.
    pub(crate) async fn made(&self) -> bool {
        let Some(queued) = &self.queued else { return true };
        let mut waiting = queued.waiting.lock().await;
        if let Some(proposal) = waiting.as_mut() {
            let made = proposal.made().await;
            *waiting = None;
            match made {
                Ok(Proposal::Claimed(_)) => {
                    failpoint!("ledger::proposed");
                }
                Ok(Proposal::Sent(_)) => {
                    self.crossed.store(true, Ordering::SeqCst);
                    failpoint!("ledger::sent");
                }
                // It is set once: the answer was there once.
                other => drop(queued.instead.set(other)),
            }
        }
        queued.instead.get().is_none()
    }

    /// Waits until it is known that the call is not ours to run, which is for ever when it is.
    pub(crate) async fn lost(&self) {
        if self.made().await {
            std::future::pending::<()>().await;
        }
    }

    /// What came instead of the claim, when it is not ours.
    pub(crate) fn instead(mut self) -> Result<Proposal, StoreError> {
        let unknown = StoreError::Unavailable { reason: "what became of the proposal is not known".to_owned() };
        self.queued.take().and_then(|queued| queued.instead.into_inner()).unwrap_or(Err(unknown))
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
    ) -> Settled {
        let crossed = self.crossed.load(Ordering::SeqCst);
        let settlement = Settlement { lease: self.lease.clone(), state, outcome, reason, announce: self.announce };
        match self.store.settle(settlement.clone()).await {
            Ok(true) => Settled::AsSaid,
            Ok(false) => {
                tracing::warn!(call = %self.lease.id, "the call is somebody else's by now");
                Settled::ByAnother
            }
            Err(error) => {
                tracing::error!(error = %error, reason = error.reason(), call = %self.lease.id,
                    "the end of a call waits for the database");
                running.spawn(settle_later(self.store.clone(), settlement, Some(self)));
                // What was not sent may be taken up by another before that is written down.
                if crossed { Settled::AsSaid } else { Settled::NotYet }
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.forget(&self.lease);
    }
}

/// Tries until the database takes it, or never will. The claim is kept meanwhile, so that it is prolonged as soon as that
/// is possible.
pub(crate) async fn settle_later(store: Store, mut settlement: Settlement, _claim: Option<Claim>) {
    let mut pause = Duration::from_millis(100);
    loop {
        tokio::time::sleep(pause).await;
        match store.settle(settlement.clone()).await {
            Ok(_) => return,
            // The state matters more than the words: they are left out when it is they that are refused.
            Err(StoreError::Refused { .. }) if settlement.outcome != UNRECORDED => {
                settlement.outcome = UNRECORDED.to_owned();
            }
            Err(error) if error.retryable() => pause = (pause * 2).min(LONGEST_PAUSE),
            Err(error) => {
                tracing::error!(error = %error, reason = error.reason(), call = %settlement.lease.id,
                    "the end of a call can't be written down");
                return;
            }
        }
    }
}

/// Takes a call back whose proposal may or may not be there, so that nothing runs which its caller does not wait for.
pub(crate) async fn take_back(store: Store, lease: Lease, outcome: String) {
    let mut pause = Duration::from_millis(20);
    loop {
        let reason = "its proposal failed";
        let settlement = |state| Settlement {
            lease: lease.clone(),
            state,
            outcome: outcome.clone(),
            reason: Some(reason.to_owned()),
            announce: false,
        };
        let taken = async {
            // It may be written down as sent, and was not.
            if !store.settle(settlement(LedgerState::Cancelled)).await? {
                store.settle(settlement(LedgerState::Failed)).await?;
            }
            store.cancel_call(&lease.id, &lease.owner, Some(reason)).await
        };
        match taken.await {
            Err(error) if error.retryable() => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            _ => return,
        }
    }
}

#[async_trait]
impl Barrier for Claim {
    /// Lets the first byte go once the row says `sent`, in the one way or the other.
    async fn cross(&self) -> Result<(), Withheld> {
        if let Some(queued) = &self.queued {
            failpoint::connects_late!(self.made().await);
            queued.connected.say();
        }
        failpoint!("ledger::claimed");
        if !self.made().await {
            return Err(Withheld("the call is another's, waits for a person, or could not be written down".to_owned()));
        }
        if !self.crossed.load(Ordering::SeqCst) {
            let since = Instant::now();
            let lease_ms = i64::try_from(self.length.as_millis()).unwrap_or(i64::MAX);
            match self.store.mark_sent(&self.lease, lease_ms).await {
                Ok(true) => {}
                Ok(false) => return Err(Withheld("somebody else took the call over".to_owned())),
                Err(error) => return Err(Withheld(database_failed(&error))),
            }
            self.crossed.store(true, Ordering::SeqCst);
            self.claims.set(&self.lease, since + self.length);
            failpoint!("ledger::sent");
        }
        // Who was held up for longer than the lease is no longer the one to send.
        match self.claims.until(&self.lease) {
            Some(until) if Instant::now() < until => Ok(()),
            _ => Err(Withheld("it took so long that the call may be somebody else's by now".to_owned())),
        }
    }
}

fn database_failed(error: &StoreError) -> String {
    format!("it could not be written down that it is about to be sent: {error}")
}
