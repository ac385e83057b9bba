//! The agents that answer, as the models of OpenAI's clients.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::{Access, Principal};
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// The agents that answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelList {
    /// Always `list`.
    object: &'static str,
    data: Vec<ModelBody>,
}

/// An agent that answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelBody {
    /// The agent's id: the `model` of a request.
    id: String,
    /// Always `model`.
    object: &'static str,
    /// Always 0: agents are edited, not released.
    created: i64,
    /// Always `toolcrib`.
    owned_by: &'static str,
}

/// List the agents that `POST /v1/responses` takes as its `model`, as OpenAI's clients list models
///
/// Those that the token is good for and that have a model of their own to ask.
#[utoipa::path(get, path = "/v1/models", tag = "turns", security(("token" = [])),
    responses((status = 200, body = ModelList), (status = 403, body = ProblemBody)))]
pub(crate) async fn list(State(state): State<ApiState>, principal: Principal) -> Result<Json<ModelList>, ApiError> {
    principal.may(Access::Call)?;
    let snapshot = state.registry().snapshot();
    let answers = snapshot.agents().filter(|(id, agent)| agent.model().is_some() && principal.sees_agent(id));
    let model = |id: &str| ModelBody { id: id.to_owned(), object: "model", created: 0, owned_by: "toolcrib" };
    Ok(Json(ModelList { object: "list", data: answers.map(|(id, _)| model(id)).collect() }))
}
