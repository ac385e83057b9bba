//! The engine: works on the turns that begin and on those that were left, and tells who follows them.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolcrib_executor::{EventKind, Executor};
use toolcrib_registry::Registry;
use toolcrib_skills::SkillBook;
use toolcrib_store::{Store, StoreError, TurnLease, TurnRow};
use tracing::Instrument;

use crate::checkpoint::Checkpoint;
use crate::event::EventLog;
use crate::finish::Turn;
use crate::input::Input;
use crate::live::LiveTurns;
use crate::message::Message;
use crate::outcome::{TurnOutcome, TurnStatus};
use crate::prompt::{BYTES_OF_A_TOKEN, Past};
use crate::providers::Providers;
use crate::run::{Run, Writing};

/// Turns of a session that are read for its history; the budget cuts further.
const HISTORY: i64 = 200;

/// How turns are kept.
#[derive(Debug, Clone)]
pub struct TurnSettings {
    /// How long a process may be silent before its turns are taken over. It prolongs its leases three times in that time.
    /// Default 15 s.
    pub lease: Duration,
    /// How often turns are looked for that can be taken up, although nobody told of one. Default 1 s.
    pub look_every: Duration,
    /// Turns that run at the same time in this process; more wait as rows. Default 256.
    pub max_running: usize,
    /// How long ended turns are kept, and with them the history of their sessions. Default 30 days.
    pub retention: Duration,
}

impl Default for TurnSettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            look_every: Duration::from_secs(1),
            max_running: 256,
            retention: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

/// Runs turns. Cloning is cheap and is the same engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

pub(crate) struct Inner {
    executor: Executor,
    skills: Arc<SkillBook>,
    providers: Arc<Providers>,
    pub(crate) settings: TurnSettings,
    /// The name of this process in the rows.
    pub(crate) owner: String,
    pub(crate) live: LiveTurns,
    /// The turns that are worked on here.
    held: Mutex<HashSet<String>>,
    pub(crate) running: TaskTracker,
    pub(crate) shutdown: CancellationToken,
}

impl Engine {
    /// An engine over this executor. [`Engine::keep`] has to run beside it.
    pub fn new(executor: Executor, skills: Arc<SkillBook>, providers: Arc<Providers>, settings: TurnSettings) -> Self {
        let store = executor.registry().store();
        let (owner, live) = (store.randomness().hex(), LiveTurns::new(Arc::clone(store.clock())));
        Self(Arc::new(Inner {
            executor,
            skills,
            providers,
            settings,
            owner,
            live,
            held: Mutex::default(),
            running: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        }))
    }

    /// An engine that knows no model: skills are kept, and every turn says that there is none.
    ///
    /// # Errors
    /// The store's, when the skills can't be read.
    pub async fn without_models(executor: Executor) -> Result<Self, StoreError> {
        let skills = SkillBook::open(executor.registry().store().clone()).await?;
        Ok(Self::new(executor, skills, Arc::new(Providers::default()), TurnSettings::default()))
    }

    /// What runs the calls.
    pub fn executor(&self) -> &Executor {
        &self.0.executor
    }

    /// The skills.
    pub fn skills(&self) -> &Arc<SkillBook> {
        &self.0.skills
    }

    /// The providers.
    pub fn providers(&self) -> &Providers {
        &self.0.providers
    }

    pub(crate) fn registry(&self) -> &Registry {
        self.0.executor.registry()
    }

