//! What the MCP server keeps between requests.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;
use toolcrib_registry::LogLevel;

use super::questions::Questions;
use super::request_state::Signer;
use super::tools::ListCache;
use crate::state::ApiState;

/// How many callers' log levels are remembered.
const MAX_LEVELS: usize = 10_000;

/// Who a legacy request comes from, as far as that is known without a session.
pub(crate) type CallerKey = (Option<String>, String);

/// A request by its own number, with what cancels it.
type Cancellable = (u64, CancellationToken);

/// What the MCP server keeps between requests.
#[derive(Default)]
pub(crate) struct McpParts {
    pub(super) lists: ListCache,
    pub(super) questions: Questions,
    pub(super) signer: Signer,
    levels: Mutex<HashMap<CallerKey, LogLevel>>,
    running: Mutex<HashMap<(CallerKey, String), Vec<Cancellable>>>,
    serial: AtomicU64,
}

impl McpParts {
    /// The level that a legacy client set.
    pub(super) fn level(&self, caller: &CallerKey) -> LogLevel {
        let levels = self.levels.lock();
        levels.ok().and_then(|levels| levels.get(caller).copied()).unwrap_or(LogLevel::Info)
    }

    pub(super) fn set_level(&self, caller: CallerKey, level: LogLevel) {
        if let Ok(mut levels) = self.levels.lock()
            && (levels.len() < MAX_LEVELS || levels.contains_key(&caller))
        {
            levels.insert(caller, level);
        }
    }

    /// Cancels a legacy request. When two requests of a caller run under one id, nobody can tell which is
    /// meant, and neither is cancelled.
    pub(super) fn cancel(&self, caller: &CallerKey, id: &str) {
        if let Ok(running) = self.running.lock()
            && let Some([(_, token)]) = running.get(&(caller.clone(), id.to_owned())).map(Vec::as_slice)
        {
            token.cancel();
        }
    }
}

/// A legacy request that runs, so that a notification can cancel it. Dropping it is its end.
pub(super) struct Running {
    state: ApiState,
    key: (CallerKey, String),
    serial: u64,
}

impl Running {
    pub(super) fn begin(state: &ApiState, caller: &CallerKey, id: &str, token: CancellationToken) -> Self {
        let key = (caller.clone(), id.to_owned());
        let serial = state.mcp_parts.serial.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut running) = state.mcp_parts.running.lock() {
            running.entry(key.clone()).or_default().push((serial, token));
        }
        Self { state: state.clone(), key, serial }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Ok(mut running) = self.state.mcp_parts.running.lock() else { return };
        if let Some(tokens) = running.get_mut(&self.key) {
            tokens.retain(|(serial, _)| *serial != self.serial);
            if tokens.is_empty() {
                running.remove(&self.key);
            }
        }
    }
}
