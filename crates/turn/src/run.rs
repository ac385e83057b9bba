//! The loop of one turn: prompt, model, calls, and again, until an answer, a halt, a limit or a park.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolcrib_definition::{Approval, EffectMode};
use toolcrib_executor::EventKind;
use toolcrib_registry::{Agent, ModelChoice, Snapshot};
use toolcrib_skills::{Active, SkillCatalog};
use toolcrib_store::{StoreError, TurnEnd, TurnLease, TurnState};

use crate::checkpoint::{ActiveSkill, Checkpoint, PendingCall};
use crate::engine::Engine;
use crate::event::{EventLog, TurnEvent};
use crate::input::Input;
use crate::message::{CallResult, Message, ModelCall};
use crate::model::{ModelError, ModelRequest, ToolOffer};
use crate::outcome::{TurnOutcome, TurnStatus};
use crate::prompt::{self, Now, Past, PromptParts};
use crate::providers::{Answer, Listener};
use crate::system_tools::{
    LOAD_SKILL, SPAWN_SUBAGENTS, TOOL_SEARCH, load_skill_offer, spawn_subagents_offer, tool_search_offer,
};

/// Steps that a turn may take beyond twice its calls.
const MORE_STEPS: usize = 10;

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
    pub(crate) cancel: CancellationToken,
    /// A checkpoint that is being written.
    pub(crate) saving: Option<JoinHandle<Result<bool, StoreError>>>,
    /// When it was taken up.
    pub(crate) since: Instant,
    pub(crate) deadline: Instant,
}

