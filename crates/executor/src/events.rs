//! What happens, as it happens, for whoever listens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tokio::sync::broadcast;

/// How many events a slow listener may lag behind before it loses some, and is told.
const KEPT: usize = 1_024;

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A call began.
    CallStarted,
    /// A call ended.
    CallFinished,
    /// The egress policy refused a call.
    EgressBlocked,
    /// The catalog changed.
    CatalogChanged,
    /// A person is asked about a call.
    ApprovalRequested,
    /// A person decided about a call, or nobody did in time.
    ApprovalDecided,
    /// It is not known whether a call took effect.
    CallInDoubt,
    /// A person said what became of a call in doubt.
    VerdictGiven,
    /// A turn began, or was taken up again.
    TurnStarted,
    /// The texts of skills came into a prompt.
    SkillsActivated,
    /// A turn waits for a person.
    TurnParked,
    /// A turn ended.
    TurnEnded,
    /// Traces could not be kept.
    TracesLost,
}

impl EventKind {
    /// The name on the stream.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::CallStarted => "call_started",
            EventKind::CallFinished => "call_finished",
            EventKind::EgressBlocked => "egress_blocked",
            EventKind::CatalogChanged => "catalog_changed",
            EventKind::ApprovalRequested => "approval_requested",
            EventKind::ApprovalDecided => "approval_decided",
            EventKind::CallInDoubt => "call_in_doubt",
            EventKind::VerdictGiven => "verdict_given",
            EventKind::TurnStarted => "turn_started",
            EventKind::SkillsActivated => "skills_activated",
            EventKind::TurnParked => "turn_parked",
            EventKind::TurnEnded => "turn_ended",
            EventKind::TracesLost => "traces_lost",
        }
    }
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its number in this process, from 1.
    pub id: u64,
    /// What kind of thing.
    pub kind: EventKind,
    /// The agent it concerns, if any; a listener who may see only some agents is shown only theirs.
    pub agent: Option<Arc<str>>,
    /// What happened, as JSON. Never holds arguments, results or secrets.
    pub data: Arc<Value>,
}

/// The stream of events. Cloning is cheap and is the same stream.
#[derive(Clone)]
pub struct Events {
    sender: broadcast::Sender<Event>,
    next: Arc<AtomicU64>,
}

impl Default for Events {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(KEPT), next: Arc::new(AtomicU64::new(1)) }
    }
}

impl Events {
    /// Tells all listeners. Costs next to nothing when there are none.
    pub fn publish(&self, kind: EventKind, agent: Option<&str>, data: impl FnOnce() -> Value) {
        if self.sender.receiver_count() == 0 {
            return;
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        // An error means that the last listener left just now.
        let _ = self.sender.send(Event { id, kind, agent: agent.map(Into::into), data: Arc::new(data()) });
    }

    /// Listens from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}
