//! Subagents: turns that a turn spawns, with no more than its own rights.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolcrib_registry::Limits;
use toolcrib_store::NewTurn;

use crate::engine::failed;
use crate::input::Input;
use crate::message::ModelCall;
use crate::outcome::{TurnOutcome, TurnStatus};
use crate::run::Run;
use crate::system_tools::{SPAWN_SUBAGENTS, SystemEnd, Task, tasks_of};

/// How long a subagent that was asked to end is waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Run {
    /// Runs the tasks beside each other. Their ids are made of the call's, so a turn that is taken up again finds those
    /// that it began.
    pub(crate) async fn spawn_subagents(&mut self, call: &ModelCall) -> SystemEnd {
        let tasks = match tasks_of(&call.arguments) {
            Ok(tasks) => tasks,
            Err(refused) => return refused,
        };
        // All of them together make no more calls than are left to the turn.
        let share = self.calls_left() / tasks.len();
        if share == 0 {
            let message = format!("not run: too few calls are left to this turn for {} subagent(s)", tasks.len());
            return SystemEnd::not_run(message);
        }
        let children =
            tasks.iter().enumerate().map(|(place, task)| self.child(format!("{}_{place}", call.id), task, share));
        let answers = join_all(children).await;
        // What they cost, and what they leave to show and to cite, is the turn's.
        for outcome in answers.iter().flatten() {
            self.at.usage += outcome.usage;
            self.at.calls += outcome.tool_calls;
            self.at.attachments.extend(outcome.attachments.iter().cloned());
            for cited in &outcome.evidence {
                if !self.at.evidence.contains(cited) {
                    self.at.evidence.push(cited.clone());
                }
            }
        }
        let body = |(task, outcome): (&Task, Option<TurnOutcome>)| match outcome {
            Some(outcome) => json!({
                "task": task.task, "status": outcome.status, "answer": outcome.text, "error": outcome.error,
            }),
            None => json!({ "task": task.task, "status": "failed", "error": "the subagent could not be run" }),
        };
        let answers: Vec<Value> = tasks.iter().zip(answers).map(body).collect();
        SystemEnd::ok(json!({ "answers": answers }))
    }

    async fn child(&self, id: String, task: &Task, calls: usize) -> Option<TurnOutcome> {
        // Never wider: what the parent may use, cut to what the task names.
        let named = |name: &str| task.tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == name));
        let allowed = self.snapshot.allowed(&self.agent);
        let mut tools: Vec<String> =
            allowed.iter().map(|tool| tool.name()).filter(|name| named(name)).map(str::to_owned).collect();
        if self.agent.names_tool(SPAWN_SUBAGENTS) && named(SPAWN_SUBAGENTS) {
            tools.push(SPAWN_SUBAGENTS.to_owned());
        }
        // What ends it in time is the turn that waits for it; its own time is for one whose parent's process is gone.
        let own = self.agent.limits();
        let turn_timeout = (own.turn_timeout * 2).min(Limits::MAX_TURN_TIMEOUT);
        let limits = Limits { max_tool_calls: calls, turn_timeout, ..own };
        let ctx = self.call_ctx();
        let input = Input {
            text: task.task.clone(),
            ctx,
            agent: Arc::new(self.agent.narrowed_to(tools, limits)),
            depth: self.input.depth + 1,
            before: Vec::new(),
        };
        let turn = NewTurn {
            id: id.clone(),
            agent: self.agent_id.clone(),
            session: format!("~{id}"),
            parent: Some(self.lease.id.clone()),
            input: input.to_json(),
        };
        let handle = self.engine.begin_row(turn, input, true).await.inspect_err(|error| {
            tracing::error!(error = %error, "turn.subagent.begin failed");
        });
        let mut handle = handle.ok()?;
        tokio::select! {
            outcome = handle.outcome() => return outcome,
            () = self.cancel.cancelled() => {}
            () = tokio::time::sleep(self.left()) => {}
        }
        if let Err(error) = self.engine.cancel(&id).await {
            tracing::error!(error = %error, "turn.subagent.cancel failed");
        }
        // What it cost is known when it has ended, a moment later.
        let over = || failed(TurnStatus::Cancelled, "turn.cancelled", "the time of the turn that spawned it is over");
        Some(tokio::time::timeout(LAST_WORDS, handle.outcome()).await.ok().flatten().unwrap_or_else(over))
    }
}