/// Why a turn stops being worked on here.
pub(crate) enum Stop {
    /// It ended.
    Ended(Box<TurnOutcome>),
    /// It waits for people, who are asked this.
    Parked { approvals: Vec<String> },
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
            Some(tool) => {
                tool.effect() != EffectMode::Idempotent
                    || tool.as_code().is_some_and(|tool| tool.asks_a_person())
                    || tool.as_data().is_some_and(|tool| tool.approval != Approval::Never)
                    || self.agent.approvals_required().iter().any(|required| required == name)
            }
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
            &format!("the turn took longer than {seconds} s (turn_timeout)"),
        )
    }

    /// Writes down where it stands, and waits for it: what comes next may leave something behind.
    async fn save(&mut self) -> Result<(), Stop> {
        self.save_meanwhile().await?;
        self.saved().await
    }

    /// Writes down where it stands while the model is asked. If it is lost, the calls are made again under the keys that
    /// were written down before them: what was done is not done again.
    async fn save_meanwhile(&mut self) -> Result<(), Stop> {
        self.saved().await?;
        let (text, lease, store) = (self.checkpoint_text(), self.lease.clone(), self.engine.store().clone());
        let saving = self.engine.inner().running.spawn(async move { store.checkpoint_turn(&lease, &text).await });
        self.saving = Some(saving);
        Ok(())
    }

    /// Waits until what is being written down is.
    async fn saved(&mut self) -> Result<(), Stop> {
        let Some(saving) = self.saving.take() else { return Ok(()) };
        // A task that failed has written nothing that could be relied on.
        let held = saving.await.unwrap_or(Ok(false))?;
        if held { Ok(()) } else { Err(Stop::Left) }
    }

    fn checkpoint_text(&self) -> String {
        let at = Checkpoint { ran_ms: self.ran_ms(), ..self.at.clone() };
        serde_json::to_string(&at).unwrap_or_default()
    }

    /// How long it has run, in ms, without its waits for people.
    fn ran_ms(&self) -> u64 {
        self.at.ran_ms + u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn ask_model(&mut self) -> Result<Answer, Stop> {
        let models: Vec<ModelChoice> =
            self.agent.model().into_iter().chain(self.agent.fallback_models()).cloned().collect();
        if models.is_empty() {
            let message = format!("the agent {} names no provider and model", self.agent_id);
            return Err(self.end(TurnStatus::Failed, None, "turn.no_model", &message));
        }
        let request = self.request()?;
        let mut listener = ToLog { log: Arc::clone(&self.log) };
        let providers = self.engine.providers();
        let asked = tokio::select! {
            answer = providers.ask(&models, &request, &mut listener) => answer,
            () = self.cancel.cancelled() => {
                return Err(self.end(TurnStatus::Cancelled, None, "turn.cancelled", "somebody ended the turn"));
            }
            () = tokio::time::sleep_until(self.deadline) => return Err(self.timed_out()),
        };
        asked.map_err(|error: ModelError| self.end(TurnStatus::Failed, None, error.code(), &error.to_string()))
    }

    /// The request for the next answer. The first one decides which skills are in the prompt.
    fn request(&mut self) -> Result<ModelRequest, Stop> {
        let (agent, snapshot, catalog) =
            (Arc::clone(&self.agent), Arc::clone(&self.snapshot), Arc::clone(&self.skills));
        let skills = catalog.of(&self.agent_id, &agent);
        let allowed = snapshot.allowed(&agent);
        let mut deferred: Vec<(&str, &str)> = allowed
            .iter()
            .filter(|tool| !agent.offers(tool))
            .filter_map(|tool| Some((tool.name(), tool.view()?.description)))
            .collect();
        let mut listed = skills.list();
        let search = !deferred.is_empty() && !agent.denies(TOOL_SEARCH);
        let load = !listed.is_empty() && !agent.denies(LOAD_SKILL);
        // A list of what can't be had is none.
        deferred.retain(|_| search);
        listed.retain(|_| load);
        let tools = self.offers(&snapshot, search, load);
        let eager = skills.eager();
        let mut dropped = 0;
        let prompt = loop {
            let now = match self.at.messages.is_empty() {
                true => {
                    let present = eager
                        .iter()
                        .map(|active| active.skill.name().to_owned())
                        .chain(self.history.iter().flat_map(|past| past.skills.iter().cloned()));
                    let triggered = skills.activate(&self.input.text, &present.collect());
                    Now::Begins { user: &self.input.text, triggered }
                }
                false => Now::Goes { messages: &self.at.messages },
            };
            let prompt = prompt::build(PromptParts {
                identity: agent.instructions().unwrap_or_default(),
                eager: eager.clone(),
                listed: listed.clone(),
                deferred: deferred.clone(),
                history: &self.history,
                now,
                tools: &tools,
                budget: agent.limits().context_budget,
            });
            let prompt = prompt
                .map_err(|error| self.end(TurnStatus::Failed, None, "turn.context_budget", &error.to_string()))?;
            if prompt.dropped == 0 {
                break prompt;
            }
            // The skills of turns that were given up are not in the prompt any more, and may come again; and what else
            // was given up may find room.
            dropped += prompt.dropped;
            self.history.drain(..prompt.dropped);
        };
        let mut given_up = prompt.given_up.clone();
        if dropped > 0 {
            given_up.push(format!("the oldest {dropped} turn(s)"));
        }
        if !given_up.is_empty() {
            self.log.push(TurnEvent::ContextCut { given_up });
        }
        // An eager text that was given up meanwhile is not there any more either.
        let is_there = |name: &str| prompt.active.iter().any(|active| active.skill.name() == name);
        let was_eager = |name: &str| eager.iter().any(|active| active.skill.name() == name);
        self.at.skills.retain(|skill| !was_eager(&skill.name) || is_there(&skill.name));
        if let Some(user) = prompt.user {
            self.at.messages.push(user);
            self.activated(&prompt.active);
        }
        Ok(ModelRequest {
            model: String::new(),
            system: prompt.system,
            messages: prompt.messages,
            tools,
            temperature: agent.temperature(),
            max_output_tokens: agent.max_output_tokens(),
        })
    }

    /// Skills came into the prompt.
    pub(crate) fn activated(&mut self, active: &[Active]) {
        if active.is_empty() {
            return;
        }
        let skills: Vec<ActiveSkill> = active
            .iter()
            .map(|active| ActiveSkill { name: active.skill.name().to_owned(), reason: active.reason.to_string() })
            .collect();
        self.at.skills.extend(skills.iter().cloned());
        let (turn, session) = (&self.lease.id, &self.session);
        self.engine.publish(
            EventKind::SkillsActivated,
            &self.agent_id,
            || json!({ "turn": turn, "session": session, "skills": skills }),
        );
        self.log.push(TurnEvent::SkillsActivated { skills });
    }

    /// What the model may ask for: always in the same order, what was found later at the end.
    fn offers(&self, snapshot: &Snapshot, search: bool, load: bool) -> Vec<ToolOffer> {
        let mut offers = Vec::new();
        if search {
            offers.push(tool_search_offer());
        }
        if load {
            offers.push(load_skill_offer());
        }
        if self.may_spawn() {
            offers.push(spawn_subagents_offer());
        }
        let found = self.at.enabled.iter().filter_map(|name| snapshot.tool(name));
        let shown = snapshot.allowed(&self.agent).into_iter().filter(|tool| self.agent.offers(tool));
        offers.extend(shown.chain(found).filter_map(|tool| {
            let view = tool.view()?;
            Some(ToolOffer {
                name: view.name.to_string(),
                description: view.description.to_owned(),
                parameters: view.parameters.schema().clone().into(),
            })
        }));
        offers
    }

    /// Whether it may spawn subagents: only an agent that names the tool, and not too deep.
    pub(crate) fn may_spawn(&self) -> bool {
        self.agent.names_tool(SPAWN_SUBAGENTS) && self.input.depth < self.agent.limits().subagent_depth
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
                let message = "the model's answer was cut at the longest it may be (max_output_tokens)";
                return Err(self.end(TurnStatus::Limit, Some(text), "turn.output_cut", message));
            }
            return Err(Stop::Ended(Box::new(self.outcome(TurnStatus::Completed, Some(text)))));
        }
        // The calls that a turn answers itself, without running them, have their bound too.
        if self.at.step > MORE_STEPS + 2 * self.agent.limits().max_tool_calls {
            let message = format!("the model was asked {} times and found no end (max_tool_calls)", self.at.step);
            return Err(self.end(TurnStatus::Limit, Some(text), "turn.max_tool_calls", &message));
        }
        self.at.pending = calls.iter().cloned().map(PendingCall::new).collect();
        self.at.messages.push(Message::Assistant { text, calls });
        Ok(())
    }

    /// Appends what the calls came to, for the model to read.
    pub(crate) fn answer_calls(&mut self) {
        // A single result never takes more than a quarter of what there is.
        let longest = self.agent.limits().context_budget.max(64);
        let result = |pending: PendingCall| CallResult {
            id: pending.call.id,
            tool: pending.call.tool,
            text: match pending.ended {
                Some(ended) => shortened(text_of(ended.result), longest),
                None => "{\"error\":\"not known: the turn ended before this call did\"}".to_owned(),
            },
        };
        let results = std::mem::take(&mut self.at.pending).into_iter().map(result).collect();
        self.at.messages.push(Message::Tool { results });
    }

    /// An end that is no answer.
    pub(crate) fn end(&self, status: TurnStatus, text: Option<String>, code: &str, error: &str) -> Stop {
        let outcome = self.outcome(status, text);
        Stop::Ended(Box::new(TurnOutcome { code: Some(code.to_owned()), error: Some(error.to_owned()), ..outcome }))
    }

    pub(crate) fn outcome(&self, status: TurnStatus, text: Option<String>) -> TurnOutcome {
        TurnOutcome {
            status,
            text: text.filter(|text| !text.trim().is_empty()),
            code: None,
            error: None,
            attachments: self.at.attachments.clone(),
            evidence: self.at.evidence.clone(),
            skills: self.at.skills.clone(),
            model: self.at.model.clone(),
            usage: self.at.usage,
            steps: self.at.step,
            tool_calls: self.at.calls,
            duration_ms: self.ran_ms(),
        }
    }

    /// Writes down how it stopped, and tells it.
    pub(crate) async fn finish(mut self, stop: Stop) {
        let stop = match self.saved().await {
            Ok(()) => stop,
            Err(left) => left,
        };
        if let Stop::Ended(outcome) = &stop {
            self.take_back().await;
            if matches!(outcome.status, TurnStatus::Cancelled | TurnStatus::Limit) {
                self.engine.cancel_children(&self.lease.id).await;
            }
        }
        let written = match stop {
            Stop::Ended(outcome) => self.finish_ended(*outcome).await,
            Stop::Parked { approvals } => self.finish_parked(approvals).await,
            Stop::Left => Ok(()),
        };
        if let Err(error) = written {
            tracing::error!(error = %error, reason = error.reason(), turn = %self.lease.id, "turn.end.write failed; the turn is left to be resumed");
        }
    }

    async fn finish_ended(&mut self, outcome: TurnOutcome) -> Result<(), StoreError> {
        let state = match outcome.status {
            TurnStatus::Completed | TurnStatus::Halted => TurnState::Completed,
            TurnStatus::Limit | TurnStatus::Failed => TurnState::Failed,
            TurnStatus::Cancelled => TurnState::Cancelled,
        };
        if !self.at.pending.is_empty() {
            // What was done is told, also when the turn ends before the rest.
            self.answer_calls();
        }
        let past = Past { messages: self.told(&outcome), skills: self.brought(), place: 0 };
        let end = TurnEnd {
            state,
            outcome: serde_json::to_string(&outcome).unwrap_or_default(),
            messages: (!past.messages.is_empty()).then(|| serde_json::to_string(&past).unwrap_or_default()),
        };
        if self.engine.store().end_turn(&self.lease, &end).await? {
            let (turn, session) = (&self.lease.id, &self.session);
            self.engine.publish(EventKind::TurnEnded, &self.agent_id, || {
                json!({
                    "turn": turn, "session": session, "status": outcome.status, "code": outcome.code,
                    "steps": outcome.steps, "tool_calls": outcome.tool_calls, "duration_ms": outcome.duration_ms,
                })
            });
            self.log.push(TurnEvent::Ended { outcome: Box::new(outcome) });
        }
        Ok(())
    }

    async fn finish_parked(&mut self, approvals: Vec<String>) -> Result<(), StoreError> {
        let text = self.checkpoint_text();
        if self.engine.store().park_turn(&self.lease, &text, &self.at.waits).await? {
            let (turn, session) = (&self.lease.id, &self.session);
            self.engine.publish(
                EventKind::TurnParked,
                &self.agent_id,
                || json!({ "turn": turn, "session": session, "approvals": approvals }),
            );
            self.log.push(TurnEvent::Parked { approvals });
        }
        Ok(())
    }

    /// What later turns read of this one: whole exchanges, with an end.
    fn told(&self, outcome: &TurnOutcome) -> Vec<Message> {
        let mut messages = self.at.messages.clone();
        if messages.is_empty() {
            messages.push(Message::User { text: self.input.text.clone() });
        }
        // Blank messages are refused by some providers.
        let blank = |message: &Message| match message {
            Message::Assistant { text, calls } => text.trim().is_empty() && calls.is_empty(),
            _ => false,
        };
        messages.retain(|message| !blank(message));
        let answered = matches!(messages.last(), Some(Message::Assistant { .. }));
        if !answered {
            // A provider's own words are for people; the next turn needs to know only that, and what it was.
            let text = match (&outcome.text, &outcome.code) {
                (Some(text), _) => text.clone(),
                (None, Some(code)) => format!("[this turn ended without an answer: {code}]"),
                (None, None) => "[this turn ended here]".to_owned(),
            };
            messages.push(Message::Assistant { text, calls: Vec::new() });
        }
        messages
    }

    /// The skills whose texts are in the messages of this turn.
    fn brought(&self) -> Vec<String> {
        let brought = |skill: &&ActiveSkill| skill.reason != "eager" && !self.is_eager(&skill.name);
        self.at.skills.iter().filter(brought).map(|skill| skill.name.clone()).collect()
    }

    fn is_eager(&self, name: &str) -> bool {
        let skills = self.skills.of(&self.agent_id, &self.agent);
        skills.eager().iter().any(|active| active.skill.name() == name)
    }

    /// The time until which calls are awaited that have no side effect.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// What the model reads: a text as it is, anything else as JSON.
fn text_of(result: Value) -> String {
    match result {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// A text that fits, cut where a character ends.
fn shortened(mut text: String, longest: usize) -> String {
    if text.len() <= longest {
        return text;
    }
    let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    let rest = text.len() - end;
    text.truncate(end);
    text + &format!("… [cut: {rest} bytes more]")
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
