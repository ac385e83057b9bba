//! Taking up turns: queued ones whose session is free, parked ones whose people decided, and those of processes that are
//! gone. And keeping the leases of one's own.

use std::time::Duration;

use toolcrib_store::{Change, SessionKey};

use crate::engine::Engine;

/// Turns that are taken up at once.
const AT_ONCE: i64 = 50;
/// How often old turns are looked for, and how long a purge rests between parts of its work.
const PURGE_EVERY: Duration = Duration::from_secs(600);
const PURGE_PAUSE: Duration = Duration::from_millis(200);

/// Whose turns a process keeps going.
#[derive(Debug, Clone, Copy)]
enum Whose {
    /// Everybody's.
    All,
    /// Those of the sessions that are worked on or followed here.
    Own,
}

impl Engine {
    /// Keeps turns going until [`Engine::drain`]. Run it once, on a task of its own.
    pub async fn keep(self) {
        let renewing = self.clone().renew();
        tokio::join!(renewing, self.clone().purge(), self.take_what_can_be(Whose::All));
    }

    /// Keeps going the sessions whose turns are worked on or followed in this process, with what they spawned and what was
    /// approved of their calls, until [`Engine::drain`]. For a process that is no server: it takes up nobody else's turn and
    /// makes nobody else's call, for which it may not even have the secrets. It stands in place of [`Engine::keep`] and of
    /// the keeper of the ledger.
    pub async fn keep_own(self) {
        tokio::join!(self.clone().renew(), self.take_what_can_be(Whose::Own));
    }

    /// Lets the turns in flight end, at most `limit` long, and takes up no more. Tells whether they all did; the others are
    /// resumed by whoever starts next.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.inner().shutdown.cancel();
        self.inner().running.close();
        tokio::time::timeout(limit, self.inner().running.wait()).await.is_ok()
    }

    async fn take_what_can_be(self, whose: Whose) {
        let changes = self.store().changes();
        let (mut turns, mut settled) = (changes.listen(), changes.listen());
        loop {
            match whose {
                Whose::All => self.take_once(None).await,
                Whose::Own => {
                    let sessions = self.inner().live.sessions();
                    for session in &sessions {
                        self.take_once(Some(session)).await;
                    }
                    self.executor().run_approved_of(&sessions).await;
                }
            }
            tokio::select! {
                () = self.inner().shutdown.cancelled() => return,
                () = turns.next(Change::Turn) => {}
                () = settled.next(Change::Settled) => {}
                () = tokio::time::sleep(self.inner().settings.look_every) => {}
            }
        }
    }

    async fn take_once(&self, of: Option<&SessionKey>) {
        let room = i64::try_from(self.room()).unwrap_or(AT_ONCE).min(AT_ONCE);
        if room == 0 {
            return;
        }
        let rows = match self.store().turns_to_take(room, of).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(error = %error, "turn.keeper.look failed");
                return;
            }
        };
        for row in rows {
            // One's own, whose lease could not be prolonged in time.
            if self.held().contains(&row.id) {
                continue;
            }
            match self.store().take_turn(&row.id, row.epoch, &self.inner().owner, self.lease_ms()).await {
                Ok(Some(row)) => self.take_up(row),
                // Another process was faster.
                Ok(None) => {}
                Err(error) => tracing::warn!(error = %error, turn = %row.id, "turn.keeper.take failed"),
            }
        }
    }

    async fn renew(self) {
        let every = self.inner().settings.lease / 3;
        loop {
            // As long as turns run, also while the process waits for them to end.
            if self.inner().shutdown.is_cancelled() && self.inner().running.is_empty() {
                return;
            }
            tokio::time::sleep(every).await;
            if self.inner().running.is_empty() {
                continue;
            }
            let held: Vec<String> = self.held().iter().cloned().collect();
            match self.store().renew_turns(&self.inner().owner, &held, self.lease_ms()).await {
                Ok(cancelled) => cancelled.iter().for_each(|id| self.inner().live.cancel(id)),
                Err(error) => tracing::warn!(error = %error, "turn.keeper.renew failed"),
            }
        }
    }

    async fn purge(self) {
        let kept = i64::try_from(self.inner().settings.retention.as_millis()).unwrap_or(i64::MAX / 4);
        loop {
            let pause = match self.store().purge_turns(kept).await {
                Ok(0) => PURGE_EVERY,
                Ok(_) => PURGE_PAUSE,
                Err(error) => {
                    tracing::warn!(error = %error, "turn.keeper.purge failed");
                    PURGE_EVERY
                }
            };
            tokio::select! {
                () = self.inner().shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}
