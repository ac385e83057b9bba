//! Moves of turns that come at the same time share a transaction, and so one write to the disk.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};

use crate::error::StoreError;
use crate::store::{Rows, Store};
use crate::turns::{Begun, NewTurn, TurnEnd, TurnLease, TurnMove, TurnMoved};

/// Moves that share a transaction at the most.
const TOGETHER: usize = 32;
/// Moves that may wait; then whoever brings one waits too.
const WAITING: usize = 1_024;
/// The longest that a transaction of moves may take.
const LONGEST: Duration = Duration::from_secs(10);

type Waiting = (TurnMove, oneshot::Sender<Result<TurnMoved, StoreError>>);

/// The handle to the task that makes the moves. It ends with the last handle.
#[derive(Clone)]
pub(crate) struct TurnMoves(mpsc::Sender<Waiting>);

impl TurnMoves {
    /// The handle, and the task that has to run.
    pub(crate) fn new(rows: Arc<dyn Rows>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), run(rows, receiver))
    }

    async fn make(&self, one: TurnMove) -> Result<TurnMoved, StoreError> {
        let (answer, waiting) = oneshot::channel();
        self.0.send((one, answer)).await.map_err(|_| gone())?;
        waiting.await.map_err(|_| gone())?
    }

    async fn held(&self, one: TurnMove) -> Result<bool, StoreError> {
        match self.make(one).await? {
            TurnMoved::Held(held) => Ok(held),
            TurnMoved::Begun(_) => Err(mixed_up()),
        }
    }
}

impl Store {
    /// Begins a turn: as the owner's to run, or queued behind an earlier turn of its session, or because there is no
    /// owner that could run it. A turn of this id that is there already is returned as it is.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    pub async fn begin_turn(&self, turn: &NewTurn, owner: Option<&str>, lease_ms: i64) -> Result<Begun, StoreError> {
        let owner = owner.map(str::to_owned);
        match self.turn_moves().make(TurnMove::Begin { turn: turn.clone(), owner, lease_ms }).await? {
            TurnMoved::Begun(begun) => Ok(*begun),
            TurnMoved::Held(_) => Err(mixed_up()),
        }
    }

    /// Records where a turn stands. False when the lease is no longer the caller's; then it must stop.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    pub async fn checkpoint_turn(&self, lease: &TurnLease, checkpoint: &str) -> Result<bool, StoreError> {
        let (lease, checkpoint) = (lease.clone(), checkpoint.to_owned());
        self.turn_moves().held(TurnMove::Checkpoint { lease, checkpoint }).await
    }

    /// Parks a turn until these calls of the ledger are settled. False when the lease is no longer the caller's.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    pub async fn park_turn(&self, lease: &TurnLease, checkpoint: &str, calls: &[String]) -> Result<bool, StoreError> {
        let (lease, checkpoint, calls) = (lease.clone(), checkpoint.to_owned(), calls.to_vec());
        self.turn_moves().held(TurnMove::Park { lease, checkpoint, calls }).await
    }

    /// Ends a turn. False when the lease is no longer the caller's.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    pub async fn end_turn(&self, lease: &TurnLease, end: &TurnEnd) -> Result<bool, StoreError> {
        self.turn_moves().held(TurnMove::End { lease: lease.clone(), end: end.clone() }).await
    }
}

async fn run(rows: Arc<dyn Rows>, mut receiver: mpsc::Receiver<Waiting>) {
    let mut waiting = Vec::with_capacity(TOGETHER);
    while receiver.recv_many(&mut waiting, TOGETHER).await > 0 {
        let (moves, answers): (Vec<TurnMove>, Vec<_>) = waiting.drain(..).unzip();
        match make(&*rows, &moves).await {
            Ok(moved) => {
                for (answer, moved) in answers.into_iter().zip(moved) {
                    // Whoever is gone does not need it; what was written stands.
                    let _ = answer.send(Ok(moved));
                }
            }
            // One that the database refuses takes no other with it.
            Err(StoreError::Refused { .. } | StoreError::BadRow { .. } | StoreError::Busy) if moves.len() > 1 => {
                for (answer, one) in answers.into_iter().zip(moves) {
                    let moved = make(&*rows, std::slice::from_ref(&one)).await;
                    let _ = answer.send(moved.and_then(|mut moved| moved.pop().ok_or_else(mixed_up)));
                }
            }
            Err(error) => {
                for answer in answers {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}

/// Makes moves within a bounded time, whatever happens on the way: others wait behind them.
async fn make(rows: &dyn Rows, moves: &[TurnMove]) -> Result<Vec<TurnMoved>, StoreError> {
    let unavailable = |reason: &str| StoreError::Unavailable { reason: reason.to_owned() };
    match tokio::time::timeout(LONGEST, AssertUnwindSafe(rows.move_turns(moves)).catch_unwind()).await {
        Ok(Ok(moved)) => moved,
        Ok(Err(_)) => Err(unavailable("a move of a turn failed inside")),
        Err(_) => Err(unavailable("the database did not answer in time")),
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable { reason: "the task that writes turns ended".to_owned() }
}

fn mixed_up() -> StoreError {
    StoreError::Unavailable { reason: "a move of a turn got the answer of another".to_owned() }
}
