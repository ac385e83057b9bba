//! A circuit breaker for each host: after several failures in a row, calls to it are refused for a
//! moment instead of waited for, then one is let through to see.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row that open a breaker.
const OPENS_AFTER: u32 = 5;
/// How long it stays open before one call is let through.
const STAYS_OPEN: Duration = Duration::from_secs(10);
/// Hosts that are remembered; the ones that work are forgotten first.
const MAX_HOSTS: usize = 10_000;

/// What a breaker does with the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Lets it through.
    Closed,
    /// Refuses it.
    Open,
    /// Lets one through, to see.
    HalfOpen,
}

impl BreakerState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half_open",
        }
    }
}

/// A host that failed lately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerReport {
    /// Host and port.
    pub host: String,
    /// What the next call meets.
    pub state: BreakerState,
    /// Failures in a row.
    pub failures: u32,
}

#[derive(Debug, Default)]
struct Host {
    failures: u32,
    open_until: Option<Instant>,
    probing_since: Option<Instant>,
}

/// A breaker for each host, or for whatever else has a name and can fail.
#[derive(Debug, Default)]
pub struct Breakers {
    hosts: Mutex<HashMap<String, Host>>,
}

impl Breakers {
    /// Lets a call through, or tells how long the host is paused for.
    ///
    /// # Errors
    /// The time that is left of the pause.
    pub fn admit(&self, host: &str, now: Instant) -> Result<(), Duration> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = hosts.get_mut(host) else { return Ok(()) };
        match entry.open_until {
            None => Ok(()),
            Some(until) if now < until => Err(until - now),
            // A probe that never reported (its call was cancelled) does not keep the host shut.
            Some(_) => match entry.probing_since.map(|since| since + STAYS_OPEN) {
                Some(end) if now < end => Err(end - now),
                _ => {
                    entry.probing_since = Some(now);
                    Ok(())
                }
            },
        }
    }

    /// Gives the probe back of a call that says nothing of the host: it was never asked.
    pub fn unasked(&self, host: &str) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = hosts.get_mut(host) {
            entry.probing_since = None;
        }
    }

    /// A call ended well.
    pub fn succeeded(&self, host: &str) {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).remove(host);
    }

    /// A call failed for a reason that is the host's.
    pub fn failed(&self, host: &str, now: Instant) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= MAX_HOSTS && !hosts.contains_key(host) {
            hosts.retain(|_, entry| entry.open_until.is_some_and(|until| now < until));
        }
        let entry = hosts.entry(host.to_owned()).or_default();
        entry.failures = entry.failures.saturating_add(1);
        entry.probing_since = None;
        if entry.failures >= OPENS_AFTER {
            entry.open_until = Some(now + STAYS_OPEN);
        }
    }

    /// The hosts that failed lately, by name.
    pub fn report(&self, now: Instant) -> Vec<BreakerReport> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let state = |entry: &Host| match entry.open_until {
            None => BreakerState::Closed,
            Some(until) if now < until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        };
        let mut report: Vec<_> = hosts
            .iter()
            .map(|(host, entry)| BreakerReport { host: host.clone(), state: state(entry), failures: entry.failures })
            .collect();
        report.sort_by(|a, b| a.host.cmp(&b.host));
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_probes_and_closes() {
        let breakers = Breakers::default();
        let start = Instant::now();
        for _ in 0..OPENS_AFTER {
            assert!(breakers.admit("h:1", start).is_ok());
            breakers.failed("h:1", start);
        }
        assert!(breakers.admit("h:1", start).is_err());
        assert!(breakers.admit("other:1", start).is_ok());
        assert_eq!(breakers.report(start)[0].state, BreakerState::Open);

        let later = start + STAYS_OPEN;
        assert_eq!(breakers.report(later)[0].state, BreakerState::HalfOpen);
        let later = later + STAYS_OPEN * 3;
        assert!(breakers.admit("h:1", later).is_ok(), "one probe");
        assert!(breakers.admit("h:1", later).is_err(), "and only one");
        breakers.failed("h:1", later);
        assert!(breakers.admit("h:1", later).is_err());

        let again = later + STAYS_OPEN;
        assert!(breakers.admit("h:1", again).is_ok());
        breakers.succeeded("h:1");
        assert!(breakers.admit("h:1", again).is_ok());
        assert!(breakers.report(again).is_empty());
    }
}
