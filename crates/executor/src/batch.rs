//! The calls a model asks for in one step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::stream::{self, StreamExt};
use serde_json::Value;
use toolcrib_definition::Ctx;
use toolcrib_registry::{Agent, Snapshot};

use crate::executor::{CallRequest, Executor};
use crate::outcome::{Outcome, Status};
use crate::pipeline::Pipeline;
use crate::trace::BatchPlace;

/// The calls of one step, and what they run under.
pub struct Batch {
    /// The calls.
    pub calls: Vec<CallRequest>,
    /// How many of them may run, counted before anything does.
    pub limit: usize,
    /// The catalog they are looked up in.
    pub snapshot: Arc<Snapshot>,
    /// Is told of each call as it begins and ends.
    pub observer: Arc<dyn BatchObserver>,
}

/// Is told of the calls of a batch, each by its place in it.
pub trait BatchObserver: Send + Sync {
    /// A call began.
    fn began(&self, _place: usize) {}
    /// A call ended, or was not run.
    fn ended(&self, _place: usize, _outcome: &Outcome) {}
}

/// Nobody is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl BatchObserver for Unobserved {}

impl Executor {
    /// A batch of these calls under the agent's limit and the catalog as it is now.
    pub fn batch_of(&self, agent: &Agent, calls: Vec<CallRequest>) -> Batch {
        let snapshot = self.registry().snapshot();
        Batch { calls, limit: agent.limits().max_tool_calls, snapshot, observer: Arc::new(Unobserved) }
    }

    /// Runs the calls of one step: one after the other, or as many at once as the agent's
    /// `tool_concurrency` says. Outcomes come in the order of the calls; the traces say in which order
    /// they ended.
    ///
    /// The limit is counted before anything runs: the calls past it are answered, not run.
    /// After a halt, calls that have not begun are answered, not run.
    ///
    /// The batch runs to its end also when the caller stops waiting for it.
    pub async fn batch(&self, agent_id: &str, agent: &Arc<Agent>, ctx: Ctx, batch: Batch) -> Vec<Outcome> {
        let pipeline = self.pipeline(agent_id, agent, ctx, Arc::clone(&batch.snapshot));
        let at_once = agent.limits().tool_concurrency.max(1);
        let executor = self.clone();
        let unnamed = |call: &CallRequest| CallRequest { arguments: Value::Null, ..call.clone() };
        let names: Vec<CallRequest> = batch.calls.iter().map(unnamed).collect();
        let task = {
            let pipeline = Arc::clone(&pipeline);
            self.inner.running.spawn(async move { executor.run_batch(pipeline, at_once, batch).await })
        };
        // Each call has a task of its own that fails alone; this one only hands them out.
        match task.await {
            Ok(outcomes) => outcomes,
            Err(error) => {
                let failed = |call: &CallRequest| pipeline.failed(pipeline.begin(call, None), &error.to_string());
                names.iter().map(failed).collect()
            }
        }
    }

    async fn run_batch(&self, pipeline: Arc<Pipeline>, at_once: usize, batch: Batch) -> Vec<Outcome> {
        let Batch { calls, limit, observer, .. } = batch;
        let batch_id = self.inner.registry.store().randomness().hex();
        let size = calls.len();
        let halted = Arc::new(AtomicBool::new(false));
        let ended = Arc::new(AtomicUsize::new(0));
        let place = |index: usize| BatchPlace { id: batch_id.clone(), index, size };
        let run = |(index, request): (usize, CallRequest)| {
            let (pipeline, halted, ended) = (Arc::clone(&pipeline), Arc::clone(&halted), Arc::clone(&ended));
            let observer = &observer;
            let begun = pipeline.begin(&request, Some(place(index)));
            async move {
                let begun = begun.in_batch(ended);
                let outcome = if index >= limit {
                    let message = format!("not run: the limit of {limit} more calls was reached");
                    pipeline.skipped(begun, "call.limit", message)
                } else if halted.load(Ordering::SeqCst) {
                    pipeline.skipped(begun, "call.halted", "not run: an earlier call ended the turn".to_owned())
                } else if request.cancellation.is_cancelled() {
                    pipeline.skipped(begun, "call.cancelled", "not run: the caller gave the batch up".to_owned())
                } else {
                    observer.began(index);
                    self.run(pipeline, begun, request.arguments).await
                };
                if outcome.status == Status::Halted {
                    halted.store(true, Ordering::SeqCst);
                }
                observer.ended(index, &outcome);
                (index, outcome)
            }
        };
        let running = stream::iter(calls.into_iter().enumerate()).map(run).buffer_unordered(at_once);
        let mut outcomes: Vec<(usize, Outcome)> = running.collect().await;
        outcomes.sort_by_key(|(index, _)| *index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}
