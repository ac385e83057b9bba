//! The loop of one turn: prompt, model, calls, and again, until an answer, a halt, a limit or a park.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolcrib_executor::may_be_ledgered;
use toolcrib_registry::{Agent, ModelChoice, Snapshot};
use toolcrib_skills::SkillCatalog;
use toolcrib_store::{StoreError, TurnLease};

use crate::checkpoint::{Checkpoint, PendingCall};
use crate::engine::Engine;
use crate::event::{EventLog, TurnEvent};
use crate::input::Input;
use crate::message::{Message, ModelCall};
use crate::model::ModelError;
use crate::outcome::{TurnOutcome, TurnStatus};
use crate::prompt::Past;
use crate::providers::{Answer, Listener};
use crate::system_tools::SPAWN_SUBAGENTS;

/// Steps that a turn may take beyond twice its calls.
const MORE_STEPS: usize = 10;
/// How long a checkpoint waits for a newer one, or the end, that would replace it.
const REPLACED_WITHIN: Duration = Duration::from_millis(5);

/// A turn that is being worked on.
pub(crate) struct Run {
    pub(crate) engine: Engine,
    pub(crate) lease: TurnLease,
    pub(crate) agent_id: String,
    pub(crate) session: String,
    pub(crate) input: Input,
    pub(crate) agent: Arc<Agent>,
    /// The catalogs as they were when it was taken up.
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) skills: Arc<SkillCatalog>,
    pub(crate) history: Vec<Past>,
    pub(crate) at: Checkpoint,
    pub(crate) log: Arc<EventLog>,
    /// What was last told to be left out of the prompt.
    pub(crate) given_up: Vec<String>,
    pub(crate) cancel: CancellationToken,
    /// The row of the turn, while it is being written.
    pub(crate) beginning: Option<Writing>,
    /// The checkpoint that is written while the model is asked.
    pub(crate) saving: Option<Saving>,
    /// Since when its time is not in the checkpoint yet.
    pub(crate) since: Instant,
    pub(crate) deadline: Instant,
}

/// Something that is being written. Its answer is whether the turn is the caller's.
pub(crate) type Writing = JoinHandle<Result<bool, StoreError>>;

/// A checkpoint that is written meanwhile.
pub(crate) struct Saving {
    writing: Writing,
    replaced: CancellationToken,
}

impl Saving {
    /// Waits for it when it is being written, and leaves it when that has not begun. Tells whether the lease is still the
    /// caller's, as far as this shows.
    pub(crate) async fn end(self) -> Result<bool, StoreError> {
        self.replaced.cancel();
        written(self.writing).await
    }
}

async fn written(writing: Writing) -> Result<bool, StoreError> {
    // A task that failed has written nothing that could be relied on.
    writing.await.unwrap_or(Ok(false))
}

/// Why a turn stops being worked on here.
pub(crate) enum Stop {
    /// It ended.
    Ended(Box<TurnOutcome>),
    /// It waits for people: these calls of the ledger, about which they are asked this.
    Parked { ledger_ids: Vec<String>, approvals: Vec<String> },
    /// Another process works on it, or the database can't be written: whoever takes it up goes on from the last
    /// checkpoint.
    Left,
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        tracing::error!(error = %error, reason = error.reason(), "turn.checkpoint.write failed; the turn is left to be resumed");
        Stop::Left
    }
}

impl Run {
    /// Works on the turn until it stops.
    pub(crate) async fn work(&mut self) -> Stop {
        self.log.push(TurnEvent::Started { resumed: self.at.step > 0 || !self.at.messages.is_empty() });
        loop {
            match self.step().await {
                Ok(()) => {}
                Err(stop) => return stop,
            }
        }
    }

    async fn step(&mut self) -> Result<(), Stop> {
        self.check_end()?;
        if self.at.pending.is_empty() {
            let answer = self.ask_model().await?;
            self.begun().await?;
            self.take(answer)?;
            // What may leave something behind is asked for once, and is known before it is done.
            if self.leaves_something() {
                self.save().await?;
            }
            self.check_end()?;
        }
        self.run_pending().await?;
        self.save_meanwhile().await
    }

    /// Whether the calls that are asked for may change something, ask a person, or begin turns of their own.
    fn leaves_something(&self) -> bool {
        let leaves = |name: &str| match self.snapshot.tool(name) {
            Some(tool) => may_be_ledgered(tool, &self.agent),
            None => name == SPAWN_SUBAGENTS,
        };
        self.at.pending.iter().any(|pending| leaves(&pending.call.tool))
    }

    /// The end that came from outside.
    pub(crate) fn check_end(&self) -> Result<(), Stop> {
        if self.cancel.is_cancelled() {
            return Err(self.end(TurnStatus::Cancelled, None, "turn.cancelled", "somebody ended the turn"));
        }
        if Instant::now() >= self.deadline {
            return Err(self.timed_out());
        }
        Ok(())
    }

    fn timed_out(&self) -> Stop {
        let seconds = self.agent.limits().turn_timeout.as_secs();
        self.end(
            TurnStatus::Limit,
            None,
            "turn.timeout",
            &format!("the turn took longer than {seconds} s; raise turn_timeout of the agent if that is too short"),
        )
    }

    /// Waits until the row of the turn is written: what the model says is not acted on before.
    pub(crate) async fn begun(&mut self) -> Result<(), Stop> {
        let Some(writing) = self.beginning.take() else { return Ok(()) };
        if written(writing).await? { Ok(()) } else { Err(Stop::Left) }
    }

