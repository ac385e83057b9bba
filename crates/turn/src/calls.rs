//! The calls of one answer: limits, system tools, the batch, halts and waits.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolcrib_definition::{Ctx, CtxField};
use toolcrib_executor::{Batch, BatchObserver, CallRequest, Outcome, Status};

use crate::checkpoint::{Cited, EndedCall, PendingCall, fingerprint};
use crate::event::{EventLog, TurnEvent};
use crate::message::{CallResult, Message, ModelCall};
use crate::outcome::TurnStatus;
use crate::run::{Run, Stop};
use crate::system_tools::{self, LOAD_SKILL, SPAWN_SUBAGENTS, TOOL_SEARCH, is_system_tool};

impl Run {
    /// Brings the calls of the last answer to their ends.
    pub(crate) async fn run_pending(&mut self) -> Result<(), Stop> {
        self.count_repeats()?;
        let open = |pending: &PendingCall| pending.ended.is_none();
        let (system, tools): (Vec<usize>, Vec<usize>) = (0..self.at.pending.len())
            .filter(|place| open(&self.at.pending[*place]))
            .partition(|place| is_system_tool(&self.at.pending[*place].call.tool));
        let begun = tools.iter().any(|place| self.at.pending[*place].begun);
        if !tools.is_empty() && !begun && self.at.limit_told && self.calls_left() == 0 {
            let most = self.agent.limits().max_tool_calls;
            let message =
                format!("the model went on asking for calls after all {most} of the turn (max_tool_calls) had run");
            let text = self.last_text();
            return Err(self.end(TurnStatus::Limit, text, "turn.max_tool_calls", &message));
        }
        let waits = self.run_batch(tools).await?;
        // A halt ends the turn, whatever else is waited for.
        if let Some(say) = self.halt() {
            let text = self.last_text().filter(|lead_in| !lead_in.trim().is_empty()).or(say);
            return Err(Stop::Ended(Box::new(self.outcome(TurnStatus::Halted, text))));
        }
        for place in system {
            self.run_system(place).await;
        }
        if !waits.is_empty() {
            if self.cancel.is_cancelled() {
                return self.check_end();
            }
            let approvals = waits.iter().filter_map(|wait| wait.approval.clone()).collect();
            let ledger_ids = waits.into_iter().map(|wait| wait.ledger_id).collect();
            return Err(Stop::Parked { ledger_ids, approvals });
        }
        self.answer_calls();
        Ok(())
    }

    /// Counts how often each call was asked for: past the limit one warning, then the end.
    fn count_repeats(&mut self) -> Result<(), Stop> {
        let most = self.agent.limits().max_tool_repeat;
        for place in 0..self.at.pending.len() {
            let pending = &mut self.at.pending[place];
            // A call that was taken up again was counted before.
            if pending.counted || pending.ended.is_some() {
                continue;
            }
            pending.counted = true;
            let key = fingerprint(&pending.call);
            let asked = self.at.asked.entry(key.clone()).or_default();
            *asked += 1;
            let warned = self.at.warned.get(&key).copied();
            // A warning that stands in the same answer could not be read yet.
            if *asked > most + 1 && warned.is_some_and(|step| step < self.at.step) {
                let message = format!(
                    "the model asked for {} with the same arguments again after it was warned (max_tool_repeat {most})",
                    pending.call.tool
                );
                let text = self.last_text();
                return Err(self.end(TurnStatus::Limit, text, "turn.repeat", &message));
            }
            if *asked > most {
                self.at.warned.entry(key).or_insert(self.at.step);
                let message = format!(
                    "not run: this call was made {most} times with these arguments; another repetition ends the turn"
                );
                let ended = EndedCall::answered(Status::Skipped, json!({ "error": message }));
                let call = pending.call.clone();
                pending.ended = Some(ended);
                self.log.push(finished(&call, "skipped", Some("call.repeat"), Duration::ZERO));
            }
        }
        Ok(())
    }

    pub(crate) fn calls_left(&self) -> usize {
        self.agent.limits().max_tool_calls.saturating_sub(self.at.calls)
    }

