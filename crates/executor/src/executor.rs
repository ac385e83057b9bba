//! The executor: what a call needs, together.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolcrib_definition::{Ctx, CtxField, Secrets};
use toolcrib_registry::{Agent, NoClient, Registry, Snapshot, ToolClient};
use tracing::Instrument;

use crate::claim::Claims;
use crate::dispatch::Dispatch;
use crate::events::Events;
use crate::keeper::spawn_renewals;
use crate::metrics::Metrics;
use crate::outcome::Outcome;
use crate::pipeline::{Begun, Pipeline};
use crate::recorder::{Recorder, RecorderSettings};

/// How long traces are waited for when calls took all the time there was.
const LAST_FLUSH: Duration = Duration::from_secs(2);

/// A call that a model asks for.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The tool, as the model named it.
    pub tool: String,
    /// The stable key of the call within its session; made up when it is none.
    pub call_id: Option<String>,
    /// The arguments: an object, or its JSON text as some providers send it.
    pub arguments: Value,
    /// The caller, as far as it listens and answers.
    pub client: Arc<dyn ToolClient>,
    /// Cancelled when the caller gives the call up. What has no side effect then ends; what has one is
    /// awaited.
    pub cancellation: CancellationToken,
}

impl CallRequest {
    /// A call without a key of its own.
    pub fn new(tool: impl Into<String>, arguments: Value) -> Self {
        let (client, cancellation) = (Arc::new(NoClient), CancellationToken::new());
        Self { tool: tool.into(), call_id: None, arguments, client, cancellation }
    }
}

/// How the ledger is kept.
#[derive(Debug, Clone)]
pub struct LedgerSettings {
    /// How long a process may be silent before its calls are taken over. It prolongs its leases three times in that
    /// time. Default 15 s.
    pub lease: Duration,
    /// How long a call must have been in doubt before a person's word that it was not performed lets it run again.
    /// Default 60 s.
    pub quarantine: Duration,
    /// How long a person may take to decide. Default 7 days.
    pub approval_time: Duration,
    /// The names of the webhooks that are told when a person is asked. Default none.
    pub notices: Vec<String>,
    /// How long settled calls are kept, and with them the answer to a repeated `call_id`. Default 30 days.
    pub retention: Duration,
}

impl Default for LedgerSettings {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self {
            lease: Duration::from_secs(15),
            quarantine: Duration::from_secs(60),
            approval_time: day * 7,
            notices: Vec::new(),
            retention: day * 30,
        }
    }
}

/// A duration in whole ms.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

/// Settings of the executor.
#[derive(Debug, Clone, Default)]
pub struct ExecutorSettings {
    /// How the ledger is kept.
    pub ledger: LedgerSettings,
    /// How traces are queued and kept.
    pub recorder: RecorderSettings,
}

/// Runs calls. Cloning is cheap and is the same executor.
#[derive(Clone)]
pub struct Executor {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) registry: Arc<Registry>,
    pub(crate) dispatch: Arc<dyn Dispatch>,
    pub(crate) secrets: ArcSwap<Arc<dyn Secrets>>,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
    pub(crate) events: Events,
    pub(crate) running: TaskTracker,
    pub(crate) ledger: LedgerSettings,
    /// The name of this process in the ledger.
    pub(crate) owner: String,
    pub(crate) claims: Arc<Claims>,
}

impl Executor {
    /// An executor over this catalog. Call it inside a tokio runtime: it starts the task that writes
    /// traces.
    pub fn new(
        registry: Arc<Registry>,
        dispatch: Arc<dyn Dispatch>,
        secrets: Arc<dyn Secrets>,
        settings: ExecutorSettings,
    ) -> Self {
        let (metrics, events) = (Metrics::default(), Events::default());
        let store = registry.store().clone();
        let owner = store.randomness().hex();
        let recorder = Recorder::spawn(store, settings.recorder, metrics.clone(), events.clone());
        let inner = Inner {
            registry,
            dispatch,
            secrets: ArcSwap::from_pointee(secrets),
            recorder,
            metrics,
            events,
            running: TaskTracker::new(),
            ledger: settings.ledger,
            owner,
            claims: Arc::default(),
        };
        let inner = Arc::new(inner);
        spawn_renewals(&inner);
        Self { inner }
    }

    /// Runs one call to its end, also when the caller stops waiting for it.
    pub async fn call(&self, agent_id: &str, agent: &Arc<Agent>, ctx: Ctx, request: CallRequest) -> Outcome {
        let pipeline = self.pipeline(agent_id, agent, ctx, self.inner.registry.snapshot());
        let begun = pipeline.begin(&request, None);
        self.run(pipeline, begun, request.arguments).await
    }

    /// The catalog.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.inner.registry
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// The stream of events.
    pub fn events(&self) -> &Events {
        &self.inner.events
    }

    /// The task that writes traces.
    pub fn recorder(&self) -> &Recorder {
        &self.inner.recorder
    }

    /// How the ledger is kept.
    pub fn ledger_settings(&self) -> &LedgerSettings {
        &self.inner.ledger
    }

    /// How calls are made.
    pub fn dispatch(&self) -> &Arc<dyn Dispatch> {
        &self.inner.dispatch
    }

    /// Where secrets come from, now.
    pub fn secrets(&self) -> Arc<dyn Secrets> {
        Arc::clone(&self.inner.secrets.load())
    }

    /// Takes secrets from another source from the next call on.
    pub fn replace_secrets(&self, secrets: Arc<dyn Secrets>) {
        self.inner.secrets.store(Arc::new(secrets));
    }

    /// Waits for the calls in flight to end and their traces to be written, at most `limit` long.
    /// Tells whether they all did.
    pub async fn drain(&self, limit: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        self.inner.running.close();
        let ended = tokio::time::timeout_at(deadline, self.inner.running.wait()).await.is_ok();
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        // What has ended is written also when other calls took all the time there was.
        ended & self.inner.recorder.flush(left.max(LAST_FLUSH)).await
    }

    pub(crate) fn pipeline(
        &self,
        agent_id: &str,
        agent: &Arc<Agent>,
        ctx: Ctx,
        snapshot: Arc<Snapshot>,
    ) -> Arc<Pipeline> {
        // The agent in the path decides which agent is talking, whatever the context says.
        let ctx = ctx.with(CtxField::AgentId, agent_id);
        Arc::new(Pipeline {
            inner: Arc::clone(&self.inner),
            snapshot,
            agent_id: agent_id.to_owned(),
            agent: Arc::clone(agent),
            session: ctx.get(CtxField::ChatId).unwrap_or_default().to_owned(),
            ctx,
        })
    }

    /// Runs a call on a task of its own, so that it ends with a trace also when nobody waits.
    pub(crate) async fn run(&self, pipeline: Arc<Pipeline>, begun: Begun, arguments: Value) -> Outcome {
        let spare = begun.spare();
        let span = tracing::debug_span!("executor.call.run", agent = %pipeline.agent_id);
        let task = {
            let pipeline = Arc::clone(&pipeline);
            self.inner.running.spawn(async move { pipeline.call(begun, arguments).await }.instrument(span))
        };
        match task.await {
            Ok(outcome) => outcome,
            Err(error) => pipeline.failed(spare, &error.to_string()),
        }
    }
}
