//! Following a turn, in whatever process it runs.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_store::StoreError;

use crate::engine::Engine;
use crate::event::{EventLog, TurnEvent};
use crate::outcome::TurnOutcome;

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
}

impl TurnHandle {
    pub(crate) fn new(engine: Engine, id: String, session: String, log: Arc<EventLog>) -> Self {
        Self { engine, id, session, log, place: 0, ended: false }
    }

    /// The id of the turn.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The next thing that happens; none after the end. Of a turn that another process works on, only the end is told.
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
                    if let Some(outcome) = self.engine.outcome_of(&self.id).await? {
                        // It may have ended here between the two looks.
                        break self
                            .log
                            .at(self.place)
                            .unwrap_or_else(|| Arc::new(TurnEvent::Ended { outcome: Box::new(outcome) }));
                    }
                }
            }
        };
        self.place += 1;
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

impl Engine {
    /// How a turn ended; none while it has not.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    pub async fn outcome_of(&self, id: &str) -> Result<Option<TurnOutcome>, StoreError> {
        let row = self.store().turn(id).await?;
        let ended = row.filter(|row| row.state.is_final());
        Ok(ended.and_then(|row| serde_json::from_str(row.outcome.as_deref()?).ok()))
    }
}