    /// Runs a call of the turn's own tools.
    async fn run_system(&mut self, place: usize) {
        let call = self.at.pending[place].call.clone();
        let began = Instant::now();
        self.log.push(started(&call));
        let ended = if self.at.system_calls >= self.agent.limits().max_tool_calls {
            EndedCall::answered(Status::Skipped, json!({ "error": "not run: the turn has made too many such calls" }))
        } else {
            match call.tool.as_str() {
                TOOL_SEARCH => self.search_tools(&call),
                LOAD_SKILL => self.load_skill(&call),
                SPAWN_SUBAGENTS if self.may_spawn() => self.spawn_subagents(&call).await,
                other => {
                    let message = format!("there is no tool {other:?} that this agent may use");
                    EndedCall::answered(Status::Error, json!({ "error": message }))
                }
            }
        };
        self.at.system_calls += 1;
        self.log.push(finished(&call, &ended.status, None, began.elapsed()));
        self.at.pending[place].ended = Some(ended);
    }

    fn search_tools(&mut self, call: &ModelCall) -> EndedCall {
        let registry = self.engine.registry();
        let (ended, new) =
            system_tools::search(&call.arguments, registry, &self.snapshot, &self.agent, &self.at.enabled);
        if !new.is_empty() {
            self.at.enabled.extend(new.iter().cloned());
            self.log.push(TurnEvent::ToolsEnabled { tools: new });
        }
        ended
    }

    fn load_skill(&mut self, call: &ModelCall) -> EndedCall {
        let catalog = Arc::clone(&self.skills);
        let agent = Arc::clone(&self.agent);
        let present: HashSet<String> = self
            .at
            .skills
            .iter()
            .map(|skill| skill.name.clone())
            .chain(self.history.iter().flat_map(|past| past.skills.iter().cloned()))
            .collect();
        let (ended, active) = system_tools::load(&call.arguments, &catalog.of(&self.agent_id, &agent), &present);
        self.activated(&active);
        ended
    }

    /// Runs the calls at these places as a batch. Returns those that wait for somebody.
    async fn run_batch(&mut self, places: Vec<usize>) -> Result<Vec<Wait>, Stop> {
        let (places, hidden): (Vec<usize>, Vec<usize>) =
            places.into_iter().partition(|place| !self.is_hidden(&self.at.pending[*place].call.tool));
        for place in hidden {
            let call = self.at.pending[place].call.clone();
            let message = format!("{} is not enabled yet; call tool_search first", call.tool);
            self.log.push(finished(&call, "skipped", Some("call.deferred"), Duration::ZERO));
            self.at.pending[place].ended = Some(EndedCall::answered(Status::Skipped, json!({ "error": message })));
        }
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let calls: Vec<ModelCall> = places.iter().map(|place| self.at.pending[*place].call.clone()).collect();
        // Those that were begun before a wait or a crash have their place already.
        let begun = places.iter().filter(|place| self.at.pending[**place].begun).count();
        let limit = self.calls_left() + begun;
        let resumed: Vec<bool> = places.iter().map(|place| self.at.pending[*place].begun).collect();
        for (order, place) in places.iter().enumerate() {
            if order < limit && !std::mem::replace(&mut self.at.pending[*place].begun, true) {
                self.at.calls += 1;
            }
        }
        self.at.limit_told |= calls.len() > limit;
        let given_up = self.cancel.child_token();
        let _at_the_deadline = cancel_after(given_up.clone(), self.left());
        let request = |call: &ModelCall| CallRequest {
            call_id: Some(call.id.clone()),
            cancellation: given_up.clone(),
            ..CallRequest::new(call.tool.as_str(), call.arguments.clone())
        };
        let batch = Batch {
            limit,
            snapshot: Arc::clone(&self.snapshot),
            observer: Arc::new(ToLog { log: Arc::clone(&self.log), calls: calls.clone(), resumed }),
            calls: calls.iter().map(request).collect(),
        };
        let ctx = self.call_ctx();
        let outcomes = self.engine.executor().batch(&self.agent_id, &self.agent, ctx, batch).await;
        let mut waits = Vec::new();
        for (place, outcome) in places.into_iter().zip(outcomes) {
            if outcome.status == Status::Waiting {
                // Nobody knows which row it waits for: the same call is asked for again when the database answers.
                let Some(ledger_id) = outcome.ledger_id.clone() else { return Err(Stop::Left) };
                waits.push(Wait { ledger_id, approval: outcome.approval.clone() });
                continue;
            }
            self.cite(&outcome);
            let ended = EndedCall::of(&outcome);
            self.at.attachments.extend(ended.attachments.iter().cloned());
            self.at.pending[place].ended = Some(ended);
        }
        Ok(waits)
    }

