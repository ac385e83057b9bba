//! Turns as OpenAI's clients ask for them: `POST /v1/responses`, where the model is an agent's id.

mod body;
mod request;
mod stream;

use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolcrib_store::{TurnRow, TurnState};
use toolcrib_turn::{TurnEvent, TurnHandle, TurnOutcome};

use self::body::{Shown, response_of};
use self::request::ResponseRequest;
use self::stream::stream_of;
use crate::auth::{Access, Principal};
use crate::body::JsonBody;
use crate::extract::Path;
use crate::problem::ApiError;
use crate::state::ApiState;
use crate::turns::visible;

/// What stands before a turn's id in the id of a response.
const PREFIX: &str = "resp_";
/// How long a request is held whose turn waits for a person; then it is told so.
const HELD_PARKED: Duration = Duration::from_secs(30);
/// How long a request is held at all.
const HELD: Duration = Duration::from_secs(600);

/// An error in the envelope that OpenAI's clients read; it is problem JSON as well.
pub(crate) struct OpenAiError(ApiError);

impl<E: Into<ApiError>> From<E> for OpenAiError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        self.0.into_openai_response()
    }
}

/// Who asks, refused in the envelope of OpenAI's clients.
pub(crate) struct Asker(Principal);

impl<S: Send + Sync> FromRequestParts<S> for Asker {
    type Rejection = OpenAiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, OpenAiError> {
        Ok(Self(Principal::of(parts)?))
    }
}

/// Ask an agent as OpenAI's clients ask a model
///
/// `model` is the agent's id, `user` the session (or `previous_response_id`), `input` the message. With `stream`, OpenAI's own
/// events come, and among them Toolcrib's: of the type `keepalive`, which clients pass over, with what happened in `toolcrib`.
/// `ctx` is the turn context. A turn that waits
/// for a person answers with the status `in_progress`; read it again with its id.
#[utoipa::path(post, path = "/v1/responses", tag = "turns", security(("token" = [])),
    request_body(content = Object, description = "{model, input, user, stream, previous_response_id, background, metadata, ctx}"),
    responses((status = 200, body = Object, description = "A response object, or its events"),
        (status = 400, body = crate::problem::ProblemBody), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn create(
    State(state): State<ApiState>,
    Asker(principal): Asker,
    body: Result<JsonBody, ApiError>,
) -> Result<Response, OpenAiError> {
    principal.may(Access::Call)?;
    let request = ResponseRequest::read(body?.0)?;
    principal.may_use_agent(&request.agent)?;
    let session = match &request.previous {
        None => request.session.clone(),
        Some(id) => {
            let row = visible(&state, &principal, turn_id(id)).await?;
            if row.agent != request.agent {
                return Err(ApiError::Request(format!("the response {id} is of the agent {:?}", row.agent)).into());
            }
            if row.parent.is_some() {
                let message = format!("the response {id} is a subagent's; go on with its parent's");
                return Err(ApiError::Request(message).into());
            }
            Some(row.session)
        }
    };
    let snapshot = state.registry().snapshot();
    let missing = || ApiError::NotFound { what: "agent", name: request.agent.clone() };
    let agent = snapshot.agent(&request.agent).ok_or_else(missing)?;
    let mut turn = state.engine.begin(&request.agent, agent, request.message(session)).await?;
    let shown = Shown {
        id: format!("{PREFIX}{}", turn.id()),
        model: request.agent.clone(),
        user: request.session.clone(),
        previous: request.previous.clone(),
        session: turn.session().to_owned(),
        metadata: request.metadata.clone(),
        created_at: state.registry().store().clock().now_ms() / 1_000,
    };
    if request.background {
        return Ok(Json(response_of(&shown, &Progress::default())).into_response());
    }
    if request.stream {
        return Ok(stream_of(state, principal, turn, shown).into_response());
    }
    let progress = follow(&state, &mut turn).await?;
    Ok(Json(response_of(&shown, &progress)).into_response())
}

/// How far a response has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    pub(crate) outcome: Option<TurnOutcome>,
    pub(crate) approvals: Vec<String>,
    pub(crate) queued: bool,
}

async fn follow(state: &ApiState, turn: &mut TurnHandle) -> Result<Progress, ApiError> {
    let mut progress = Progress::default();
    let mut deadline = Instant::now() + HELD;
    loop {
        let event = tokio::select! {
            event = turn.next() => event?,
            () = tokio::time::sleep_until(deadline) => return Ok(progress),
            () = state.shutdown.cancelled() => return Ok(progress),
        };
        match event.as_deref() {
            None => return Ok(progress),
            Some(TurnEvent::Ended { outcome }) => {
                progress.outcome = Some((**outcome).clone());
                return Ok(progress);
            }
            Some(TurnEvent::Parked { approvals }) => {
                progress.approvals = approvals.clone();
                deadline = deadline.min(Instant::now() + HELD_PARKED);
            }
            Some(TurnEvent::Started { .. }) => {
                progress.approvals.clear();
                deadline = Instant::now() + HELD;
            }
            Some(_) => {}
        }
    }
}

/// Read a response
#[utoipa::path(get, path = "/v1/responses/{id}", tag = "turns", params(("id" = String, Path)), security(("token" = [])),
    responses((status = 200, body = Object), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn read(
    State(state): State<ApiState>,
    Asker(principal): Asker,
    Path(id): Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    principal.may(Access::ReadCall)?;
    let row = visible(&state, &principal, turn_id(&id)).await?;
    Ok(Json(of_row(&state, row).await?))
}

/// End the turn of a response
#[utoipa::path(post, path = "/v1/responses/{id}/cancel", tag = "turns", params(("id" = String, Path)), security(("token" = [])),
    responses((status = 200, body = Object), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn cancel(
    State(state): State<ApiState>,
    Asker(principal): Asker,
    Path(id): Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    principal.may(Access::Call)?;
    let id = turn_id(&id);
    visible(&state, &principal, id).await?;
    let row = state.engine.cancel(id).await?;
    let row = row.ok_or_else(|| ApiError::NotFound { what: "response", name: id.to_owned() })?;
    Ok(Json(of_row(&state, row).await?))
}

async fn of_row(state: &ApiState, row: TurnRow) -> Result<Value, ApiError> {
    let outcome = row.outcome.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let approvals = match row.state {
        TurnState::Parked => state.registry().store().approvals_of_turn(&row.id).await?,
        _ => Vec::new(),
    };
    let shown = Shown {
        id: format!("{PREFIX}{}", row.id),
        model: row.agent,
        user: None,
        previous: None,
        session: row.session,
        metadata: json!({}),
        created_at: row.created_at / 1_000,
    };
    Ok(response_of(&shown, &Progress { outcome, approvals, queued: row.state == TurnState::Queued }))
}

fn turn_id(id: &str) -> &str {
    id.strip_prefix(PREFIX).unwrap_or(id)
}
