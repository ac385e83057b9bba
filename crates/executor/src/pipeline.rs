//! The way of one call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolcrib_definition::json::{kind_of, parse};
use toolcrib_definition::{
    Answer, Approval, Ctx, Definition, EffectMode, RenderError, RenderInput, RenderedRequest, Shaped,
};
use toolcrib_registry::{Agent, Entry, RegisteredCodeTool, Snapshot};

use crate::code::{self, CodeFailure};
use crate::dispatch::{Cut, DispatchFailure, FailureKind, PreparedCall, UpstreamAnswer};
use crate::events::EventKind;
use crate::executor::{CallRequest, Inner};
use crate::outcome::{HaltOutcome, Outcome, Status, error_result};
use crate::trace::TraceBuilder;

/// What all calls of a batch share.
pub(crate) struct Pipeline {
    pub(crate) inner: Arc<Inner>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) agent_id: String,
    pub(crate) agent: Arc<Agent>,
    pub(crate) ctx: Ctx,
    pub(crate) session: String,
}

/// How a call ended, before it is an outcome.
struct Ended {
    status: Status,
    result: Value,
    halt: Option<HaltOutcome>,
    attachments: Vec<toolcrib_definition::Attachment>,
    /// The code and the operator's reason, when it is an error.
    error: Option<(&'static str, Option<String>)>,
}

impl Ended {
    fn error(status: Status, code: &'static str, message: impl Into<String>, reason: Option<String>) -> Self {
        Self { status, result: error_result(message), halt: None, attachments: Vec::new(), error: Some((code, reason)) }
    }
}

impl Pipeline {
    /// Runs one call. `place` says where in a batch it stands, for the trace.
    pub(crate) async fn call(&self, request: CallRequest, place: Option<Value>) -> Outcome {
        let store = self.inner.registry.store();
        let mut trace = TraceBuilder::new(store.clock().now_ms());
        let trace_id = store.randomness().hex();
        let call_id = request.call_id.unwrap_or_else(|| format!("call_{}", &store.randomness().hex()[..24]));
        let entry = self.snapshot.tool(&request.tool);
        let origin = entry.map_or("none", |entry| entry.origin().as_str());
        trace.put("origin", origin.into());
        trace.arguments(&request.arguments);
        if let Some(place) = place {
            trace.put("batch", place);
        }
        self.inner.metrics.in_flight.inc();
        self.publish(
            EventKind::CallStarted,
            || json!({ "call_id": call_id, "tool": request.tool, "trace_id": trace_id }),
        );

        let ended = match self.resolve(entry, &request.tool) {
            Ok(entry) => self.checked(entry, request.arguments, &call_id, &mut trace).await,
            Err(ended) => *ended,
        };

        let outcome = self.outcome(ended, &request.tool, call_id, trace_id, &mut trace);
        let seconds = trace.elapsed_ms() / 1e3;
        self.inner.metrics.in_flight.dec();
        self.inner.metrics.called(outcome.status, origin, seconds);
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
    fn resolve<'s>(&self, entry: Option<&'s Arc<Entry>>, name: &str) -> Result<&'s Arc<Entry>, Box<Ended>> {
        let message = || format!("there is no tool {name:?} that this agent may use");
        match entry {
            None => Err(Box::new(Ended::error(Status::Error, "call.unknown_tool", message(), None))),
            Some(entry) if !self.agent.allows(entry) => {
                let reason = format!("the agent {} may not use it", self.agent_id);
                Err(Box::new(Ended::error(Status::Denied, "call.denied", message(), Some(reason))))
            }
            Some(entry) => Ok(entry),
        }
    }

    /// Arguments, then the kind of tool.
    async fn checked(&self, entry: &Arc<Entry>, arguments: Value, call_id: &str, trace: &mut TraceBuilder) -> Ended {
        let checking = Instant::now();
        let wrong = |message: String| Ended::error(Status::Error, "call.arguments", message, None);
        let arguments = match read_arguments(arguments) {
            Ok(arguments) => arguments,
            Err(message) => return wrong(message),
        };
        let Some(view) = entry.view() else {
            return Ended::error(Status::Error, "call.internal", "the tool can't be read", None);
        };
        if let Err(error) = view.parameters.check(&arguments) {
            return wrong(error.to_string());
        }
        trace.phase("check", checking);
        match (entry.as_code(), entry.as_data()) {
            (Some(tool), _) => self.code(tool, &arguments, call_id, trace).await,
            (None, Some(definition)) => self.data(definition, &arguments, call_id, trace).await,
            (None, None) => Ended::error(Status::Error, "call.internal", "the tool can't be read", None),
        }
    }