    /// Appends what the calls came to, for the model to read.
    pub(crate) fn answer_calls(&mut self) {
        // A token is about four bytes: a single result never takes more than a quarter of the budget.
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

    /// Whether a tool is deferred, and was not found yet.
    fn is_hidden(&self, tool: &str) -> bool {
        let deferred = |tool| self.agent.allows(tool) && !self.agent.offers(tool);
        self.snapshot.tool(tool).is_some_and(|tool| deferred(tool)) && !self.at.enabled.iter().any(|name| name == tool)
    }

    /// Keeps the ids that a result may be cited by.
    fn cite(&mut self, outcome: &Outcome) {
        let evidence = self.snapshot.tool(&outcome.tool).and_then(|tool| tool.as_data()?.evidence.as_ref());
        let Some(evidence) = evidence.filter(|_| matches!(outcome.status, Status::Ok | Status::Halted)) else { return };
        let items = outcome.result.get("items").and_then(serde_json::Value::as_array).into_iter().flatten();
        for id in items.filter_map(|item| item.get("id")?.as_str()) {
            let cited = Cited { kind: evidence.kind.clone(), id: id.to_owned() };
            if !self.at.evidence.contains(&cited) {
                self.at.evidence.push(cited);
            }
        }
    }

    /// The first halt among the calls, with what it says.
    fn halt(&self) -> Option<Option<String>> {
        let halts = self.at.pending.iter().filter_map(|pending| pending.ended.as_ref()?.halt.as_ref());
        halts.map(|say| say.say.clone()).next()
    }

    /// What the model said before it asked for the calls.
    fn last_text(&self) -> Option<String> {
        match self.at.messages.last() {
            Some(Message::Assistant { text, .. }) => Some(text.clone()),
            _ => None,
        }
    }

    /// Takes back the calls that wait for a person: nobody will read what they come to.
    pub(crate) async fn take_back(&self) {
        let store = self.engine.store();
        let open = self.at.pending.iter().filter(|pending| pending.ended.is_none());
        let call_ids: Vec<String> = open.map(|pending| pending.call.id.clone()).collect();
        if call_ids.is_empty() {
            return;
        }
        let ctx = self.call_ctx();
        let session = ctx.get(CtxField::ChatId).unwrap_or_default();
        let waiting = store.awaiting_calls(session, &call_ids).await.unwrap_or_else(|error| {
            tracing::error!(error = %error, "turn.calls.read failed");
            Vec::new()
        });
        for id in &waiting {
            if let Err(error) = store.cancel_call(id, "turn", Some("the turn that asked for it ended")).await {
                tracing::error!(error = %error, call = %id, "turn.call.cancel failed");
            }
        }
    }

    /// The context of its calls: the session is their chat, unless the caller names another.
    pub(crate) fn call_ctx(&self) -> Ctx {
        let ctx = self.input.ctx.clone();
        match ctx.get(CtxField::ChatId) {
            Some(_) => ctx,
            None => ctx.with(CtxField::ChatId, self.session.as_str()),
        }
    }
}

/// A call that waits for somebody.
struct Wait {
    ledger_id: String,
    approval: Option<String>,
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

/// Cancels after a time, unless it is dropped before.
fn cancel_after(token: CancellationToken, time: Duration) -> tokio_util::task::AbortOnDropHandle<()> {
    tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::time::sleep(time).await;
        token.cancel();
    }))
}

fn started(call: &ModelCall) -> TurnEvent {
    TurnEvent::CallStarted { call_id: call.id.clone(), tool: call.tool.clone(), arguments: call.arguments.clone() }
}

/// The end of a call that the turn itself answers.
fn finished(call: &ModelCall, status: &str, code: Option<&str>, took: Duration) -> TurnEvent {
    TurnEvent::CallFinished {
        call_id: call.id.clone(),
        tool: call.tool.clone(),
        status: status.to_owned(),
        code: code.map(str::to_owned),
        approval: None,
        trace_id: None,
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Passes on what the calls of a batch do.
struct ToLog {
    log: Arc<EventLog>,
    calls: Vec<ModelCall>,
    /// Those that were told to begin before the turn waited.
    resumed: Vec<bool>,
}

impl BatchObserver for ToLog {
    fn began(&self, place: usize) {
        if !self.resumed[place] {
            self.log.push(started(&self.calls[place]));
        }
    }

    fn ended(&self, place: usize, outcome: &Outcome) {
        self.log.push(TurnEvent::CallFinished {
            call_id: self.calls[place].id.clone(),
            tool: outcome.tool.clone(),
            status: outcome.status.as_str().to_owned(),
            code: outcome.code.as_deref().map(str::to_owned),
            approval: outcome.approval.clone(),
            trace_id: Some(outcome.trace_id.clone()),
            duration_ms: outcome.duration_ms,
        });
    }
}
