//! What the MCP server keeps between requests.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio_util::sync::CancellationToken;
use toolcrib_registry::LogLevel;

use super::questions::Questions;
use super::request_state::Signer;
use super::tools::ListCache;

/// How many callers' log levels are remembered.
const MAX_LEVELS: usize = 10_000;

/// Who a legacy request comes from, as far as that is known without a session.
pub(crate) type CallerKey = (Option<String>, String);

/// What the MCP server keeps between requests.
#[derive(Default)]
pub(crate) struct McpParts {
    pub(super) lists: ListCache,
    pub(super) questions: Questions,
    pub(super) signer: Signer,
    levels: Mutex<HashMap<CallerKey, LogLevel>>,
    running: Mutex<HashMap<(CallerKey, String), Vec<CancellationToken>>>,
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

    /// Remembers a legacy request that runs, so that a notification can cancel it.
    pub(super) fn begin(&self, caller: &CallerKey, id: &str, token: CancellationToken) {
        if let Ok(mut running) = self.running.lock() {
            running.entry((caller.clone(), id.to_owned())).or_default().push(token);
        }
    }

    pub(super) fn end(&self, caller: &CallerKey, id: &str) {
        if let Ok(mut running) = self.running.lock() {
            let key = (caller.clone(), id.to_owned());
            if let Some(tokens) = running.get_mut(&key) {
                tokens.pop();
                if tokens.is_empty() {
                    running.remove(&key);
                }
            }
        }
    }

    /// Cancels a legacy request. When two requests of a caller run under one id, nobody can tell which is
    /// meant, and neither is cancelled.
    pub(super) fn cancel(&self, caller: &CallerKey, id: &str) {
        if let Ok(running) = self.running.lock()
            && let Some([token]) = running.get(&(caller.clone(), id.to_owned())).map(Vec::as_slice)
        {
            token.cancel();
        }
    }
}
