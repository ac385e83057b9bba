//! The calls of one answer: limits, the batch, halts and waits.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolcrib_definition::{Ctx, CtxField};
use toolcrib_executor::{Batch, BatchObserver, CallRequest, Outcome, Status};
use toolcrib_store::{LedgerState, Moved, UnbegunCall};

use crate::checkpoint::{Cited, EndedCall, PendingCall, fingerprint};
use crate::event::{EventLog, TurnEvent};
use crate::message::{CallResult, Message, ModelCall};
use crate::outcome::TurnStatus;
use crate::run::{Run, Stop};
use crate::system_tools::{TOOL_SEARCH, is_system_tool};

/// How long calls that are under way are waited for when their turn ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

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
                self.answer(place, Status::Skipped, "call.repeat", &message);
            }
        }
        Ok(())
    }

    pub(crate) fn calls_left(&self) -> usize {
        self.agent.limits().max_tool_calls.saturating_sub(self.at.calls)
    }

    /// Runs the calls at these places as a batch. Returns those that wait for somebody.
    async fn run_batch(&mut self, places: Vec<usize>) -> Result<Vec<Wait>, Stop> {
        let (places, hidden): (Vec<usize>, Vec<usize>) =
            places.into_iter().partition(|place| !self.is_hidden(&self.at.pending[*place].call.tool));
        for place in hidden {
            let tool = &self.at.pending[place].call.tool;
            match self.may_run_system(TOOL_SEARCH) {
                true => {
                    let message = format!("{tool} is not enabled in this turn; call tool_search first");
                    self.answer(place, Status::Skipped, "call.deferred", &message);
                }
                false => {
                    let message = no_such_tool(tool);
                    self.answer(place, Status::Denied, "call.denied", &message);
                }
            }
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
            let mut ended = EndedCall::of(&outcome);
            if outcome.code.as_deref() == Some("call.limit") {
                let most = self.agent.limits().max_tool_calls;
                let message = format!(
                    "not run: all {most} calls of this turn (max_tool_calls) are used; answer with what you have, for \
                     another call ends the turn"
                );
                ended.result = json!({ "error": message });
            }
            self.at.attachments.extend(ended.attachments.iter().cloned());
            self.at.pending[place].ended = Some(ended);
        }
        Ok(waits)
    }

    /// The end of a call that the turn itself answers, without running it.
    pub(crate) fn answer(&mut self, place: usize, status: Status, code: &str, message: &str) {
        let pending = &mut self.at.pending[place];
        self.log.push(finished(&pending.call, status, Some(code), Duration::ZERO));
        pending.ended = Some(EndedCall::answered(status, json!({ "error": message })));
    }

    /// Says of the calls that never began that they did not. Those that did and have no end may have taken effect.
    pub(crate) fn answer_unbegun(&mut self) {
        for place in 0..self.at.pending.len() {
            let pending = &self.at.pending[place];
            if pending.ended.is_none() && !pending.begun {
                let message = "not run: the turn ended before this call began";
                self.answer(place, Status::Skipped, "call.turn_ended", message);
            }
        }
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

    /// Takes back the calls that wait for a person, or were approved and not begun: nobody will read what they come to.
    pub(crate) async fn take_back(&mut self) {
        let store = self.engine.store().clone();
        let open = self.at.pending.iter().filter(|pending| pending.ended.is_none());
        let call_ids: Vec<String> = open.map(|pending| pending.call.id.clone()).collect();
        if call_ids.is_empty() {
            return;
        }
        let ctx = self.call_ctx();
        let session = ctx.get(CtxField::ChatId).unwrap_or_default().to_owned();
        let waiting = store.unbegun_calls(&session, &call_ids).await.unwrap_or_else(|error| {
            tracing::error!(error = %error, "turn.calls.read failed");
            Vec::new()
        });
        for UnbegunCall { id, call_id } in &waiting {
            match store.cancel_call(id, "turn", Some("the turn that asked for it ended")).await {
                Ok(Moved::Done(_)) => {
                    if let Some(place) = self.at.pending.iter().position(|pending| pending.call.id == *call_id) {
                        let message = "not run: the turn ended before it was begun";
                        self.answer(place, Status::Skipped, "call.not_made", message);
                    }
                }
                // Somebody began it in the same moment.
                Ok(_) => {}
                Err(error) => tracing::error!(error = %error, call = %id, "turn.call.cancel failed"),
            }
        }
        self.tell_what_was_made(&session).await;
    }

    /// Says what became of calls that could not be taken back: a person had approved them, and they were made.
    async fn tell_what_was_made(&mut self, session: &str) {
        let (store, executor) = (self.engine.store().clone(), self.engine.executor().clone());
        let until = Instant::now() + LAST_WORDS;
        for pending in self.at.pending.iter_mut().filter(|pending| pending.begun && pending.ended.is_none()) {
            let found = async {
                let Some(row) = store.ledger_row_of(session, &pending.call.id).await? else { return Ok(None) };
                executor.ledger_call(&row.id, until.saturating_duration_since(Instant::now())).await
            };
            match found.await {
                Ok(Some(call)) if call.row.state.is_final() || call.row.state == LedgerState::InDoubt => {
                    let outcome = call.outcome();
                    self.log.push(TurnEvent::CallFinished {
                        call_id: outcome.call_id.clone(),
                        tool: outcome.tool.clone(),
                        status: outcome.status.as_str().to_owned(),
                        code: outcome.code.as_deref().map(str::to_owned),
                        approval: None,
                        trace_id: Some(outcome.trace_id.clone()),
                        duration_ms: 0,
                    });
                    pending.ended = Some(EndedCall::of(&outcome));
                }
                Ok(_) => {}
                Err(error) => tracing::error!(error = %error, "turn.call.read failed"),
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

/// What the model is told of a tool that is not there, and of one that it may not use.
pub(crate) fn no_such_tool(name: &str) -> String {
    format!("there is no tool {name:?} that this agent may use")
}

pub(crate) fn started(call: &ModelCall) -> TurnEvent {
    TurnEvent::CallStarted { call_id: call.id.clone(), tool: call.tool.clone(), arguments: call.arguments.clone() }
}

/// The end of a call that the turn itself answers.
pub(crate) fn finished(call: &ModelCall, status: Status, code: Option<&str>, took: Duration) -> TurnEvent {
    TurnEvent::CallFinished {
        call_id: call.id.clone(),
        tool: call.tool.clone(),
        status: status.as_str().to_owned(),
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