    /// Approval, render, send, extract, evidence, halt.
    async fn data(
        &self,
        definition: &Definition,
        arguments: &Map<String, Value>,
        call_id: &str,
        trace: &mut TraceBuilder,
    ) -> Ended {
        if definition.approval != Approval::Never {
            // Closed, not open: a rule that can't be asked about is not a rule that says yes.
            let message = "this tool needs a person's approval, and none can be asked for here; nothing was sent";
            return Ended::error(Status::Denied, "call.approval", message, None);
        }
        let rendering = Instant::now();
        let request = match self.render(definition, arguments, call_id) {
            Ok(request) => request,
            Err(RenderError::MissingSecret { name }) => {
                let error = RenderError::MissingSecret { name: name.clone() };
                let reason = format!("the secret {name:?} is not configured");
                return Ended::error(Status::Error, "call.secret", error.to_string(), Some(reason));
            }
            Err(error) => return Ended::error(Status::Error, "call.arguments", error.to_string(), None),
        };
        trace.phase("render", rendering);
        trace.request(&request);

        let timeout = definition.timeout.map_or(self.agent.limits.tool_timeout, |s| Duration::from_secs(u64::from(s)));
        let deadline = Instant::now() + timeout;
        let dispatched = self.inner.dispatch.dispatch(PreparedCall { definition, request: &request, deadline }).await;
        trace.timings(dispatched.timings);
        trace.put("sends", dispatched.sends.into());
        for _ in 1..dispatched.sends {
            self.inner.metrics.retried();
        }
        match dispatched.result {
            Ok(answer) => {
                trace.answer(&answer);
                self.shape(definition, answer, trace).await
            }
            Err(failure) => self.unanswered(definition.effect(), failure, trace),
        }
    }

    fn render(
        &self,
        definition: &Definition,
        arguments: &Map<String, Value>,
        call_id: &str,
    ) -> Result<RenderedRequest, RenderError> {
        let secrets = self.inner.secrets.load();
        definition.render(RenderInput {
            arguments,
            ctx: &self.ctx,
            call_id,
            secrets: secrets.as_ref().as_ref(),
            path_param: self.inner.dispatch.policy().path_param,
        })
    }

    /// Extract, evidence and halt of an answer.
    async fn shape(&self, definition: &Definition, answer: UpstreamAnswer, trace: &mut TraceBuilder) -> Ended {
        let shaping = Instant::now();
        let success = (200..300).contains(&answer.status);
        let effect = definition.effect();
        if let Some(cut) = answer.cut.filter(|_| success) {
            return cut_answer(effect, &answer, cut);
        }
        let location = answer.location.as_deref();
        let shaped = definition.shape(Answer { status: answer.status, location, body: &answer.body });
        trace.phase("extract", shaping);
        if let Some(evidence) = definition.evidence.as_ref().filter(|_| !shaped.evidence_ids.is_empty()) {
            trace.put("evidence", json!({ "kind": evidence.kind, "ids": shaped.evidence_ids }));
            if !self.session.is_empty() {
                let store = self.inner.registry.store();
                if let Err(error) = store.record_evidence(&self.session, &evidence.kind, &shaped.evidence_ids).await {
                    tracing::error!(error = %error, "evidence could not be recorded");
                    let message = "evidence processing failed: the ids could not be recorded";
                    return Ended::error(Status::Error, "call.evidence", message, Some(error.to_string()));
                }
            }
        }
        let status = status_of(effect, answer.status, &shaped);
        let error = matches!(status, Status::Error | Status::InDoubt).then_some(("call.tool", None));
        Ended {
            status,
            result: shaped.result,
            halt: shaped.halt.map(|halt| HaltOutcome { say: halt.say }),
            attachments: shaped.attachments,
            error,
        }
    }

    fn unanswered(&self, effect: EffectMode, failure: DispatchFailure, trace: &mut TraceBuilder) -> Ended {
        let DispatchFailure { kind, code, message, reason } = failure;
        let mut message = message.into_owned();
        let status = match kind {
            FailureKind::Blocked(blocked) => {
                self.inner.metrics.blocked(blocked.reason.code());
                tracing::warn!(agent = %self.agent_id, code = blocked.reason.code(), subject = %blocked.subject,
                    "egress.call.blocked");
                self.publish(
                    EventKind::EgressBlocked,
                    || json!({ "code": blocked.reason.code(), "subject": blocked.subject, "detail": blocked.detail }),
                );
                trace.blocked = Some(blocked);
                Status::Error
            }
            FailureKind::InDoubt if effect == EffectMode::AtMostOnce => {
                message.push_str("; it may have taken effect all the same, so don't repeat it blindly");
                Status::InDoubt
            }
            FailureKind::InDoubt | FailureKind::NotSent => Status::Error,
        };
        Ended::error(status, code, message, reason)
    }

