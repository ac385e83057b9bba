//! The keeper of the ledger: prolongs what this process holds, takes over what others left, runs what may run.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use toolcrib_definition::Ctx;
use toolcrib_definition::json::parse;
use toolcrib_registry::{Entry, NoClient};
use toolcrib_store::{Change, Lease, LedgerRow, LedgerState, SessionKey, StoreError};

use crate::claim::Claim;
use crate::events::EventKind;
use crate::executor::{CallRequest, Executor, Inner, millis};
use crate::failpoint::failpoint;
use crate::fingerprint::hash_of_tool;
use crate::outcome::Status;
use crate::pipeline::{Ended, Pipeline};

/// Under which calls are made that an operator tries: no agent can be called so.
pub const TRY_AGENT: &str = "~try";
/// Calls that this process runs for the ledger at the same time.
const AT_ONCE: usize = 32;
/// How often the ledger is looked at although nobody told of a change.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often settled calls that are old are removed.
const PURGE_EVERY: Duration = Duration::from_secs(60);

/// Prolongs the leases of calls under way, until the executor is gone.
pub(crate) fn spawn_renewals(inner: &Arc<Inner>) {
    let weak: Weak<Inner> = Arc::downgrade(inner);
    let lease = inner.ledger.lease;
    tokio::spawn(async move {
        let mut ticks = interval((lease / 3).max(Duration::from_millis(10)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(inner) = weak.upgrade() else { return };
            let ids = inner.claims.ids();
            if ids.is_empty() {
                continue;
            }
            let since = Instant::now();
            match inner.registry.store().renew(&inner.owner, &ids, millis(lease)).await {
                Ok(held) => inner.claims.prolong(&held, since + lease),
                Err(error) => tracing::warn!(error = %error, reason = error.reason(), "executor.leases.renew failed"),
            }
        }
    });
}

impl Executor {
    /// Keeps the ledger until `shutdown`: takes over calls whose process is gone, lets approvals expire, and runs what was
    /// approved. Every server does; a process that only makes calls need not.
    pub async fn keep_ledger(self, shutdown: CancellationToken) {
        let store = self.inner.registry.store().clone();
        let mut changes = store.changes().listen();
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let look_every = LOOK_EVERY.min(self.inner.ledger.lease / 2);
        let mut purge_at = Instant::now() + PURGE_EVERY;
        loop {
            if let Err(error) = self.keep_once(&slots, None).await {
                tracing::warn!(error = %error, reason = error.reason(), "executor.ledger.keep failed");
            }
            if Instant::now() >= purge_at {
                purge_at = Instant::now() + PURGE_EVERY;
                self.purge_ledger().await;
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                // Told or not, it is time to look.
                _ = timeout(look_every, changes.next(Change::Ready)) => {}
            }
        }
    }

    /// Runs what was approved of what the turns of these sessions wait for, and nothing else: for a process that is no
    /// server and has no business with other people's calls.
    pub async fn run_approved_of(&self, sessions: &[SessionKey]) {
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        for of in sessions {
            if let Err(error) = self.keep_once(&slots, Some(of)).await {
                tracing::warn!(error = %error, reason = error.reason(), "executor.ledger.keep failed");
            }
        }
    }

    async fn keep_once(&self, slots: &Arc<Semaphore>, of: Option<&SessionKey>) -> Result<(), StoreError> {
        let inner = &self.inner;
        let store = inner.registry.store();
        let overdue = store.move_overdue(&inner.owner).await?;
        for id in &overdue.in_doubt {
            tracing::warn!(call = %id, "a call is in doubt: its process is gone");
            inner.events.publish(EventKind::CallInDoubt, None, || json!({ "ledger_id": id }));
        }
        loop {
            let free = slots.available_permits();
            if free == 0 {
                return Ok(());
            }
            let most = u32::try_from(free).unwrap_or(u32::MAX);
            let since = Instant::now();
            let rows = store.claim_ready(&inner.owner, millis(inner.ledger.lease), most, of).await?;
            if rows.is_empty() {
                return Ok(());
            }
            failpoint!("ledger::taken");
            for row in rows {
                let Ok(slot) = Arc::clone(slots).try_acquire_owned() else { continue };
                let executor = self.clone();
                inner.running.spawn(async move {
                    executor.resume(row, since).await;
                    drop(slot);
                });
            }
        }
    }

    async fn purge_ledger(&self) {
        let store = self.inner.registry.store();
        loop {
            match store.purge_ledger(millis(self.inner.ledger.retention)).await {
                Ok(0) => return,
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => {
                    tracing::warn!(error = %error, reason = error.reason(), "old calls could not be removed");
                    return;
                }
            }
        }
    }

    /// Runs a call of the ledger that was claimed: exactly what was proposed, or nothing.
    async fn resume(&self, row: LedgerRow, since: Instant) {
        let inner = &self.inner;
        let lease = Lease { id: row.id.clone(), owner: inner.owner.clone(), epoch: row.epoch };
        let (store, claims) = (inner.registry.store().clone(), Arc::clone(&inner.claims));
        let claim = Claim::hold(store, claims, lease, inner.ledger.lease, since, true);
        let snapshot = inner.registry.snapshot();
        let ctx = parse(row.ctx.as_bytes()).ok().and_then(|ctx| Ctx::from_json(&ctx).ok());
        // A try is nobody's agent's: whoever tries may use every tool.
        let nobodys = || (row.agent == TRY_AGENT).then(Arc::default);
        let known = snapshot.agent(&row.agent).map(Arc::clone).or_else(nobodys);
        // An agent that is gone has no limits; its call is only ended.
        let pipeline = self.pipeline(
            &row.agent,
            &known.clone().unwrap_or_default(),
            ctx.clone().unwrap_or_default(),
            self.inner.registry.snapshot(),
        );
        let arguments = match parse(row.arguments.as_bytes()) {
            Ok(Value::Object(arguments)) => Some(arguments),
            _ => None,
        };
        let request = CallRequest {
            call_id: Some(row.call_id.clone()),
            client: Arc::new(NoClient),
            ..CallRequest::new(row.tool.clone(), arguments.clone().map_or(Value::Null, Value::Object))
        };
        let mut begun = pipeline.begin(&request, None);
        let checked = match (known, ctx, arguments) {
            (None, ..) => Err(format!("the agent {:?} is not there any more", row.agent)),
            (_, None, _) | (_, _, None) => Err("its row can't be read".to_owned()),
            (Some(_), Some(_), Some(arguments)) => {
                still_the_same(&pipeline, &row, &arguments).map(|entry| (Arc::clone(entry), arguments))
            }
        };
        let ended = match checked {
            Ok((entry, arguments)) => pipeline.run_claimed(&entry, &arguments, claim, &mut begun).await,
            Err(reason) => {
                let message = format!("the call was not made: {reason}");
                let ended = Ended::error(Status::Error, "call.not_made", message, Some(reason));
                let ended = Ended { ledger_id: Some(row.id.clone()), ..ended };
                pipeline.settle(claim, LedgerState::Cancelled, ended).await
            }
        };
        pipeline.finish(begun, ended);
    }
}

/// The tool, when the agent still may use it and it would still do exactly what was proposed.
fn still_the_same<'a>(
    pipeline: &'a Pipeline,
    row: &LedgerRow,
    arguments: &Map<String, Value>,
) -> Result<&'a Arc<Entry>, String> {
    let entry = pipeline.snapshot.tool(&row.tool).ok_or_else(|| format!("the tool {:?} was deleted", row.tool))?;
    if !pipeline.agent.allows(entry) {
        return Err(format!("the agent {:?} may no longer use the tool {:?}", row.agent, row.tool));
    }
    if hash_of_tool(entry) != row.definition_hash {
        return Err(format!("the tool {:?} was changed after the call was proposed", row.tool));
    }
    let request = pipeline.effective_request(entry, arguments).map_err(|ended| ended.result.to_string())?;
    if request.hash != row.request_hash {
        return Err("it would do something else than what was proposed".to_owned());
    }
    Ok(entry)
}
