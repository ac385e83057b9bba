//! Calls of an agent: one, or a batch.

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;

use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use toolcrib_definition::{Ctx, CtxField};
use toolcrib_executor::{CallRequest, Outcome};
use utoipa::ToSchema;

use crate::agents::not_found;
use crate::auth::{Access, Principal};
use crate::body::{JsonBody, Keys};
use crate::extract::Path;
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// The longest key of a call, in characters.
const MAX_CALL_ID: usize = 128;
/// The longest `chat_id`, in bytes.
const MAX_CHAT_ID: usize = 1_024;
/// The longest value of a context field, in bytes.
const MAX_CTX: usize = 4_096;
/// The longest name a call may give for a tool, in bytes; none of ours is longer than 64.
const MAX_TOOL_NAME: usize = 128;
/// Calls in one batch.
const MAX_BATCH: usize = 1_000;

/// What a call came to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutcomeBody {
    /// The stable key of the call.
    call_id: String,
    tool: String,
    /// `ok`, `error`, `halted`, `waiting`, `denied`, `skipped` or `in_doubt`.
    status: &'static str,
    /// Exactly what the model should read.
    #[schema(value_type = Object)]
    result: Value,
    /// Set when the turn ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    halt: Option<HaltBody>,
    /// For the person, never for the model.
    #[schema(value_type = Vec<Object>)]
    attachments: Vec<toolcrib_definition::Attachment>,
    /// The stable code of what went wrong, or of what is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// Set while a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<ApprovalRef>,
    /// The call in the ledger: `/v1/calls/{ledger_id}`. Set for what may change something, and for what a person is asked
    /// about.
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger_id: Option<String>,
    trace_id: String,
    duration_ms: u64,
}

/// The approval that is waited for: `/v1/approvals/{id}`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApprovalRef {
    id: String,
}

/// The end of a turn.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HaltBody {
    /// What is published, unless the model already streamed a lead-in.
    say: Option<String>,
}

/// What a batch came to, in the order of its calls.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchBody {
    outcomes: Vec<OutcomeBody>,
}

impl From<Outcome> for OutcomeBody {
    fn from(outcome: Outcome) -> Self {
        Self {
            call_id: outcome.call_id,
            tool: outcome.tool,
            status: outcome.status.as_str(),
            result: outcome.result,
            halt: outcome.halt.map(|halt| HaltBody { say: halt.say }),
            attachments: outcome.attachments,
            code: outcome.code.map(Into::into),
            approval: outcome.approval.map(|id| ApprovalRef { id }),
            ledger_id: outcome.ledger_id,
            trace_id: outcome.trace_id,
            duration_ms: outcome.duration_ms,
        }
    }
}

/// Make one call, or a batch of them
///
/// One call is `{tool, arguments, call_id, ctx}`, a batch `{calls: [{tool, arguments, call_id}], ctx}`. What goes
/// wrong with a call is in its outcome, for the model to read; the HTTP status speaks of the request only.
#[utoipa::path(post, path = "/v1/agents/{id}/calls", tag = "calls", params(("id" = String, Path)),
    request_body(content = Object, description = "{tool, arguments, call_id, ctx} or {calls, ctx}"),
    security(("token" = [])),
    responses((status = 200, body = OutcomeBody, description = "An outcome, or {outcomes} for a batch"),
        (status = 400, body = ProblemBody), (status = 404, body = ProblemBody),
        (status = 409, body = ProblemBody, description = "The call_id names another call"), (status = 422, body = ProblemBody)))]
