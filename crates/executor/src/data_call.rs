//! One call of a data tool: from its arguments to the request, and from the answer to how it ended.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolcrib_definition::{
    Answer, Approval, Definition, EffectMode, Extract, RenderError, RenderInput, RenderedRequest, Shaped,
};

use crate::dispatch::{Cut, DispatchFailure, FailureKind, PreparedCall, UpstreamAnswer};
use crate::events::EventKind;
use crate::outcome::{HaltOutcome, Status};
use crate::pipeline::{Caller, Ended, IN_DOUBT, Pipeline};
use crate::trace::TraceBuilder;

/// How much the model reads of a body that is not whole, in characters.
const MAX_CUT_BODY: usize = 2_000;

impl Pipeline {
    /// Approval, render, send, extract, evidence, halt.
    pub(crate) async fn data(
        &self,
        definition: &Definition,
        arguments: &Map<String, Value>,
        call_id: &str,
        caller: &Caller,
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
            Err(ref error @ RenderError::MissingSecret { ref name }) => {
                let reason = format!("the secret {name:?} is not configured");
                return Ended::error(Status::Error, "call.secret", error.to_string(), Some(reason));
            }
            Err(error) => return Ended::error(Status::Error, "call.arguments", error.to_string(), None),
        };
        trace.phase("render", rendering);
        trace.request(&request);

        let timeout =
            definition.timeout.map_or(self.agent.limits().tool_timeout, |s| Duration::from_secs(u64::from(s)));
        let deadline = Instant::now() + timeout;
        let client = caller.client.as_ref();
        let call = PreparedCall { definition, request: &request, deadline, client };
        let dispatched = match definition.effect() {
            EffectMode::Idempotent => tokio::select! {
                dispatched = self.inner.dispatch.dispatch(call) => dispatched,
                () = caller.cancellation.cancelled() => {
                    return Ended::error(Status::Error, "call.cancelled", "the caller gave the call up", None);
                }
            },
            // What may have happened is awaited, whoever still listens.
            EffectMode::AtMostOnce | EffectMode::Transactional => self.inner.dispatch.dispatch(call).await,
        };
        trace.timings(dispatched.timings);
        trace.sends(dispatched.sends);
        self.inner.metrics.retried(dispatched.sends.saturating_sub(1));
        match dispatched.result {
            Ok(answer) => self.shape(definition, answer, trace).await,
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
            key: call_id,
            secrets: secrets.as_ref().as_ref(),
            path_param: self.inner.dispatch.policy().path_param,
        })
    }

    /// Extract, evidence and halt of an answer.
    async fn shape(&self, definition: &Definition, answer: UpstreamAnswer, trace: &mut TraceBuilder) -> Ended {
        let shaping = Instant::now();
        let success = (200..300).contains(&answer.status);
        let effect = definition.effect();
        if let Some(cut) = answer.cut.filter(|_| success && definition.extract != Extract::Status) {
            trace.answer(&answer, &Value::Null);
            return cut_answer(definition, &answer, cut);
        }
        let location = answer.location.as_deref();
        let shaped = definition.shape(Answer { status: answer.status, location, body: &answer.body });
        trace.phase("extract", shaping);
        trace.answer(&answer, &shaped.result);
        if let Some(evidence) = definition.evidence.as_ref().filter(|_| !shaped.evidence_ids.is_empty()) {
            trace.evidence(&evidence.kind, &shaped.evidence_ids);
            if !self.session.is_empty() {
                let store = self.inner.registry.store();
                if let Err(error) =
                    store.record_evidence(&self.session, &self.agent_id, &evidence.kind, &shaped.evidence_ids).await
                {
                    tracing::error!(error = %error, reason = error.reason(), "evidence could not be recorded");
                    let reason = Some(error.to_string());
                    if effect == EffectMode::Idempotent {
                        let message = "evidence processing failed: the ids could not be recorded";
                        return Ended::error(Status::Error, "call.evidence", message, reason);
                    }
                    // What happened is not called an error; its ids can't be cited, and the trace says why.
                    trace.error("call.evidence", reason.as_deref());
                }
            }
        }
        let status = status_of(effect, answer.status, &shaped);
        let error = matches!(status, Status::Error | Status::InDoubt).then_some(("call.tool", None));
        let mut result = shaped.result;
        if success && let (Some(_), Some(object)) = (answer.cut, result.as_object_mut()) {
            object.insert("truncated".to_owned(), "the response did not come whole".into());
        }
        if status == Status::InDoubt
            && let Some(object) = result.as_object_mut()
        {
            object.insert("note".to_owned(), IN_DOUBT.into());
        }
        Ended {
            status,
            result,
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
                trace.blocked(blocked);
                Status::Error
            }
            FailureKind::InDoubt if effect == EffectMode::AtMostOnce => {
                message = format!("{message}; {IN_DOUBT}");
                Status::InDoubt
            }
            FailureKind::InDoubt | FailureKind::NotSent => Status::Error,
        };
        Ended::error(status, code, message, reason)
    }
}

/// A 2xx whose body is not whole. It was a success all the same: an effect that happened is not
/// called an error, and a read that can't be trusted is.
fn cut_answer(definition: &Definition, answer: &UpstreamAnswer, cut: Cut) -> Ended {
    let bytes = answer.body.len();
    let (code, words) = match cut {
        Cut::TooLarge(bound) => ("call.too_large", format!("the response is larger than {bound} bytes")),
        Cut::BrokenOff => ("call.broken_off", format!("the response broke off after {bytes} bytes")),
        Cut::TimedOut => ("call.body_timeout", format!("the response did not end in time; {bytes} bytes came")),
        Cut::Unreadable => ("call.unreadable", "the response is compressed in a way that can't be read".to_owned()),
    };
    if definition.effect() == EffectMode::Idempotent {
        return Ended::error(Status::Error, code, words, None);
    }
    let mut result = json!({ "status": answer.status, "truncated": words });
    if definition.extract == Extract::BodyRaw && definition.evidence.is_none() {
        result["body"] = answer.body.chars().take(MAX_CUT_BODY).collect::<String>().into();
    }
    Ended { status: Status::Ok, result, halt: None, attachments: Vec::new(), error: None }
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
