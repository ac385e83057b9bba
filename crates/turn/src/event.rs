//! What happens in a turn, as it happens, for whoever follows it.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;

use crate::checkpoint::ActiveSkill;
use crate::outcome::TurnOutcome;

/// One thing that happens in a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnEvent {
    /// It waits for an earlier turn of its session.
    Queued,
    /// It runs, or runs on.
    Started {
        /// Whether it was taken up from a checkpoint.
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
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// The approval that is waited for.
        #[serde(skip_serializing_if = "Option::is_none")]
        approval: Option<String>,
        /// Its trace; a system tool has none.
        #[serde(skip_serializing_if = "Option::is_none")]
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
    /// The name on the stream.
    pub fn name(&self) -> &'static str {
        match self {
            TurnEvent::Queued => "queued",
            TurnEvent::Started { .. } => "started",
            TurnEvent::SkillsActivated { .. } => "skills_activated",
            TurnEvent::ContextCut { .. } => "context_cut",
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

/// All that happened in a turn in this process, for those who come late too.
#[derive(Default)]
pub(crate) struct EventLog {
    events: Mutex<Vec<Arc<TurnEvent>>>,
    more: Notify,
}

impl EventLog {
    pub(crate) fn push(&self, event: TurnEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(event));
        self.more.notify_waiters();
    }

    /// The event at a place, when it has happened.
    pub(crate) fn at(&self, place: usize) -> Option<Arc<TurnEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).get(place).cloned()
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
}
