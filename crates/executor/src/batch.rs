//! The calls a model asks for in one step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use toolcrib_definition::Ctx;
use toolcrib_registry::Agent;

use crate::executor::{CallRequest, Executor};
use crate::outcome::{Outcome, Status};

impl Executor {
    /// Runs the calls of one step: one after the other, or as many at once as the agent's
    /// `tool_concurrency` says. Outcomes come in the order of the calls; the traces say in which
    /// order they began and how many had ended before each.
    ///
    /// `max_tool_calls` is counted before anything runs: the calls past it are answered, not run.
    /// After a halt, calls that have not begun are answered, not run.
    pub async fn batch(&self, agent_id: &str, agent: &Arc<Agent>, ctx: Ctx, calls: Vec<CallRequest>) -> Vec<Outcome> {
        let pipeline = self.pipeline(agent_id, agent, ctx);
        let batch_id = self.inner.registry.store().randomness().hex();
        let size = calls.len();
        let limits = agent.limits;
        let halted = Arc::new(AtomicBool::new(false));
        let ended = Arc::new(AtomicUsize::new(0));
        let place = |index: usize, ended: usize| -> Value {
            json!({ "id": batch_id, "index": index, "size": size, "ended_before": ended })
        };
        let run = |(index, request): (usize, CallRequest)| {
            let (pipeline, halted, ended) = (Arc::clone(&pipeline), Arc::clone(&halted), Arc::clone(&ended));
            async move {
                let place = place(index, ended.load(Ordering::SeqCst));
                let outcome = if index >= limits.max_tool_calls {
                    let message = format!("not run: the limit of {} calls was reached", limits.max_tool_calls);
                    pipeline.skipped(&request, "call.limit", message, place)
                } else if halted.load(Ordering::SeqCst) {
                    let message = "not run: an earlier call ended the turn".to_owned();
                    pipeline.skipped(&request, "call.halted", message, place)
                } else {
                    self.run(pipeline, request, Some(place)).await
                };
                if outcome.status == Status::Halted {
                    halted.store(true, Ordering::SeqCst);
                }
                ended.fetch_add(1, Ordering::SeqCst);
                (index, outcome)
            }
        };
        let at_once = limits.tool_concurrency.max(1);
        let running = stream::iter(calls.into_iter().enumerate()).map(run).buffer_unordered(at_once);
        let mut outcomes: Vec<(usize, Outcome)> = running.collect().await;
        outcomes.sort_by_key(|(index, _)| *index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}
