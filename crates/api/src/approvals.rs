//! What people are asked about calls, and what they say.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_executor::{DecisionError, Say};
use toolcrib_store::{Approval, ApprovalFilter, ApprovalKind, ApprovalState, Decided};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Access, Principal};
use crate::body::{JsonBody, Keys};
use crate::calls::OutcomeBody;
use crate::extract::{Path, Query, state_named};
use crate::ledger::{WaitQuery, reason_of, stored};
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// Which approvals are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalQuery {
    /// `open`, `approved`, `denied`, `answered`, `expired` or `cancelled`; all when left out
    state: Option<String>,
    /// The `next` of the page before
    after: Option<String>,
    /// How many at the most, 1 to 500; 100 when left out
    limit: Option<u32>,
}

/// A part of the list of approvals, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApprovalList {
    approvals: Vec<ApprovalBody>,
    /// Give this as `after` to get the next part.
    next: Option<String>,
}

/// What a person is asked about a call.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApprovalBody {
    id: String,
    /// The call: `/v1/calls/{ledger_id}`.
    ledger_id: String,
    /// `approval` or `question`.
    kind: &'static str,
    /// `open`, `approved`, `denied`, `answered`, `expired` or `cancelled`.
    state: &'static str,
    session: String,
    agent: String,
    tool: String,
    /// Why it asks; for a question, the question.
    why: String,
    /// ms since 1970.
    created_at: i64,
    /// ms since 1970.
    expires_at: i64,
    /// ms since 1970.
    decided_at: Option<i64>,
    decided_by: Option<String>,
    reason: Option<String>,
    #[schema(value_type = Option<Object>)]
    answer: Option<Value>,
    /// Exactly what runs when it is approved, secrets as references. In the answer about one approval.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Value>,
    /// In the answer about one approval.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Value>,
    /// What the caller reads. In the answer about one approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeBody>,
}

impl From<&Approval> for ApprovalBody {
    fn from(approval: &Approval) -> Self {
        Self {
            id: approval.id.clone(),
            ledger_id: approval.ledger_id.clone(),
            kind: approval.kind.as_str(),
            state: approval.state.as_str(),
            session: approval.session.clone(),
            agent: approval.agent.clone(),
            tool: approval.tool.clone(),
            why: approval.why.clone(),
            created_at: approval.created_at,
            expires_at: approval.expires_at,
            decided_at: approval.decided_at,
            decided_by: approval.decided_by.clone(),
            reason: approval.reason.clone(),
            answer: approval.answer.as_deref().and_then(stored),
            request: None,
            arguments: None,
            outcome: None,
        }
    }
}

/// List approvals and questions, newest first
#[utoipa::path(get, path = "/v1/approvals", tag = "approvals", params(ApprovalQuery), security(("token" = [])),
    responses((status = 200, body = ApprovalList), (status = 400, body = ProblemBody), (status = 403, body = ProblemBody)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    principal: Principal,
    Query(query): Query<ApprovalQuery>,
) -> Result<Json<ApprovalList>, ApiError> {
    principal.may(Access::ReadTraces)?;
    let named = state_named(query.state.as_deref(), &ApprovalState::ALL, ApprovalState::as_str)?;
    let filter = ApprovalFilter { state: named, agents: principal.agents.clone() };
    let most = query.limit.unwrap_or(100).clamp(1, 500);
    let page = state.registry().store().approvals(&filter, query.after.as_deref(), most).await?;
    Ok(Json(ApprovalList { approvals: page.items.iter().map(ApprovalBody::from).collect(), next: page.next }))
}

