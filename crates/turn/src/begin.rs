//! How turns begin: at once, or queued behind an earlier one of their session.

use std::sync::Arc;

use tokio::sync::oneshot;
use toolcrib_registry::Agent;
use toolcrib_store::{Begun, NewTurn, SessionKey, StoreError, TurnState, time_ordered_id};

use crate::engine::{Engine, Taken};
use crate::event::TurnEvent;
use crate::handle::TurnHandle;
use crate::input::{Input, NewMessage, session_or_chat};

impl Engine {
    /// Begins a turn of an agent, or queues it behind an earlier one of its session. It goes on also when nobody follows
    /// it.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    pub async fn begin(
        &self,
        agent_id: &str,
        agent: &Arc<Agent>,
        message: NewMessage,
    ) -> Result<TurnHandle, StoreError> {
        let store = self.store();
        let id = time_ordered_id(store.clock().as_ref(), store.randomness().as_ref());
        let session = session_or_chat(message.session, &message.ctx);
        let new_session = session.is_none();
        let session = session.unwrap_or_else(|| id.clone());
        let NewMessage { text, ctx, before, .. } = message;
        let input = Input { text, ctx, agent: Arc::clone(agent), depth: 0, before };
        let turn = NewTurn { id, agent: agent_id.to_owned(), session, parent: None, input: input.to_json() };
        let room = self.room() > 0 && !self.inner().shutdown.is_cancelled();
        if room && new_session {
            self.begin_meanwhile(turn, input).await
        } else {
            self.begin_row(turn, input, room).await
        }
    }

    /// Begins the first turn of a session that nobody else can know yet: there is nothing that it could wait for or read, so
    /// its row is written while its model is asked. It goes on also when nobody waits for the answer any more.
    async fn begin_meanwhile(&self, turn: NewTurn, input: Input) -> Result<TurnHandle, StoreError> {
        let row = turn.begun_by(&self.inner().owner, 1, self.store().clock().now_ms());
        let (log, cancel) = self.inner().live.enlist(&row.id, row.session_key());
        let handle = TurnHandle::new(self.clone(), row.id.clone(), row.session.clone(), Arc::clone(&log));
        let (tell, told) = oneshot::channel();
        let engine = self.clone();
        let writing = self.inner().running.spawn(async move {
            let begun = engine.store().begin_turn(&turn, Some(&engine.inner().owner), engine.lease_ms()).await;
            if let Ok(Begun::New(row)) = &begun {
                engine.tell_started(row);
            }
            let is_new = begun.map(|begun| matches!(begun, Begun::New(_)));
            // Whoever is gone does not need it.
            let _ = tell.send(is_new.clone());
            is_new
        });
        self.spawn(Taken { row, input: Some(input), log, cancel, beginning: Some(writing) });
        let not_begun = || StoreError::Unavailable { reason: "a new turn could not be begun".to_owned() };
        match told.await {
            Ok(Ok(true)) => Ok(handle),
            Ok(Err(error)) => Err(error),
            Ok(Ok(false)) | Err(_) => Err(not_begun()),
        }
    }

    /// Begins a turn, or finds the one of this id. Without `room` it is queued.
    ///
    /// It is a task of its own: what is written down is worked on, also when nobody waits for the answer any more.
    pub(crate) async fn begin_row(&self, turn: NewTurn, input: Input, room: bool) -> Result<TurnHandle, StoreError> {
        let engine = self.clone();
        let task = self.inner().running.spawn(async move { engine.begin_here(turn, input, room).await });
        let gone = |error: tokio::task::JoinError| StoreError::Unavailable { reason: error.to_string() };
        task.await.map_err(gone)?
    }

    async fn begin_here(&self, turn: NewTurn, input: Input, room: bool) -> Result<TurnHandle, StoreError> {
        let of = SessionKey { agent: turn.agent.clone(), session: turn.session.clone() };
        let (log, cancel) = self.inner().live.enlist(&turn.id, of);
        let owner = room.then_some(self.inner().owner.as_str());
        let begun = self.store().begin_turn(&turn, owner, self.lease_ms()).await?;
        let (Begun::New(row) | Begun::Known(row)) = &begun;
        let handle = TurnHandle::new(self.clone(), row.id.clone(), row.session.clone(), Arc::clone(&log));
        match begun {
            Begun::New(row) if row.state == TurnState::Running => {
                self.tell_started(&row);
                self.spawn(Taken { row, input: Some(input), log, cancel, beginning: None });
            }
            Begun::New(_) => log.push(TurnEvent::Queued),
            // Somebody works on it, or it waits: the row says how it ends.
            Begun::Known(_) => {}
        }
        Ok(handle)
    }
}