pub(crate) async fn call(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    principal.may(Access::Call)?;
    principal.may_use_agent(&id)?;
    let mut keys = Keys::of(body, &["tool", "arguments", "call_id", "calls", "ctx"])?;
    let ctx = ctx_of(keys.take("ctx"))?;
    let snapshot = state.registry().snapshot();
    let agent = snapshot.agent(&id).ok_or_else(|| not_found(&id))?;
    match keys.take("calls") {
        None => {
            let request = request_of(&mut keys)?;
            let outcome = state.executor.call(&id, agent, ctx, request).await;
            if outcome.code.as_deref() == Some("call.conflict") {
                let message = outcome.result["error"].as_str().unwrap_or_default().to_owned();
                return Err(ApiError::Conflict { code: "call.conflict", message, retryable: false });
            }
            Ok(Json(OutcomeBody::from(outcome)).into_response())
        }
        Some(calls) => {
            let calls = batch_of(calls, &mut keys)?;
            let batch = state.executor.batch_of(agent, calls);
            let outcomes = state.executor.batch(&id, agent, ctx, batch).await;
            Ok(Json(BatchBody { outcomes: outcomes.into_iter().map(Into::into).collect() }).into_response())
        }
    }
}

pub(crate) fn ctx_of(value: Option<Value>) -> Result<Ctx, ApiError> {
    let ctx =
        Ctx::from_json(&value.unwrap_or(Value::Null)).map_err(|problems| ApiError::Ctx(problems.under("/ctx")))?;
    check_ctx(&ctx)?;
    Ok(ctx)
}

/// Bounds the context, wherever it came from.
pub(crate) fn check_ctx(ctx: &Ctx) -> Result<(), ApiError> {
    for field in CtxField::ALL {
        let text = ctx.get(field).unwrap_or_default();
        // A session is a part of keys, which databases bound.
        let most = if field == CtxField::ChatId { MAX_CHAT_ID } else { MAX_CTX };
        if text.len() > most {
            return Err(ApiError::Request(format!("ctx.{} is longer than {most} bytes", field.as_str())));
        }
    }
    if ctx.get(CtxField::ChatId).is_some_and(|chat| chat.starts_with("~agent/")) {
        return Err(ApiError::Request(
            "ctx.chat_id begins with ~agent/, which is the session of calls without one".to_owned(),
        ));
    }
    Ok(())
}

/// Whether a text can be the key of a call.
pub(crate) fn is_call_id(text: &str) -> bool {
    (1..=MAX_CALL_ID).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

fn request_of(keys: &mut Keys) -> Result<CallRequest, ApiError> {
    let tool = keys.text("tool")?.ok_or_else(|| ApiError::Request("a call needs a tool".to_owned()))?;
    if tool.len() > MAX_TOOL_NAME {
        return Err(ApiError::Request(format!("a tool's name is at most {MAX_TOOL_NAME} bytes")));
    }
    let call_id = keys.text("call_id")?;
    if call_id.as_deref().is_some_and(|id| !is_call_id(id)) {
        return Err(ApiError::Request(format!("a call_id is 1 to {MAX_CALL_ID} visible ASCII characters")));
    }
    let arguments = keys.take("arguments").unwrap_or_else(|| Value::Object(Map::new()));
    Ok(CallRequest { call_id, ..CallRequest::new(tool, arguments) })
}

fn batch_of(calls: Value, keys: &mut Keys) -> Result<Vec<CallRequest>, ApiError> {
    let wrong = |message: String| Err(ApiError::Request(message));
    if ["tool", "arguments", "call_id"].into_iter().any(|key| keys.take(key).is_some()) {
        return wrong("a body has either tool or calls".to_owned());
    }
    let Value::Array(calls) = calls else { return wrong("calls is a list of calls".to_owned()) };
    if calls.is_empty() || calls.len() > MAX_BATCH {
        return wrong(format!("a batch has 1 to {MAX_BATCH} calls, not {}", calls.len()));
    }
    let mut requests = Vec::with_capacity(calls.len());
    let mut ids = HashSet::new();
    for (i, call) in calls.into_iter().enumerate() {
        let at = |error: ApiError| ApiError::Request(format!("calls[{i}]: {error}"));
        let mut keys = Keys::of(call, &["tool", "arguments", "call_id"]).map_err(at)?;
        let request = request_of(&mut keys).map_err(at)?;
        if request.call_id.as_ref().is_some_and(|id| !ids.insert(id.clone())) {
            return wrong(format!("calls[{i}]: the call_id stands twice in this batch"));
        }
        requests.push(request);
    }
    Ok(requests)
}
