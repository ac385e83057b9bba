//! Looks at each event of a provider before the genai crate takes it in.
//!
//! The crate makes room for a tool call at whatever index an event names, and fills the gap before it with copies of that
//! call. An event can so take all memory, and a provider that counts from one makes two calls of one. Here an index that is
//! too large, and an answer that is too long, end the stream, and the indices that were really named are remembered.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef, StreamEnd};
use serde_json::Value;

/// The longest answer, in bytes of its events (32 MiB).
const LONGEST: usize = 32 << 20;
/// The largest index of a tool call.
const LAST_INDEX: u64 = 1_023;

/// Why a stream was ended here: what a caught panic carries.
pub(crate) struct Refused(pub(crate) String);

/// The guard of one stream.
#[derive(Debug, Default)]
pub(crate) struct FrameGuard {
    bytes: AtomicUsize,
    named: Mutex<BTreeSet<usize>>,
}

impl FrameGuard {
    /// Whether an event named this index. All do when none named any: other wires have none.
    pub(crate) fn named(&self, index: usize) -> bool {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.is_empty() || named.contains(&index)
    }

    fn refuse(reason: String) {
        // There is no other way to stop the crate before it takes the event in. Whoever reads the stream catches this.
        std::panic::resume_unwind(Box::new(Refused(reason)));
    }
}

impl ChatFrameSink for FrameGuard {
    fn on_frame(&self, _ctx: &FrameCtx, frame: RawFrameRef<'_>) {
        let bytes = self.bytes.fetch_add(frame.data.len(), Ordering::Relaxed) + frame.data.len();
        if bytes > LONGEST {
            Self::refuse(format!("it is longer than {LONGEST} bytes"));
        }
        // Only OpenAI's chat numbers its calls so; the others' events are not read twice.
        if !frame.data.contains("\"tool_calls\"") {
            return;
        }
        let Some(data) = frame.json() else { return };
        let calls = data.pointer("/choices/0/delta/tool_calls").and_then(Value::as_array).into_iter().flatten();
        for index in calls.map(|call| call.get("index").and_then(Value::as_u64).unwrap_or_default()) {
            if index > LAST_INDEX {
                Self::refuse(format!("it numbers a tool call {index}"));
            }
            let index = usize::try_from(index).unwrap_or_default();
            self.named.lock().unwrap_or_else(PoisonError::into_inner).insert(index);
        }
    }

    fn on_end(&self, _ctx: &FrameCtx, _end: &StreamEnd) {}

    fn on_error(&self, _ctx: &FrameCtx, _error: &genai::Error) {}
}
