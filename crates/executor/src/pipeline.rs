//! The way of one call.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolcrib_definition::json::{kind_of, parse};
use toolcrib_definition::{Attachment, Ctx, EffectMode};
use toolcrib_egress::{Barrier, Withheld};
use toolcrib_registry::{Agent, CallContext, Entry, RegisteredCodeTool, Snapshot, ToolClient};
use toolcrib_store::{Ask, LedgerState, time_ordered_id};

use crate::approval::{Refused, ask_about, may_be_ledgered};
use crate::claim::Claim;
use crate::code::{self, CodeFailure};
use crate::data_call::withheld;
use crate::events::EventKind;
use crate::executor::{CallRequest, Inner};
use crate::metrics::Metrics;
use crate::outcome::{HaltOutcome, Outcome, Status, error_result};
use crate::trace::{BatchPlace, TraceBuilder};

/// What all calls of a batch share.
pub(crate) struct Pipeline {
    pub(crate) inner: Arc<Inner>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) agent_id: String,
    pub(crate) agent: Arc<Agent>,
    pub(crate) ctx: Ctx,
    pub(crate) session: String,
}

/// What the model reads beside the failure of a call that may have happened all the same.
pub(crate) const IN_DOUBT: &str = "it may have taken effect all the same, so don't repeat it blindly";

/// How a call ended, before it is an outcome.
pub(crate) struct Ended {
    pub(crate) status: Status,
    pub(crate) result: Value,
    pub(crate) halt: Option<HaltOutcome>,
    pub(crate) attachments: Vec<Attachment>,
    /// The code and the operator's reason, when it is an error.
    pub(crate) error: Option<(Cow<'static, str>, Option<String>)>,
    /// The approval that is waited for.
    pub(crate) approval: Option<String>,
    /// The call in the ledger.
    pub(crate) ledger_id: Option<String>,
}

/// How a call ended, and where that brings its row. None when the row is where it belongs already.
pub(crate) struct Performed {
    pub(crate) ended: Ended,
    pub(crate) state: Option<LedgerState>,
}

impl Performed {
    /// Nothing happened.
    pub(crate) fn failed(ended: Ended) -> Self {
        Self { ended, state: Some(LedgerState::Failed) }
    }
}

impl Ended {
    pub(crate) fn new(status: Status, result: Value) -> Self {
        Self { status, result, halt: None, attachments: Vec::new(), error: None, approval: None, ledger_id: None }
    }

    pub(crate) fn error(
        status: Status,
        code: &'static str,
        message: impl Into<String>,
        reason: Option<String>,
    ) -> Self {
        Self { error: Some((Cow::Borrowed(code), reason)), ..Self::new(status, error_result(message)) }
    }
}

/// What is settled of a call before it runs: however it ends, it ends under these names.
pub(crate) struct Begun {
    pub(crate) call_id: String,
    pub(crate) trace_id: String,
    pub(crate) tool: String,
    origin: &'static str,
    pub(crate) effect: EffectMode,
    pub(crate) trace: TraceBuilder,
    pub(crate) caller: Caller,
    /// How many calls of the batch have ended, counted up by each that ends.
    ended: Option<Arc<AtomicUsize>>,
}

impl Begun {
    /// The same call with a trace that holds nothing yet, for an end that the call itself can't tell.
    pub(crate) fn spare(&self) -> Self {
        Self {
            call_id: self.call_id.clone(),
            trace_id: self.trace_id.clone(),
            tool: self.tool.clone(),
            origin: self.origin,
            effect: self.effect,
            trace: self.trace.emptied(),
            caller: self.caller.clone(),
            ended: self.ended.clone(),
        }
    }

    /// The same call as one of a batch whose ends are counted.
    pub(crate) fn in_batch(self, ended: Arc<AtomicUsize>) -> Self {
        Self { ended: Some(ended), ..self }
    }
}

/// The caller of one call.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) client: Arc<dyn ToolClient>,
    pub(crate) cancellation: CancellationToken,
}

/// Counts a call as running until it is dropped, also by a panic.
struct InFlight<'a>(&'a Metrics);

impl<'a> InFlight<'a> {
    fn enter(metrics: &'a Metrics) -> Self {
        metrics.in_flight.inc();
        Self(metrics)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}

impl Pipeline {
    /// Gives a call its names and begins its trace. `place` says where in a batch it stands.
    pub(crate) fn begin(&self, request: &CallRequest, place: Option<BatchPlace>) -> Begun {
        let store = self.inner.registry.store();
        let trace_id = time_ordered_id(store.clock().as_ref(), store.randomness().as_ref());
        let call_id = request.call_id.clone().unwrap_or_else(|| format!("call_{trace_id}"));
        let entry = self.snapshot.tool(&request.tool);
        let origin = entry.map_or("none", |entry| entry.origin().as_str());
        let effect = entry.map_or(EffectMode::Idempotent, |entry| entry.effect());
        let mut trace = TraceBuilder::new(store.clock().now_ms(), origin);
        trace.arguments(&request.arguments);
        if let Some(place) = place {
            trace.batch(place);
        }
        let caller = Caller { client: Arc::clone(&request.client), cancellation: request.cancellation.clone() };
        Begun { call_id, trace_id, tool: request.tool.clone(), origin, effect, trace, caller, ended: None }
    }