/// Read an approval; with `wait`, when its call has ended or is in doubt
#[utoipa::path(get, path = "/v1/approvals/{id}", tag = "approvals", params(("id" = String, Path), WaitQuery),
    security(("token" = [])), responses((status = 200, body = ApprovalBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn read(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    Query(query): Query<WaitQuery>,
) -> Result<Json<ApprovalBody>, ApiError> {
    principal.may(Access::ReadCall)?;
    let approval = visible(&state, &principal, &id).await?;
    let body = whole(&state, &approval, query.duration()?).await?;
    Ok(Json(body))
}

/// Approve a call: it runs, exactly as it was asked about
#[utoipa::path(post, path = "/v1/approvals/{id}/approve", tag = "approvals", params(("id" = String, Path)),
    request_body(content = Object, description = "{reason}"), security(("token" = [])),
    responses((status = 200, body = ApprovalBody), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub(crate) async fn approve(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<ApprovalBody>, ApiError> {
    may_decide(&state, &principal, &id).await?;
    let reason = reason_of(&mut Keys::of(body, &["reason"])?)?;
    decide(&state, &principal, &id, Say::Approve, reason).await
}

/// Refuse a call, or to answer a question; the model reads the reason
#[utoipa::path(post, path = "/v1/approvals/{id}/deny", tag = "approvals", params(("id" = String, Path)),
    request_body(content = Object, description = "{reason}"), security(("token" = [])),
    responses((status = 200, body = ApprovalBody), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub(crate) async fn deny(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<ApprovalBody>, ApiError> {
    may_decide(&state, &principal, &id).await?;
    let reason = reason_of(&mut Keys::of(body, &["reason"])?)?;
    decide(&state, &principal, &id, Say::Deny, reason).await
}

/// Answer a question; the answer is the result of its call
///
/// A text is read as the number, or the true or false, that was asked for.
#[utoipa::path(post, path = "/v1/approvals/{id}/answer", tag = "approvals", params(("id" = String, Path)),
    request_body(content = Object, description = "{answer, reason}"), security(("token" = [])),
    responses((status = 200, body = ApprovalBody), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody),
        (status = 422, body = ProblemBody)))]
pub(crate) async fn answer(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<ApprovalBody>, ApiError> {
    may_decide(&state, &principal, &id).await?;
    let mut keys = Keys::of(body, &["answer", "reason"])?;
    let reason = reason_of(&mut keys)?;
    let answer = keys.take("answer").ok_or_else(|| ApiError::Request("the body needs an answer".to_owned()))?;
    let answer = typed(&state, &id, answer).await;
    decide(&state, &principal, &id, Say::Answer(answer), reason).await
}

/// An answer in the type that was asked for, as far as it is one: people type texts.
pub(crate) async fn typed(state: &ApiState, approval: &str, answer: Value) -> Value {
    let Value::String(text) = &answer else { return answer };
    let store = state.registry().store();
    let row = match store.approval(approval).await {
        Ok(Some(approval)) => store.ledger_row(&approval.ledger_id).await.ok().flatten(),
        _ => None,
    };
    let asked = row.and_then(|row| stored(&row.arguments)).unwrap_or_default();
    match asked.get("answer_type").and_then(Value::as_str) {
        Some("number" | "boolean") => stored(text.trim()).unwrap_or(answer),
        _ => answer,
    }
}

/// A link to decide about one approval.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LinkBody {
    url: String,
    /// Until when it is good, in ms since 1970.
    expires_at: i64,
}

/// Make a link by which somebody without a token decides about one approval
///
/// `{for}` names whom it is for; that is kept with the decision. Looking at the page decides nothing.
#[utoipa::path(post, path = "/v1/approvals/{id}/link", tag = "approvals", params(("id" = String, Path)),
    request_body(content = Object, description = "{for}"), security(("token" = [])),
    responses((status = 200, body = LinkBody), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub(crate) async fn link(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<LinkBody>, ApiError> {
    may_decide(&state, &principal, &id).await?;
    let whom = Keys::of(body, &["for"])?.text("for")?.unwrap_or_else(|| principal.name.clone());
    if whom.trim().is_empty() || whom.chars().count() > 100 || whom.chars().any(char::is_control) {
        return Err(ApiError::Request("for is a name of at most 100 characters".to_owned()));
    }
    let lacks = match state.people.public_url {
        None => "server.public_url is not set",
        Some(_) => "the secret approval_links is not, or too short",
    };
    let message = format!(
        "{lacks}: links need server.public_url and a key of at least 32 bytes in the secret approval_links \
         (TOOLCRIB_SECRET_APPROVAL_LINKS), in this process"
    );
    let missing = || ApiError::Conflict { code: "approval.no_links", message, retryable: false };
    let (url, expires_at) = state.link_to(&id, &whom).ok_or_else(missing)?;
    Ok(Json(LinkBody { url, expires_at }))
}

/// Who may not decide learns nothing of what a body should be.
async fn may_decide(state: &ApiState, principal: &Principal, id: &str) -> Result<(), ApiError> {
    principal.may(Access::Decide)?;
    visible(state, principal, id).await.map(drop)
}

async fn decide(
    state: &ApiState,
    principal: &Principal,
    id: &str,
    say: Say,
    reason: Option<String>,
) -> Result<Json<ApprovalBody>, ApiError> {
    let decided = state.executor.decide(id, say, &principal.name, reason.as_deref()).await;
    let approval = decision(id, decided)?;
    Ok(Json(whole(state, &approval, Duration::ZERO).await?))
}

/// The approval that a decision was taken on, or why it was not.
pub(crate) fn decision(id: &str, decided: Result<Decided, DecisionError>) -> Result<Approval, ApiError> {
    let conflict = |code, message| Err(ApiError::Conflict { code, message, retryable: false });
    match decided {
        Ok(Decided::Done(approval)) => Ok(*approval),
        Ok(Decided::TooLate(approval)) => match approval.state {
            ApprovalState::Open | ApprovalState::Expired => {
                let when = crate::time::shown(approval.expires_at);
                conflict("approval.expired", format!("nobody decided in time: it could be decided until {when}"))
            }
            state => {
                let who = approval.decided_by.as_deref().unwrap_or("somebody");
                conflict("approval.decided", format!("{who} was first: it is {} already", state.as_str()))
            }
        },
        Ok(Decided::WrongKind(ApprovalKind::Question)) => {
            conflict("approval.kind", "this is a question: answer it, or deny it".to_owned())
        }
        Ok(Decided::WrongKind(ApprovalKind::Approval)) => {
            conflict("approval.kind", "this asks for a yes or a no: approve it, or deny it".to_owned())
        }
        Ok(Decided::Missing) => Err(ApiError::NotFound { what: "approval", name: id.to_owned() }),
        Err(DecisionError::Store(error)) => Err(error.into()),
        Err(DecisionError::Answer(unfit)) => Err(ApiError::Unfit(unfit.to_string())),
    }
}

/// An approval that the token may know of.
async fn visible(state: &ApiState, principal: &Principal, id: &str) -> Result<Approval, ApiError> {
    let found = state.registry().store().approval(id).await?;
    let missing = || ApiError::NotFound { what: "approval", name: id.to_owned() };
    found.filter(|approval| principal.sees_agent(&approval.agent)).ok_or_else(missing)
}

async fn whole(state: &ApiState, approval: &Approval, wait: Duration) -> Result<ApprovalBody, ApiError> {
    let call = tokio::select! {
        call = state.executor.ledger_call(&approval.ledger_id, wait) => call?,
        () = state.shutdown.cancelled() => state.executor.ledger_call(&approval.ledger_id, Duration::ZERO).await?,
    };
    let Some(call) = call else { return Ok(ApprovalBody::from(approval)) };
    Ok(ApprovalBody {
        request: stored(&call.row.request),
        arguments: stored(&call.row.arguments),
        outcome: Some(call.outcome().into()),
        ..ApprovalBody::from(call.approval.as_ref().unwrap_or(approval))
    })
}