    /// Writes down where it stands, and waits for it: what comes next may leave something behind.
    async fn save(&mut self) -> Result<(), Stop> {
        self.saved().await?;
        let text = self.checkpoint_text();
        let held = self.engine.store().checkpoint_turn(&self.lease, &text).await?;
        if held { Ok(()) } else { Err(Stop::Left) }
    }

    /// Writes down where it stands while the model is asked, unless what comes next replaces it at once. If it is lost, the
    /// calls are made again under the keys that were written down before them: what was done is not done again.
    async fn save_meanwhile(&mut self) -> Result<(), Stop> {
        self.saved().await?;
        let (text, lease, store) = (self.checkpoint_text(), self.lease.clone(), self.engine.store().clone());
        let replaced = CancellationToken::new();
        let waiting = replaced.clone();
        let writing = self.engine.inner().running.spawn(async move {
            match waiting.run_until_cancelled(tokio::time::sleep(REPLACED_WITHIN)).await {
                Some(()) => store.checkpoint_turn(&lease, &text).await,
                None => Ok(true),
            }
        });
        self.saving = Some(Saving { writing, replaced });
        Ok(())
    }

    /// Waits until what is being written down is: something newer comes now.
    async fn saved(&mut self) -> Result<(), Stop> {
        let Some(saving) = self.saving.take() else { return Ok(()) };
        if saving.end().await? { Ok(()) } else { Err(Stop::Left) }
    }

    pub(crate) fn checkpoint_text(&mut self) -> String {
        let ran_ms = self.ran_ms();
        self.since += Duration::from_millis(ran_ms - self.at.ran_ms);
        self.at.ran_ms = ran_ms;
        self.at.record = self.log.record();
        serde_json::to_string(&self.at).unwrap_or_default()
    }

    /// How long it has run, in ms, without its waits for people.
    pub(crate) fn ran_ms(&self) -> u64 {
        self.at.ran_ms + u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn ask_model(&mut self) -> Result<Answer, Stop> {
        let models: Vec<ModelChoice> =
            self.agent.model().into_iter().chain(self.agent.fallback_models()).cloned().collect();
        if models.is_empty() {
            let message = format!(
                "the agent {0} names no provider and model; write both into its profile: in its pack, or with \
                 `toolcrib agents put {0} FILE`",
                self.agent_id
            );
            return Err(self.end(TurnStatus::Failed, None, "turn.no_model", &message));
        }
        let (request, prompt) = self.request()?;
        let began = Instant::now();
        let mut listener = ToLog { log: Arc::clone(&self.log) };
        let providers = self.engine.providers();
        let asked = tokio::select! {
            answer = providers.ask(&models, &request, &mut listener) => answer,
            () = self.cancel.cancelled() => {
                return Err(self.end(TurnStatus::Cancelled, None, "turn.cancelled", "somebody ended the turn"));
            }
            () = tokio::time::sleep_until(self.deadline) => return Err(self.timed_out()),
        };
        let answer =
            asked.map_err(|error: ModelError| self.end(TurnStatus::Failed, None, error.code(), &error.to_string()))?;
        self.log.push(TurnEvent::ModelAnswered {
            model: answer.model.to_string(),
            prompt,
            usage: answer.usage,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        Ok(answer)
    }

    /// Takes the model's answer in.
    fn take(&mut self, answer: Answer) -> Result<(), Stop> {
        self.at.usage += answer.usage;
        self.at.model = Some(answer.model.to_string());
        let step = self.at.step;
        self.at.step += 1;
        let named = |(place, call): (usize, ModelCall)| ModelCall {
            id: format!("{}_{step}_{place}", self.lease.id),
            signed_by: (!call.signatures.is_empty()).then(|| answer.model.provider.clone()),
            ..call
        };
        let calls: Vec<ModelCall> = answer.calls.into_iter().enumerate().map(named).collect();
        let text = answer.text;
        // The last call of an answer that was cut is half a call.
        if calls.is_empty() || answer.cut {
            self.at.messages.push(Message::Assistant { text: text.clone(), calls: Vec::new() });
            if answer.cut {
                let message = "the model's answer was cut at the longest it may be; raise max_output_tokens of the agent, or ask for less";
                return Err(self.end(TurnStatus::Limit, Some(text), "turn.output_cut", message));
            }
            return Err(Stop::Ended(Box::new(self.outcome(TurnStatus::Completed, Some(text)))));
        }
        // The calls that a turn answers itself, without running them, have their bound too.
        if self.at.step > MORE_STEPS + 2 * self.agent.limits().max_tool_calls {
            let message = format!(
                "the model was asked {} times and found no end; raise max_tool_calls of the agent if that is too few",
                self.at.step
            );
            return Err(self.end(TurnStatus::Limit, Some(text), "turn.max_tool_calls", &message));
        }
        self.at.pending = calls.iter().cloned().map(PendingCall::new).collect();
        self.at.messages.push(Message::Assistant { text, calls });
        Ok(())
    }

    /// The time until which calls are awaited that have no side effect.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Passes on what the model says.
struct ToLog {
    log: Arc<EventLog>,
}

#[async_trait]
impl Listener for ToLog {
    async fn text(&mut self, text: &str) {
        self.log.push(TurnEvent::TextDelta { text: text.to_owned() });
    }

    async fn again(&mut self, model: &ModelChoice, why: &ModelError) {
        self.log.push(TurnEvent::TextDiscarded { model: model.to_string(), code: why.code().to_owned() });
    }
}