    /// Runs one call to its end.
    pub(crate) async fn call(&self, mut begun: Begun, arguments: Value) -> Outcome {
        let _in_flight = InFlight::enter(&self.inner.metrics);
        self.publish(
            EventKind::CallStarted,
            || json!({ "call_id": begun.call_id, "tool": begun.tool, "trace_id": begun.trace_id }),
        );
        let ended = match self.resolve(&begun.tool) {
            Ok(entry) => self.checked(entry, arguments, &mut begun).await,
            Err(ended) => *ended,
        };
        self.finish(begun, ended)
    }

    /// The outcome of a call that is not run.
    pub(crate) fn skipped(&self, begun: Begun, code: &'static str, message: String) -> Outcome {
        self.finish(begun, Ended::error(Status::Skipped, code, message, None))
    }

    /// The outcome of a call whose own task failed: a fault of ours, and never one of the server.
    pub(crate) fn failed(&self, begun: Begun, reason: &str) -> Outcome {
        tracing::error!(tool = %begun.tool, reason, "a call failed inside");
        let (status, message) = match begun.effect {
            EffectMode::AtMostOnce => (Status::InDoubt, format!("the call failed inside Toolcrib; {IN_DOUBT}")),
            _ => (Status::Error, "the call failed inside Toolcrib".to_owned()),
        };
        self.finish(begun, Ended::error(status, "call.internal", message, Some(reason.to_owned())))
    }

    /// Metrics, trace, event and outcome: the end of every call.
    pub(crate) fn finish(&self, begun: Begun, ended: Ended) -> Outcome {
        let Begun { call_id, trace_id, tool, origin, mut trace, ended: batch, .. } = begun;
        if let Some(batch) = batch {
            trace.ended_as(batch.fetch_add(1, Ordering::SeqCst) + 1);
        }
        if let Some((code, reason)) = &ended.error {
            trace.error(code.clone(), reason.as_deref());
        }
        let elapsed = trace.elapsed_ms();
        let outcome = Outcome {
            call_id,
            tool,
            status: ended.status,
            result: ended.result,
            halt: ended.halt,
            attachments: ended.attachments,
            code: ended.error.map(|(code, _)| code),
            approval: ended.approval,
            ledger_id: ended.ledger_id,
            trace_id,
            duration_ms: elapsed.round() as u64,
        };
        self.inner.metrics.called(outcome.status, origin, elapsed / 1e3);
        self.inner.recorder.record(trace.finish(&outcome, &self.agent_id, &self.session));
        self.publish(EventKind::CallFinished, || {
            json!({
                "call_id": outcome.call_id,
                "tool": outcome.tool,
                "trace_id": outcome.trace_id,
                "status": outcome.status.as_str(),
                "duration_ms": outcome.duration_ms,
            })
        });
        outcome
    }

    /// Resolve, and allowed. The model is told the same of a tool that is not there and of one that
    /// the agent may not use.
    fn resolve(&self, name: &str) -> Result<&Arc<Entry>, Box<Ended>> {
        let message = || format!("there is no tool {name:?} that this agent may use");
        match self.snapshot.tool(name) {
            None => Err(Box::new(Ended::error(Status::Error, "call.unknown_tool", message(), None))),
            Some(entry) if !self.agent.allows(entry) => {
                let reason = match entry.disabled() {
                    Some(reason) => format!("it is disabled: {reason}"),
                    None => format!("the agent {} may not use it", self.agent_id),
                };
                Err(Box::new(Ended::error(Status::Denied, "call.denied", message(), Some(reason))))
            }
            Some(entry) => Ok(entry),
        }
    }

