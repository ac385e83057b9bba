//! Steps of calls that come at the same time share a transaction, and so one write to the disk.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::error::StoreError;
use crate::ledger::{Step, Stepped, Taken};
use crate::store::Rows;

/// Steps that share a transaction at the most. Each number of rows of a statement is a prepared statement of its own, which
/// the connections keep.
const TOGETHER: usize = 32;
/// Steps that may wait; then whoever brings one waits too.
const WAITING: usize = 1_024;

/// The longest that a transaction of steps may take.
const LONGEST: Duration = Duration::from_secs(10);

type Waiting = (Step, oneshot::Sender<Result<Stepped, StoreError>>);

/// The handle to the tasks that take steps. They end with the last handle.
#[derive(Clone)]
pub(crate) struct Steps {
    proposals: mpsc::Sender<Waiting>,
    moves: mpsc::Sender<Waiting>,
}

impl Steps {
    /// Starts the tasks, and one `beside` them of the same kind, on a thread of their own: a transaction is many small waits, and behind the calls that wait for it
    /// each of them would take as long as all those calls.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the machine gives no thread.
    pub(crate) fn spawn(
        rows: Arc<dyn Rows>,
        beside: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let no_thread = |error: std::io::Error| StoreError::Unavailable { reason: format!("no thread: {error}") };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let mut lanes = JoinSet::new();
        let mut lane = || {
            let (sender, receiver) = mpsc::channel(WAITING);
            lanes.spawn_on(run(Arc::clone(&rows), receiver), runtime.handle());
            sender
        };
        let proposals = lane();
        let moves = if rows.lanes() == 1 { proposals.clone() } else { lane() };
        lanes.spawn_on(beside, runtime.handle());
        let work = move || {
            // The database goes with the last lane, while there is a runtime to close it.
            drop(rows);
            runtime.block_on(lanes.join_all());
        };
        std::thread::Builder::new().name("toolcrib-ledger".to_owned()).spawn(work).map_err(no_thread)?;
        Ok(Self { proposals, moves })
    }

    pub(crate) async fn take(&self, step: Step) -> Result<Stepped, StoreError> {
        self.queue(step).await?.taken().await
    }

    /// Has a step taken without waiting for it. It waits only while too many others do.
    pub(crate) async fn queue(&self, step: Step) -> Result<Queued, StoreError> {
        let (answer, waiting) = oneshot::channel();
        let lane = if matches!(step, Step::Propose { .. }) { &self.proposals } else { &self.moves };
        lane.send((step, answer)).await.map_err(|_| gone())?;
        Ok(Queued(waiting))
    }
}

/// A step that will be taken, awaited or not.
pub(crate) struct Queued(oneshot::Receiver<Result<Stepped, StoreError>>);

impl Queued {
    /// It may be dropped and called again until it answered.
    pub(crate) async fn taken(&mut self) -> Result<Stepped, StoreError> {
        (&mut self.0).await.map_err(|_| gone())?
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable { reason: "the task that writes the ledger ended".to_owned() }
}

async fn run(rows: Arc<dyn Rows>, mut receiver: mpsc::Receiver<Waiting>) {
    let mut waiting = Vec::with_capacity(TOGETHER);
    while receiver.recv_many(&mut waiting, TOGETHER).await > 0 {
        let (steps, answers): (Vec<Step>, Vec<_>) = waiting.drain(..).unzip();
        match take(&*rows, &steps).await {
            Ok(Some(taken)) => {
                for (answer, stepped) in answers.into_iter().zip(taken) {
                    // Whoever is gone does not need it; what was written stands.
                    let _ = answer.send(stepped);
                }
            }
            // One that the database refuses takes no other with it.
            Ok(None) | Err(StoreError::Refused { .. } | StoreError::BadRow { .. } | StoreError::Busy)
                if steps.len() > 1 =>
            {
                for (answer, step) in answers.into_iter().zip(steps) {
                    let taken = take(&*rows, std::slice::from_ref(&step)).await;
                    let single = |taken: Option<Taken>| taken.and_then(|mut taken| taken.pop());
                    let _ = answer.send(taken.and_then(|taken| single(taken).unwrap_or_else(|| Err(missing()))));
                }
            }
            Ok(None) => answers.into_iter().for_each(|answer| drop(answer.send(Err(missing())))),
            Err(error) => {
                for answer in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}

/// Takes steps within a bounded time, whatever happens on the way: others wait behind them.
async fn take(rows: &dyn Rows, steps: &[Step]) -> Result<Option<Taken>, StoreError> {
    let unavailable = |reason: &str| StoreError::Unavailable { reason: reason.to_owned() };
    let taking = AssertUnwindSafe(rows.take_steps(steps)).catch_unwind();
    match tokio::time::timeout(LONGEST, taking).await {
        Ok(Ok(taken)) => taken,
        Ok(Err(_)) => Err(unavailable("a step of the ledger failed inside")),
        Err(_) => Err(unavailable("the database did not answer in time")),
    }
}

fn missing() -> StoreError {
    StoreError::Unavailable { reason: "a step had no answer".to_owned() }
}