    pub(crate) fn store(&self) -> &Store {
        self.registry().store()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// How many more turns may run here.
    pub(crate) fn room(&self) -> usize {
        self.0.settings.max_running.saturating_sub(self.held().len())
    }

    /// The turns that are worked on here.
    pub(crate) fn held(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the end of what a turn spawned. That it can't be asked is logged: their own limits end them.
    pub(crate) async fn cancel_children(&self, parent: &str) {
        match self.store().cancel_children(parent).await {
            Ok(children) => children.iter().for_each(|id| self.0.live.cancel(id)),
            Err(error) => tracing::error!(error = %error, "turn.subagents.cancel failed"),
        }
    }

    /// Asks for the end of a turn. What it did stays done; calls that wait for a person are taken back. Returns the turn
    /// as it is; none when there is no such turn.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    pub async fn cancel(&self, id: &str) -> Result<Option<TurnRow>, StoreError> {
        // Before the row, so that what ends it here is this and not its own time, which may be over meanwhile.
        self.0.live.cancel(id);
        let outcome = failed(TurnStatus::Cancelled, "turn.cancelled", "somebody ended the turn before it began");
        self.store().cancel_turn(id, &serde_json::to_string(&outcome).unwrap_or_default()).await
    }

    pub(crate) fn lease_ms(&self) -> i64 {
        i64::try_from(self.0.settings.lease.as_millis()).unwrap_or(i64::MAX / 4)
    }

    pub(crate) fn publish(&self, kind: EventKind, agent: &str, data: impl FnOnce() -> Value) {
        self.0.executor.events().publish(kind, Some(agent), || {
            let mut data = data();
            data["agent"] = agent.into();
            data
        });
    }

    /// Works on a turn that was taken up by this process.
    pub(crate) fn take_up(&self, row: TurnRow) {
        let (log, cancel) = self.0.live.enlist(&row.id, row.session_key());
        let input = Input::from_json(&row.input);
        self.tell_started(&row);
        self.spawn(Taken { row, input, log, cancel, beginning: None });
    }

    pub(crate) fn tell_started(&self, row: &TurnRow) {
        self.publish(
            EventKind::TurnStarted,
            &row.agent,
            || json!({ "turn": row.id, "session": row.session, "resumed": row.epoch > 1 }),
        );
    }

    pub(crate) fn spawn(&self, taken: Taken) {
        let engine = self.clone();
        let (row, log) = (&taken.row, Arc::clone(&taken.log));
        let span = tracing::debug_span!("turn.run", turn = %row.id, agent = %row.agent);
        let held = Held::of(self, &row.id);
        let lease = TurnLease { id: row.id.clone(), owner: self.0.owner.clone(), epoch: row.epoch };
        let (agent, session) = (row.agent.clone(), row.session.clone());
        let work = async move {
            let _held = held;
            let working = AssertUnwindSafe(engine.work(taken)).catch_unwind();
            if working.await.is_err() {
                tracing::error!(turn = %lease.id, "a turn failed inside");
                let turn = Turn { lease: &lease, agent: &agent, session: &session, log: &log };
                engine.give_up(turn, "turn.internal", "Toolcrib itself failed; the log says why").await;
            }
        };
        self.0.running.spawn(work.instrument(span));
    }

    async fn work(&self, taken: Taken) {
        let Taken { row, input, log, cancel, beginning } = taken;
        if row.cancelled {
            cancel.cancel();
        }
        let owner = self.0.owner.clone();
        let lease = TurnLease { id: row.id.clone(), owner, epoch: row.epoch };
        let checkpoint = row.checkpoint.as_deref().map(serde_json::from_str::<Checkpoint>).transpose();
        let (Some(input), Ok(at)) = (input, checkpoint) else {
            let turn = Turn { lease: &lease, agent: &row.agent, session: &row.session, log: &log };
            return self.give_up(turn, "turn.unreadable", "the stored turn can't be read").await;
        };
        let history = match self.history(&row, input.agent.limits().context_budget).await {
            Ok(mut history) => {
                // Each exchange for itself, so that the budget can leave out the oldest.
                for message in &input.before {
                    match (message, history.last_mut()) {
                        (Message::User { .. }, _) | (_, None) => {
                            let place = history.last().map_or(1, |past| past.place + 1);
                            history.push(Past { messages: vec![message.clone()], place, ..Past::default() });
                        }
                        (_, Some(past)) => past.messages.push(message.clone()),
                    }
                }
                history
            }
            Err(error) => {
                tracing::error!(error = %error, "turn.history.read failed; the turn is left to be resumed");
                return;
            }
        };
        let since = Instant::now();
        let at = at.unwrap_or_default();
        log.catch_up(&at.record);
        let left = input.agent.limits().turn_timeout.saturating_sub(Duration::from_millis(at.ran_ms));
        let mut run = Run {
            engine: self.clone(),
            lease,
            agent_id: row.agent,
            session: row.session,
            agent: Arc::clone(&input.agent),
            input,
            snapshot: self.registry().snapshot(),
            skills: self.0.skills.catalog(),
            history,
            at,
            log,
            given_up: Vec::new(),
            cancel,
            beginning,
            saving: None,
            since,
            deadline: since + left,
        };
        let stop = run.work().await;
        run.finish(stop).await;
    }

    /// What earlier turns of the session left to read. One that can't be read hides no other.
    async fn history(&self, row: &TurnRow, budget: usize) -> Result<Vec<Past>, StoreError> {
        if row.seq == 1 {
            return Ok(Vec::new());
        }
        // What is more than that does not fit in any case, also without the signs of JSON.
        let bytes = budget.saturating_mul(2 * BYTES_OF_A_TOKEN);
        let told = self.store().session_messages(&row.agent, &row.session, HISTORY, bytes).await?;
        let cut = told.first().is_some_and(|first| first.place > 1);
        let read = told.iter().filter_map(|told| {
            serde_json::from_str(&told.messages)
                .inspect_err(|error| tracing::error!(turn = %told.id, error = %error, "turn.history.row unreadable"))
                .map(|past| Past { place: told.place, ..past })
                .ok()
        });
        // What is read begins with a block, so that the prompt does not begin elsewhere in each turn.
        Ok(read.skip_while(|past| cut && !past.begins_a_block()).collect())
    }

    /// Ends a turn that can't be gone on with.
    async fn give_up(&self, turn: Turn<'_>, code: &str, error: &str) {
        let id = turn.lease.id.clone();
        if let Err(error) = self.end_turn(turn, failed(TurnStatus::Failed, code, error), None).await {
            tracing::error!(error = %error, turn = %id, "turn.end.write failed");
        }
    }
}

/// A turn that this process took up, or begins.
pub(crate) struct Taken {
    pub(crate) row: TurnRow,
    /// What it runs under; none when that can't be read.
    pub(crate) input: Option<Input>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) cancel: CancellationToken,
    /// The row, while it is being written.
    pub(crate) beginning: Option<Writing>,
}

/// A turn that is worked on here, until this is dropped.
struct Held {
    engine: Engine,
    id: String,
}

impl Held {
    fn of(engine: &Engine, id: &str) -> Self {
        engine.held().insert(id.to_owned());
        Self { engine: engine.clone(), id: id.to_owned() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.engine.held().remove(&self.id);
    }
}

/// The outcome of a turn that did nothing.
pub(crate) fn failed(status: TurnStatus, code: &str, error: &str) -> TurnOutcome {
    TurnOutcome {
        status,
        text: None,
        code: Some(code.to_owned()),
        error: Some(error.to_owned()),
        attachments: Vec::new(),
        evidence: Vec::new(),
        skills: Vec::new(),
        model: None,
        usage: crate::model::Usage::default(),
        steps: 0,
        tool_calls: 0,
        duration_ms: 0,
    }
}
