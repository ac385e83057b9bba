//! Counters of calls, in the form of the Prometheus client.

use prometheus_client::encoding::{EncodeLabelSet, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::outcome::Status;

/// Counters of calls. Cloning is cheap and counts into the same.
#[derive(Debug, Clone)]
pub struct Metrics {
    calls: Family<CallLabels, Counter>,
    seconds: Histogram,
    blocked: Family<CodeLabels, Counter>,
    retries: Counter,
    pub(crate) in_flight: Gauge,
    traces_dropped: Counter,
    traces_failed: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    status: StatusLabel,
    origin: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StatusLabel(Status);

impl prometheus_client::encoding::EncodeLabelValue for StatusLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.as_str().encode(encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    code: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            seconds: Histogram::new(exponential_buckets(0.001, 2.5, 13)),
            blocked: Family::default(),
            retries: Counter::default(),
            in_flight: Gauge::default(),
            traces_dropped: Counter::default(),
            traces_failed: Counter::default(),
        }
    }
}

impl Metrics {
    /// Adds the metrics to a registry, under `toolcrib_…`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("toolcrib_calls", "Calls by status and origin of the tool", self.calls.clone());
        registry.register_with_unit("toolcrib_call_duration", "Time of calls", Unit::Seconds, self.seconds.clone());
        registry.register("toolcrib_egress_blocked", "Calls that the egress policy refused", self.blocked.clone());
        registry.register("toolcrib_retries", "Sends beyond the first of a call", self.retries.clone());
        registry.register("toolcrib_calls_in_flight", "Calls that are running", self.in_flight.clone());
        registry.register(
            "toolcrib_traces_dropped",
            "Traces that found the queue full and were not kept",
            self.traces_dropped.clone(),
        );
        registry.register(
            "toolcrib_traces_failed",
            "Traces that the database refused and were not kept",
            self.traces_failed.clone(),
        );
    }

    /// Traces that were not kept: the queue was full, or the database refused them.
    pub fn traces_lost(&self) -> u64 {
        self.traces_dropped.get() + self.traces_failed.get()
    }

    pub(crate) fn called(&self, status: Status, origin: &'static str, seconds: f64) {
        self.calls.get_or_create(&CallLabels { status: StatusLabel(status), origin }).inc();
        self.seconds.observe(seconds);
    }

    pub(crate) fn blocked(&self, code: &'static str) {
        self.blocked.get_or_create(&CodeLabels { code }).inc();
    }

    pub(crate) fn retried(&self, times: u32) {
        self.retries.inc_by(u64::from(times));
    }

    pub(crate) fn trace_dropped(&self) {
        self.traces_dropped.inc();
    }

    pub(crate) fn traces_refused(&self, count: usize) {
        self.traces_failed.inc_by(count as u64);
    }
}
