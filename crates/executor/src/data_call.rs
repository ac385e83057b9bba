//! One call of a data tool: from its arguments to the request, and from the answer to how it ended.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolcrib_definition::{Answer, Definition, EffectMode, Extract, RenderError, RenderInput, RenderedRequest, Shaped};
use toolcrib_egress::{Barrier, NoBarrier, Withheld};
use toolcrib_store::LedgerState;

use crate::claim::Claim;
use crate::dispatch::{Cut, DispatchFailure, FailureKind, PreparedCall, UpstreamAnswer};
use crate::events::EventKind;
use crate::fingerprint::upstream_key;
use crate::outcome::{HaltOutcome, Status};
use crate::pipeline::{Begun, Ended, IN_DOUBT, Performed, Pipeline};
use crate::trace::TraceBuilder;

/// How much the model reads of a body that is not whole, in characters.
const MAX_CUT_BODY: usize = 2_000;

impl Pipeline {
    /// Render, send, extract, evidence, halt.
    pub(crate) async fn data(
        &self,
        definition: &Definition,
        arguments: &Map<String, Value>,
        claim: Option<&Claim>,
        begun: &mut Begun,
    ) -> Performed {
        let Begun { call_id, caller, trace, .. } = begun;
        let rendering = Instant::now();
        let request = match self.render(definition, arguments, call_id) {
            Ok(request) => request,
            Err(ref error @ RenderError::MissingSecret { ref name }) => {
                let reason = format!("the secret {name:?} is not configured");
                return Performed::failed(Ended::error(Status::Error, "call.secret", error.to_string(), Some(reason)));
            }
            Err(error) => {
                return Performed::failed(Ended::error(Status::Error, "call.arguments", error.to_string(), None));
            }
        };
        trace.phase("render", rendering);
        trace.request(&request);

        let timeout =
            definition.timeout.map_or(self.agent.limits().tool_timeout, |s| Duration::from_secs(u64::from(s)));
        let deadline = Instant::now() + timeout;
        let client = caller.client.as_ref();
        let barrier: &dyn Barrier = claim.map_or(&NoBarrier, |claim| claim);
        let call = PreparedCall { definition, request: &request, deadline, client, barrier };
        if let (EffectMode::Idempotent, Some(claim)) = (definition.effect(), claim)
            && let Err(Withheld(reason)) = claim.cross().await
        {
            return Performed::failed(withheld(reason));
        }
        let dispatched = match definition.effect() {
            EffectMode::Idempotent => tokio::select! {
                dispatched = self.inner.dispatch.dispatch(call) => dispatched,
                () = caller.cancellation.cancelled() => {
                    let ended = Ended::error(Status::Error, "call.cancelled", "the caller gave the call up", None);
                    return Performed::failed(ended);
                }
            },
            // What may have happened is awaited, whoever still listens.
            EffectMode::AtMostOnce | EffectMode::Transactional => self.inner.dispatch.dispatch(call).await,
        };
        trace.timings(dispatched.timings);
        trace.sends(dispatched.sends);
        self.inner.metrics.retried(dispatched.sends.saturating_sub(1));
        match dispatched.result {
            Ok(answer) => {
                let state = state_of(definition, answer.status);
                Performed { ended: self.shape(definition, answer, trace).await, state: Some(state) }
            }
            Err(mut failure) => {
                if failure.code == "upstream.timeout" && Instant::now() >= deadline {
                    let limit = if definition.timeout.is_some() { "the tool's timeout" } else { "tool_timeout" };
                    failure.message = format!("the call took longer than {} s ({limit})", timeout.as_secs()).into();
                }
                let ended = self.unanswered(definition.effect(), failure, trace);
                let in_doubt = ended.status == Status::InDoubt;
                Performed { ended, state: Some(if in_doubt { LedgerState::InDoubt } else { LedgerState::Failed }) }
            }
        }
    }

    fn render(
        &self,
        definition: &Definition,
        arguments: &Map<String, Value>,
        call_id: &str,
    ) -> Result<RenderedRequest, RenderError> {
        let secrets = self.inner.secrets.load();
        let key = definition.idempotency_key_header.as_ref().map(|_| upstream_key(&self.ledger_session(), call_id));
        definition.render(RenderInput {
            arguments,
            ctx: &self.ctx,
            call_id,
            key: key.as_deref().unwrap_or_default(),
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
        let status = status_of(definition, answer.status, &shaped);
        let error = matches!(status, Status::Error | Status::InDoubt).then(|| {
            let reason = (!success).then(|| format!("HTTP {}", answer.status));
            (Cow::Borrowed("call.tool"), reason)
        });
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
            ..Ended::new(status, Value::Null)
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
    Ended::new(Status::Ok, result)
}

pub(crate) fn withheld(reason: String) -> Ended {
    let message = "the call was not sent: the ledger did not let it go";
    Ended::error(Status::Error, "call.withheld", message, Some(reason))
}

/// Whether an answer does not say if a call that may happen only once did happen. A redirect after a form says that it
/// did as often as not; one that only names another address says that it did not.
fn is_in_doubt(definition: &Definition, status: u16) -> bool {
    definition.effect() == EffectMode::AtMostOnce
        && !definition.not_performed_on.contains(&status)
        && matches!(status, 300 | 302..=306 | 408 | 429 | 500..=599)
}

/// Where in the ledger an answer brings its call.
fn state_of(definition: &Definition, status: u16) -> LedgerState {
    match status {
        200..=299 => LedgerState::Succeeded,
        _ if is_in_doubt(definition, status) => LedgerState::InDoubt,
        _ => LedgerState::Failed,
    }
}

/// The status of an answered call. For a call that may happen only once, an answer that does not say
/// whether it happened leaves it in doubt.
fn status_of(definition: &Definition, status: u16, shaped: &Shaped) -> Status {
    if shaped.halt.is_some() {
        Status::Halted
    } else if is_in_doubt(definition, status) {
        Status::InDoubt
    } else if shaped.is_error {
        Status::Error
    } else {
        Status::Ok
    }
}
