//! Following a turn, in whatever process it runs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolcrib_store::{StoreError, TurnRow, TurnState};

use crate::engine::{Engine, failed};
use crate::event::{EventLog, TurnEvent};
use crate::input::stored_json;
use crate::outcome::{TurnOutcome, TurnStatus};

/// How often the row is looked at, in case that another process works on the turn.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Follows a turn. The turn goes on when this is dropped.
pub struct TurnHandle {
    engine: Engine,
    id: String,
    session: String,
    log: Arc<EventLog>,
    place: usize,
    ended: bool,
    /// Whether it was told that the turn waits for people.
    parked: bool,
}

impl TurnHandle {
    pub(crate) fn new(engine: Engine, id: String, session: String, log: Arc<EventLog>) -> Self {
        Self { engine, id, session, log, place: 0, ended: false, parked: false }
    }

    /// The id of the turn.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The next thing that happens; none after the end, or when the turn is gone. Of a turn that
    /// another process works on, what it had written down when this began is told, and the end.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    pub async fn next(&mut self) -> Result<Option<Arc<TurnEvent>>, StoreError> {
        if self.ended {
            return Ok(None);
        }
        let event = loop {
            match tokio::time::timeout(LOOK_EVERY, self.log.wait(self.place)).await {
                Ok(event) => break event,
                Err(_) => {
                    let seen = self.engine.seen(&self.id).await?;
                    // It may have ended here between the two looks.
                    match (self.log.at(self.place), seen) {
                        (Some(event), _) => break event,
                        (None, Seen::Ended(outcome)) => break Arc::new(TurnEvent::Ended { outcome }),
                        (None, Seen::Gone) => {
                            self.ended = true;
                            return Ok(None);
                        }
                        // It waits in another process, or waited before anybody followed it here.
                        (None, Seen::Parked) if !self.parked => {
                            self.parked = true;
                            let approvals = self.engine.store().approvals_of_turn(&self.id).await?;
                            return Ok(Some(Arc::new(TurnEvent::Parked { approvals })));
                        }
                        (None, Seen::Parked) => {}
                        (None, Seen::Running) => self.parked = false,
                    }
                }
            }
        };
        self.place += 1;
        self.parked = matches!(*event, TurnEvent::Parked { .. });
        self.ended = matches!(*event, TurnEvent::Ended { .. });
        Ok(Some(event))
    }

    /// Waits for the end. None when the turn is gone.
    pub async fn outcome(&mut self) -> Option<TurnOutcome> {
        loop {
            match self.next().await {
                Ok(Some(event)) => {
                    if let TurnEvent::Ended { outcome } = &*event {
                        return Some((**outcome).clone());
                    }
                }
                Ok(None) => return None,
                // The database may answer again; whoever waits has a time of his own.
                Err(error) => {
                    tracing::warn!(error = %error, "turn.follow.read failed");
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        }
    }
}

/// What a row says of its turn.
pub(crate) enum Seen {
    /// It has not ended.
    Running,
    /// It waits for people.
    Parked,
    /// It has.
    Ended(Box<TurnOutcome>),
    /// There is no such row any more.
    Gone,
}

impl Engine {
    /// Follows a turn, from its beginning: what other processes did of it is told as far as it was written down. None when
    /// there is no such turn.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    pub async fn follow(&self, id: &str) -> Result<Option<TurnHandle>, StoreError> {
        let Some(row) = self.store().turn(id).await? else { return Ok(None) };
        let (log, _) = self.inner().live.enlist(id, row.session_key());
        log.catch_up(&recorded(&row));
        if row.state.is_final() && !log.has_ended() {
            log.push(TurnEvent::Ended { outcome: Box::new(outcome_of(row.state, row.outcome.as_deref())) });
        }
        Ok(Some(TurnHandle::new(self.clone(), row.id, row.session, log)))
    }

    pub(crate) async fn seen(&self, id: &str) -> Result<Seen, StoreError> {
        let Some((state, outcome)) = self.store().turn_end(id).await? else { return Ok(Seen::Gone) };
        if !state.is_final() {
            return Ok(if state == TurnState::Parked { Seen::Parked } else { Seen::Running });
        }
        Ok(Seen::Ended(Box::new(outcome_of(state, outcome.as_deref()))))
    }
}

/// How a turn ended, of what its row keeps.
fn outcome_of(state: TurnState, outcome: Option<&str>) -> TurnOutcome {
    let unread = || match state {
        TurnState::Cancelled => failed(TurnStatus::Cancelled, "turn.cancelled", "the turn was ended before it began"),
        _ => failed(TurnStatus::Failed, "turn.unreadable", "how the turn ended can't be read"),
    };
    outcome.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(unread)
}

/// What was written down of what happened in a turn, with its end or with the last checkpoint before it: the events, each with
/// `at`, the time in ms since 1970. Not among them are pieces of text and the end.
pub fn recorded(row: &TurnRow) -> Vec<Value> {
    let ended = row.record.as_deref().and_then(stored_json);
    let going = || stored_json(row.checkpoint.as_deref()?)?.get_mut("record").map(Value::take);
    match ended.or_else(going) {
        Some(Value::Array(record)) => record,
        _ => Vec::new(),
    }
}
