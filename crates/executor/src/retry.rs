//! When an idempotent call is sent again: seldom, a little later, and never so often that retries
//! become the load.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Sends of one call at the most.
pub(crate) const MAX_SENDS: u32 = 3;
/// The first wait; each further one is four times as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest `Retry-After` that is waited for.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Retries that a quiet executor has in hand.
const RESERVE: f64 = 10.0;
/// Retries that each call earns.
const EARNED: f64 = 0.1;

/// A budget over all calls: a retry costs one, a call earns a tenth.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    tokens: Mutex<f64>,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { tokens: Mutex::new(RESERVE) }
    }
}

impl RetryBudget {
    pub(crate) fn earn(&self) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        *tokens = (*tokens + EARNED).min(RESERVE);
    }

    pub(crate) fn spend(&self) -> bool {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let enough = *tokens >= 1.0;
        if enough {
            *tokens -= 1.0;
        }
        enough
    }
}

/// Statuses that a moment may mend (RFC 9110, RFC 6585).
pub(crate) fn is_retryable_status(status: u16) -> bool {
    matches!(status, 408 | 429 | 502 | 503 | 504)
}

/// How long to wait before the send after `sends`. An upstream that asks for longer than we wait is
/// not asked again.
pub(crate) fn wait_before(sends: u32, retry_after: Option<&str>) -> Option<Duration> {
    let ours = FIRST_WAIT * 4u32.pow(sends.saturating_sub(1).min(4));
    match retry_after.and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(seconds) if Duration::from_secs(seconds) > MAX_WAIT => None,
        Some(seconds) => Some(ours.max(Duration::from_secs(seconds))),
        None => Some(ours),
    }
}
