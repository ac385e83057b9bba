//! How a turn stops being worked on: what is written down, what later turns read of it, and who is told.

use serde_json::json;
use toolcrib_executor::EventKind;
use toolcrib_store::{StoreError, TurnEnd, TurnLease, TurnState};

use crate::engine::Engine;
use crate::event::{EventLog, TurnEvent};
use crate::message::Message;
use crate::outcome::{TurnOutcome, TurnStatus};
use crate::prompt::Past;
use crate::run::{Run, Stop};

/// A turn that this process holds.
pub(crate) struct Turn<'a> {
    pub(crate) lease: &'a TurnLease,
    pub(crate) agent: &'a str,
    pub(crate) session: &'a str,
    pub(crate) log: &'a EventLog,
}

impl Engine {
    /// Writes down how a turn ended, and tells it: unless it is another process's by now, which will.
    pub(crate) async fn end_turn(
        &self,
        turn: Turn<'_>,
        outcome: TurnOutcome,
        messages: Option<String>,
    ) -> Result<(), StoreError> {
        let state = match outcome.status {
            TurnStatus::Completed | TurnStatus::Halted => TurnState::Completed,
            TurnStatus::Limit | TurnStatus::Failed => TurnState::Failed,
            TurnStatus::Cancelled => TurnState::Cancelled,
        };
        let end = TurnEnd {
            state,
            outcome: serde_json::to_string(&outcome).unwrap_or_default(),
            messages,
            record: serde_json::to_string(&turn.log.record()).unwrap_or_default(),
        };
        if self.store().end_turn(turn.lease, &end).await? {
            self.publish(EventKind::TurnEnded, turn.agent, || {
                json!({
                    "turn": turn.lease.id, "session": turn.session, "status": outcome.status, "code": outcome.code,
                    "steps": outcome.steps, "tool_calls": outcome.tool_calls, "duration_ms": outcome.duration_ms,
                })
            });
            turn.log.push(TurnEvent::Ended { outcome: Box::new(outcome) });
        }
        Ok(())
    }
}

impl Run {
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
        // A turn that could not be written was never begun, and its caller knows.
        if self.begun().await.is_err() {
            return;
        }
        // One that is another process's by now is left to it. A checkpoint that could not be written does not matter any
        // more: the end is.
        let saved = match self.saving.take() {
            Some(saving) => saving.end().await,
            None => Ok(true),
        };
        let stop = if matches!(saved, Ok(false)) { Stop::Left } else { stop };
        if let Stop::Ended(outcome) = &stop {
            self.take_back().await;
            if matches!(outcome.status, TurnStatus::Cancelled | TurnStatus::Limit) {
                self.engine.cancel_children(&self.lease.id).await;
            }
        }
        let written = match stop {
            Stop::Ended(outcome) => self.finish_ended(*outcome).await,
            Stop::Parked { ledger_ids, approvals } => self.finish_parked(&ledger_ids, approvals).await,
            Stop::Left => Ok(()),
        };
        if let Err(error) = written {
            tracing::error!(error = %error, reason = error.reason(), turn = %self.lease.id, "turn.end.write failed; the turn is left to be resumed");
        }
    }

    async fn finish_ended(&mut self, outcome: TurnOutcome) -> Result<(), StoreError> {
        if !self.at.pending.is_empty() {
            // What was done is told, also when the turn ends before the rest.
            self.answer_unbegun();
            self.answer_calls();
        }
        let past = Past { messages: self.told(&outcome), skills: self.brought(), place: 0 };
        let messages = Some(serde_json::to_string(&past).unwrap_or_default());
        let turn = Turn { lease: &self.lease, agent: &self.agent_id, session: &self.session, log: &self.log };
        self.engine.end_turn(turn, outcome, messages).await
    }

    async fn finish_parked(&mut self, ledger_ids: &[String], approvals: Vec<String>) -> Result<(), StoreError> {
        let text = self.checkpoint_text();
        if self.engine.store().park_turn(&self.lease, &text, ledger_ids).await? {
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
            let said_before = |text: &str| match messages.iter().rev().nth(1) {
                Some(Message::Assistant { text: before, .. }) => before == text,
                _ => false,
            };
            let text = match (&outcome.text, &outcome.code) {
                // A lead-in stands with its call already.
                (Some(text), _) if !said_before(text) => text.clone(),
                (Some(_), None) => "[this turn ended here]".to_owned(),
                (_, Some(code)) => format!("[this turn ended without an answer: {code}]"),
                (None, None) => "[this turn ended here]".to_owned(),
            };
            messages.push(Message::Assistant { text, calls: Vec::new() });
        }
        messages
    }

    /// The skills whose texts are in the messages of this turn: not the eager ones, which stand before them.
    fn brought(&self) -> Vec<String> {
        if self.at.skills.is_empty() {
            return Vec::new();
        }
        let eager = self.skills.of(&self.agent_id, &self.agent).eager();
        let stands_before = |name: &str| eager.iter().any(|active| active.skill.name() == name);
        let brought = self.at.skills.iter().filter(|skill| skill.reason != "eager" && !stands_before(&skill.name));
        brought.map(|skill| skill.name.clone()).collect()
    }
}