    /// Arguments, approval, ledger.
    async fn checked(&self, entry: &Arc<Entry>, arguments: Value, begun: &mut Begun) -> Ended {
        let checking = Instant::now();
        let wrong = |message: String| Ended::error(Status::Error, "call.arguments", message, None);
        let arguments = match read_arguments(arguments) {
            Ok(arguments) => arguments,
            Err(message) => return wrong(message),
        };
        let Some(view) = entry.view() else {
            return Ended::error(Status::Error, "call.internal", "the tool can't be read", None);
        };
        let arguments = view.parameters.restore(arguments);
        if let Err(error) = view.parameters.check(&arguments) {
            return wrong(error.to_string());
        }
        begun.trace.phase("check", checking);
        if !may_be_ledgered(entry, &self.agent) {
            return self.perform(entry, &arguments, None, begun).await.ended;
        }
        let ask = match ask_about(entry, &self.agent_id, &self.agent, &arguments, &self.ctx) {
            Ok(ask) => ask,
            Err(Refused(reason)) => {
                let message = format!("this call is refused: {reason}");
                return Ended::error(Status::Denied, "call.denied_by_rule", message, None);
            }
        };
        if entry.effect() == EffectMode::Idempotent && ask == Ask::IfRepeated {
            return self.perform(entry, &arguments, None, begun).await.ended;
        }
        // Without a conversation there is no session in which a yes could hold.
        let ask = match ask {
            Ask::Once(why) if self.session.is_empty() => Ask::Always(why),
            ask => ask,
        };
        let proposing = Instant::now();
        let proposed = self.propose(entry, &arguments, ask, begun).await;
        begun.trace.phase("propose", proposing);
        match proposed {
            Ok(claim) => self.run_claimed(entry, &arguments, claim, begun).await,
            Err(ended) => *ended,
        }
    }

    /// Does what the call is for, by the kind of its tool.
    pub(crate) async fn perform(
        &self,
        entry: &Entry,
        arguments: &Map<String, Value>,
        claim: Option<&Claim>,
        begun: &mut Begun,
    ) -> Performed {
        match (entry.as_code(), entry.as_data()) {
            (Some(tool), _) => self.code(tool, arguments, claim, begun).await,
            (None, Some(definition)) => self.data(definition, arguments, claim, begun).await,
            (None, None) => {
                Performed::failed(Ended::error(Status::Error, "call.internal", "the tool can't be read", None))
            }
        }
    }

    async fn code(
        &self,
        tool: &RegisteredCodeTool,
        arguments: &Map<String, Value>,
        claim: Option<&Claim>,
        begun: &mut Begun,
    ) -> Performed {
        if let Some(claim) = claim
            && let Err(Withheld(reason)) = claim.cross().await
        {
            return Performed::failed(withheld(reason));
        }
        let running = Instant::now();
        let deadline = running + self.agent.limits().tool_timeout;
        let context = self.code_context(begun);
        let result = code::run(tool, arguments, None, &context, deadline, &begun.caller.cancellation).await;
        begun.trace.phase("run", running);
        match result {
            Ok(result) => Performed { ended: Ended::new(Status::Ok, result), state: Some(LedgerState::Succeeded) },
            Err(failure) => {
                let ended = self.code_failed(tool, failure, &begun.caller);
                let in_doubt = ended.status == Status::InDoubt;
                Performed { ended, state: Some(if in_doubt { LedgerState::InDoubt } else { LedgerState::Failed }) }
            }
        }
    }

    /// What a code tool is told of its call.
    pub(crate) fn code_context(&self, begun: &Begun) -> CallContext {
        CallContext {
            ctx: self.ctx.clone(),
            call_id: begun.call_id.clone(),
            session: self.session.clone(),
            cancellation: CancellationToken::new(),
            client: Arc::clone(&begun.caller.client),
        }
    }

    /// The end of a code tool that gave no result.
    pub(crate) fn code_failed(&self, tool: &RegisteredCodeTool, failure: CodeFailure, caller: &Caller) -> Ended {
        if matches!(failure, CodeFailure::Tool(_)) && caller.client.waits() {
            let message = "the tool waits for an answer of its caller";
            return Ended::error(Status::Waiting, "call.input", message, None);
        }
        let in_doubt = code::is_in_doubt(tool.effect(), &failure);
        let status = if in_doubt { Status::InDoubt } else { Status::Error };
        match failure {
            CodeFailure::Tool(message) => Ended::error(status, "call.tool", message, None),
            CodeFailure::Timeout => Ended::error(status, "call.timeout", "the tool took too long", None),
            CodeFailure::Cancelled => Ended::error(status, "call.cancelled", "the caller gave the call up", None),
            CodeFailure::Panic(words) => {
                tracing::error!(tool = %tool.name(), panic = %words, "a code tool panicked");
                Ended::error(status, "call.panic", "the tool failed unexpectedly", Some(words))
            }
        }
    }

    pub(crate) fn publish(&self, kind: EventKind, data: impl FnOnce() -> Value) {
        self.inner.events.publish(kind, Some(&self.agent_id), || {
            let mut data = data();
            data["agent"] = self.agent_id.as_str().into();
            data["session"] = self.session.as_str().into();
            data
        });
    }
}

/// Arguments as an object, or as the JSON text of one.
pub(crate) fn read_arguments(arguments: Value) -> Result<Map<String, Value>, String> {
    let value = match arguments {
        Value::String(text) if text.trim().is_empty() => Value::Null,
        Value::String(text) => {
            parse(text.as_bytes()).map_err(|error| format!("invalid arguments: the text is {error}"))?
        }
        other => other,
    };
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        other => Err(format!("invalid arguments: expected an object, got {}", kind_of(&other))),
    }
}
