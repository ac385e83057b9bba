//! What happens in a turn, as it happens, for whoever follows it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Notify;
use toolcrib_store::Clock;

use crate::checkpoint::ActiveSkill;
use crate::model::Usage;
use crate::outcome::TurnOutcome;
use crate::prompt::PromptTokens;

/// One thing that happens in a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnEvent {
    /// It waits for an earlier turn of its session.
    Queued,
    /// It runs, or runs on.
    Started {
        /// Whether it was taken up from a checkpoint. Text since the last call that was told before then came to nothing,
        /// and comes anew.
        resumed: bool,
    },
    /// The texts of these skills came into the prompt.
    SkillsActivated {
        /// Each with why.
        skills: Vec<ActiveSkill>,
    },
    /// The budget was short, and this was given up.
    ContextCut {
        /// In words.
        given_up: Vec<String>,
    },
    /// The model answered, with a text or with calls.
    ModelAnswered {
        /// Which, as `provider/model`.
        model: String,
        /// What its prompt was made of, as it was estimated.
        prompt: PromptTokens,
        /// What it cost, as the provider counts.
        usage: Usage,
        /// How long it took, in ms, with what was tried again.
        duration_ms: u64,
    },
    /// A piece of the answer.
    TextDelta {
        /// The text.
        text: String,
    },
    /// The text since the last call came to nothing; the model is asked again.
    TextDiscarded {
        /// The model that is asked now, as `provider/model`.
        model: String,
        /// The stable code of what went wrong.
        code: String,
    },
    /// A call began.
    CallStarted {
        /// Its stable key.
        call_id: String,
        /// The tool.
        tool: String,
        /// What the model asked for.
        arguments: Value,
    },
    /// A call ended, or waits.
    CallFinished {
        /// Its stable key.
        call_id: String,
        /// The tool.
        tool: String,
        /// `ok`, `error`, `halted`, `waiting`, `denied`, `skipped` or `in_doubt`.
        status: String,
        /// The stable code of what went wrong or is waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// The approval that is waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<String>,
        /// Its trace; a system tool has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace_id: Option<String>,
        /// How long it took, in ms.
        duration_ms: u64,
    },
    /// Deferred tools can be called from now on.
    ToolsEnabled {
        /// Their names.
        tools: Vec<String>,
    },
    /// It waits for people.
    Parked {
        /// The approvals and questions that are open.
        approvals: Vec<String>,
    },
    /// It ended.
    Ended {
        /// How.
        outcome: Box<TurnOutcome>,
    },
}

impl TurnEvent {
    /// Whether it is in the record of its turn.
    fn is_kept(&self) -> bool {
        !matches!(self, TurnEvent::Queued | TurnEvent::TextDelta { .. } | TurnEvent::Ended { .. })
    }

    /// The name on the stream.
    pub fn name(&self) -> &'static str {
        match self {
            TurnEvent::Queued => "queued",
            TurnEvent::Started { .. } => "started",
            TurnEvent::SkillsActivated { .. } => "skills_activated",
            TurnEvent::ContextCut { .. } => "context_cut",
            TurnEvent::ModelAnswered { .. } => "model_answered",
            TurnEvent::TextDelta { .. } => "text_delta",
            TurnEvent::TextDiscarded { .. } => "text_discarded",
            TurnEvent::CallStarted { .. } => "call_started",
            TurnEvent::CallFinished { .. } => "call_finished",
            TurnEvent::ToolsEnabled { .. } => "tools_enabled",
            TurnEvent::Parked { .. } => "parked",
            TurnEvent::Ended { .. } => "ended",
        }
    }
}

/// All that happened in a turn, as far as this process knows, for those who come late too.
pub(crate) struct EventLog {
    events: Mutex<Vec<Told>>,
    more: Notify,
    clock: Arc<dyn Clock>,
}

/// Something that happened, and when, in ms since 1970.
struct Told {
    at: i64,
    event: Arc<TurnEvent>,
}

impl EventLog {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { events: Mutex::default(), more: Notify::new(), clock }
    }

    pub(crate) fn push(&self, event: TurnEvent) {
        let told = Told { at: self.clock.now_ms(), event: Arc::new(event) };
        self.lock().push(told);
        self.more.notify_waiters();
    }

    /// The event at a place, when it has happened.
    pub(crate) fn at(&self, place: usize) -> Option<Arc<TurnEvent>> {
        self.lock().get(place).map(|told| Arc::clone(&told.event))
    }

    /// Whether its end was told.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().last().is_some_and(|told| matches!(*told.event, TurnEvent::Ended { .. }))
    }

    /// Waits for the event at a place.
    pub(crate) async fn wait(&self, place: usize) -> Arc<TurnEvent> {
        loop {
            let more = self.more.notified();
            tokio::pin!(more);
            // Enlisted before looking, so that nothing is missed between.
            more.as_mut().enable();
            if let Some(event) = self.at(place) {
                return event;
            }
            more.await;
        }
    }

    /// What is kept of it: every event but that it was queued, the pieces of text, which stand in the messages, and the
    /// end, which is the outcome. Each with `at`, the time in ms since 1970.
    pub(crate) fn record(&self) -> Vec<Value> {
        let recorded = |told: &Told| {
            let mut event = serde_json::to_value(&*told.event).ok()?;
            event.as_object_mut()?.insert("at".to_owned(), told.at.into());
            Some(event)
        };
        self.lock().iter().filter(|told| told.event.is_kept()).filter_map(recorded).collect()
    }

    /// Adds what was recorded elsewhere and is not known here. The events that are known are the beginning of the record.
    pub(crate) fn catch_up(&self, record: &[Value]) {
        let mut events = self.lock();
        let known = events.iter().filter(|told| told.event.is_kept()).count();
        for event in record.iter().skip(known) {
            let at = event.get("at").and_then(Value::as_i64).unwrap_or_default();
            // One of a later version is passed over.
            if let Ok(event) = serde_json::from_value(event.clone()) {
                events.push(Told { at, event: Arc::new(event) });
            }
        }
        drop(events);
        self.more.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Told>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
