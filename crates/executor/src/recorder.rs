//! Traces are written in batches, off the path of a call.
//!
//! The queue is bounded in number and bytes. When it is full the trace is counted as dropped, never
//! waited for, and never lost without a word.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use toolcrib_store::{Retention, Store, StoreError, TraceRow};

use crate::events::{EventKind, Events};
use crate::metrics::Metrics;
use crate::trace::FinishedTrace;

/// How the recorder queues and keeps traces.
#[derive(Debug, Clone)]
pub struct RecorderSettings {
    /// Traces that may wait. Default 32,768.
    pub queue: usize,
    /// Bytes of traces that may wait. Default 64 MiB.
    pub queue_bytes: usize,
    /// How long a trace waits for others to be written with. Default 100 ms.
    pub interval: Duration,
    /// How long traces are kept. Default 30 days and 1,000,000.
    pub retention: Retention,
}

impl Default for RecorderSettings {
    fn default() -> Self {
        Self {
            queue: 32_768,
            queue_bytes: 64 << 20,
            interval: Duration::from_millis(100),
            retention: Retention { age: Duration::from_secs(30 * 24 * 3600), count: 1_000_000 },
        }
    }
}

/// Traces written in one transaction. On SQLite the ledger waits for it, so it is not many.
const BATCH: usize = 128;
/// Traces written out as JSON before the calls that wait for this thread have their turn.
const ROWS_AT_ONCE: usize = 16;
/// How often old traces are removed.
const PURGE_EVERY: Duration = Duration::from_secs(60);
/// After how many tries at a batch the log says again that it waits: about once a minute.
const WARN_EVERY: u32 = 30;
/// The longest wait between two tries at a batch.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The handle to the task that writes traces. Cloning is cheap.
#[derive(Clone)]
pub struct Recorder {
    sender: mpsc::Sender<Message>,
    waiting_bytes: Arc<AtomicUsize>,
    queue_bytes: usize,
    metrics: Metrics,
    events: Events,
}

enum Message {
    Trace(Box<FinishedTrace>),
    Flush(oneshot::Sender<()>),
}

impl Recorder {
    /// Starts the task. It ends when the last handle is dropped, with everything written.
    pub fn spawn(store: Store, settings: RecorderSettings, metrics: Metrics, events: Events) -> Self {
        let (sender, receiver) = mpsc::channel(settings.queue.max(1));
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let queue_bytes = settings.queue_bytes;
        let writer = Writer {
            store,
            settings,
            metrics: metrics.clone(),
            events: events.clone(),
            waiting_bytes: Arc::clone(&waiting_bytes),
        };
        tokio::spawn(writer.run(receiver));
        Self { sender, waiting_bytes, queue_bytes, metrics, events }
    }

    pub(crate) fn record(&self, trace: FinishedTrace) {
        let bytes = trace.weight;
        let waiting = self.waiting_bytes.fetch_add(bytes, Ordering::SeqCst) + bytes;
        let reason = if waiting > self.queue_bytes {
            "queue_full"
        } else {
            match self.sender.try_send(Message::Trace(Box::new(trace))) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(_)) => "queue_full",
                Err(mpsc::error::TrySendError::Closed(_)) => "recorder_ended",
            }
        };
        self.waiting_bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.metrics.trace_dropped();
        let lost = self.metrics.traces_lost();
        self.events.publish(EventKind::TracesLost, None, || json!({ "reason": reason, "lost": lost }));
    }

    /// Waits until every trace that was recorded before is written or counted as failed, at most
    /// `limit` long. Tells whether it was.
    pub async fn flush(&self, limit: Duration) -> bool {
        let flushing = async {
            let (done, waiting) = oneshot::channel();
            self.sender.send(Message::Flush(done)).await.is_ok() && waiting.await.is_ok()
        };
        tokio::time::timeout(limit, flushing).await.unwrap_or(false)
    }
}

struct Writer {
    store: Store,
    settings: RecorderSettings,
    metrics: Metrics,
    events: Events,
    waiting_bytes: Arc<AtomicUsize>,
}

impl Writer {
    async fn run(self, mut receiver: mpsc::Receiver<Message>) {
        let mut messages = Vec::with_capacity(BATCH);
        let mut purge_at = Instant::now() + PURGE_EVERY;
        loop {
            let received = tokio::select! {
                received = receiver.recv_many(&mut messages, BATCH) => received,
                () = tokio::time::sleep_until(purge_at) => {
                    purge_at = Instant::now() + PURGE_EVERY;
                    self.purge().await;
                    continue;
                }
            };
            if received == 0 {
                return;
            }
            let flushes = |messages: &[Message]| messages.iter().any(|message| matches!(message, Message::Flush(_)));
            let until = Instant::now() + self.settings.interval;
            while messages.len() < BATCH && !flushes(&messages) {
                let room = BATCH - messages.len();
                match tokio::time::timeout_at(until, receiver.recv_many(&mut messages, room)).await {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
            }
            let mut weight = 0;
            let mut traces = Vec::with_capacity(messages.len());
            let mut waiting = Vec::new();
            for message in messages.drain(..) {
                match message {
                    Message::Trace(trace) => {
                        weight += trace.weight;
                        traces.push(trace.into_row());
                        if traces.len().is_multiple_of(ROWS_AT_ONCE) {
                            tokio::task::yield_now().await;
                        }
                    }
                    Message::Flush(done) => waiting.push(done),
                }
            }
            self.write(&traces).await;
            self.waiting_bytes.fetch_sub(weight, Ordering::SeqCst);
            for done in waiting {
                let _ = done.send(());
            }
        }
    }

    async fn write(&self, traces: &[TraceRow]) {
        if traces.is_empty() {
            return;
        }
        let mut tries: u32 = 0;
        loop {
            tries = tries.saturating_add(1);
            match self.store.insert_traces(traces).await {
                Ok(()) => break,
                // Nothing is given up while it may still be written: the queue holds what comes meanwhile,
                // and says so when it is full.
                Err(error) if error.retryable() => {
                    if tries % WARN_EVERY == 1 {
                        tracing::warn!(error = %error, reason = error.reason(), traces = traces.len(),
                            "traces wait for the database");
                    }
                    tokio::time::sleep((self.settings.interval * tries).min(LONGEST_WAIT)).await;
                }
                // The rows that the database does take are kept all the same.
                Err(StoreError::Refused { .. }) if traces.len() > 1 => {
                    for trace in traces {
                        Box::pin(self.write(std::slice::from_ref(trace))).await;
                    }
                    break;
                }
                Err(error) => {
                    self.metrics.traces_refused(traces.len());
                    let (lost, code) = (self.metrics.traces_lost(), error.code());
                    tracing::error!(error = %error, reason = error.reason(), traces = traces.len(),
                        "traces could not be written");
                    self.events.publish(EventKind::TracesLost, None, || json!({ "reason": code, "lost": lost }));
                    break;
                }
            }
        }
    }

    async fn purge(&self) {
        let mut removed = 0;
        loop {
            match self.store.purge_traces(self.settings.retention).await {
                Ok(0) => break,
                Ok(more) => removed += more,
                Err(error) => {
                    tracing::warn!(error = %error, reason = error.reason(), "old traces could not be removed");
                    break;
                }
            }
            // Between two parts, whoever waits for the database gets it.
            tokio::task::yield_now().await;
        }
        if removed > 0 {
            tracing::info!(traces = removed, "old traces removed");
        }
    }
}