    async fn code(
        &self,
        tool: &RegisteredCodeTool,
        arguments: &Map<String, Value>,
        call_id: &str,
        trace: &mut TraceBuilder,
    ) -> Ended {
        let running = Instant::now();
        let deadline = running + self.agent.limits.tool_timeout;
        let result = code::run(tool, arguments, &self.ctx, call_id, &self.session, deadline).await;
        trace.phase("run", running);
        let failure = match result {
            Ok(result) => {
                return Ended { status: Status::Ok, result, halt: None, attachments: Vec::new(), error: None };
            }
            Err(failure) => failure,
        };
        let in_doubt = code::is_in_doubt(tool.effect(), &failure);
        let status = if in_doubt { Status::InDoubt } else { Status::Error };
        match failure {
            CodeFailure::Tool(message) => Ended::error(status, "call.tool", message, None),
            CodeFailure::Timeout => Ended::error(status, "call.timeout", "the tool took too long", None),
            CodeFailure::Panic(words) => {
                tracing::error!(tool = %tool.name(), panic = %words, "a code tool panicked");
                Ended::error(status, "call.panic", "the tool failed unexpectedly", Some(words))
            }
        }
    }

    fn outcome(
        &self,
        ended: Ended,
        tool: &str,
        call_id: String,
        trace_id: String,
        trace: &mut TraceBuilder,
    ) -> Outcome {
        if let Some((code, reason)) = &ended.error {
            trace.error(code, reason.as_deref());
        }
        Outcome {
            call_id,
            tool: tool.to_owned(),
            status: ended.status,
            result: ended.result,
            halt: ended.halt,
            attachments: ended.attachments,
            trace_id,
            duration_ms: trace.elapsed_ms().round() as u64,
        }
    }

    /// The outcome of a call that is not run.
    pub(crate) fn skipped(&self, request: &CallRequest, code: &'static str, message: String, place: Value) -> Outcome {
        let store = self.inner.registry.store();
        let mut trace = TraceBuilder::new(store.clock().now_ms());
        trace.arguments(&request.arguments);
        trace.put("batch", place);
        let call_id = request.call_id.clone().unwrap_or_else(|| format!("call_{}", &store.randomness().hex()[..24]));
        let ended = Ended::error(Status::Skipped, code, message, None);
        let outcome = self.outcome(ended, &request.tool, call_id, store.randomness().hex(), &mut trace);
        self.inner.metrics.called(outcome.status, "none", 0.0);
        self.inner.recorder.record(trace.finish(&outcome, &self.agent_id, &self.session));
        outcome
    }

    /// The outcome of a call whose own task failed: a fault of ours, never a panic of the server.
    pub(crate) fn failed(&self, tool: &str, call_id: Option<String>, reason: &str) -> Outcome {
        tracing::error!(tool, reason, "a call failed inside");
        let store = self.inner.registry.store();
        let mut trace = TraceBuilder::new(store.clock().now_ms());
        let ended = Ended::error(
            Status::InDoubt,
            "call.internal",
            "the call failed inside Toolcrib; it may have taken effect",
            Some(reason.to_owned()),
        );
        let outcome = self.outcome(ended, tool, call_id.unwrap_or_default(), store.randomness().hex(), &mut trace);
        self.inner.recorder.record(trace.finish(&outcome, &self.agent_id, &self.session));
        outcome
    }

    fn publish(&self, kind: EventKind, data: impl FnOnce() -> Value) {
        self.inner.events.publish(kind, Some(&self.agent_id), || {
            let mut data = data();
            data["agent"] = self.agent_id.as_str().into();
            data["session"] = self.session.as_str().into();
            data
        });
    }
}

/// Arguments as an object, or as the JSON text of one.
fn read_arguments(arguments: Value) -> Result<Map<String, Value>, String> {
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

/// A 2xx whose body is not whole. It was a success all the same: an effect that happened is not
/// called an error, and a read that can't be trusted is.
fn cut_answer(effect: EffectMode, answer: &UpstreamAnswer, cut: Cut) -> Ended {
    let (code, words) = match cut {
        Cut::TooLarge(bytes) => ("call.too_large", format!("the response is larger than {bytes} bytes")),
        Cut::BrokenOff => ("call.broken_off", format!("the response broke off after {} bytes", answer.body.len())),
    };
    if effect == EffectMode::Idempotent {
        return Ended::error(Status::Error, code, words, None);
    }
    let shown: String = answer.body.chars().take(2_000).collect();
    Ended {
        status: Status::Ok,
        result: json!({ "status": answer.status, "truncated": words, "body": shown }),
        halt: None,
        attachments: Vec::new(),
        error: None,
    }
}

/// The status of an answered call. For a call that may happen only once, an answer that does not say
/// whether it happened leaves it in doubt.
fn status_of(effect: EffectMode, status: u16, shaped: &Shaped) -> Status {
    if shaped.halt.is_some() {
        Status::Halted
    } else if effect == EffectMode::AtMostOnce && matches!(status, 408 | 429 | 500..=599) {
        Status::InDoubt
    } else if shaped.is_error {
        Status::Error
    } else {
        Status::Ok
    }
}
