//! Trying a tool: the exact request first, then, if wanted, the call.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use serde::Serialize;
use serde_json::{Map, Value};
use toolcrib_definition::{Ctx, RenderError};
use toolcrib_executor::{CallRequest, Preview, PreviewError, TRY_AGENT};
use toolcrib_registry::Agent;
use utoipa::ToSchema;

use crate::auth::{Access, Principal};
use crate::body::{JsonBody, Keys};
use crate::calls::{OutcomeBody, ctx_of};
use crate::extract::Path;
use crate::forecast::missing_secret;
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;
use crate::tools::not_found;

/// What a try shows.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TryBody {
    /// The exact request with its secrets masked; none for a code tool, or when there is an error.
    #[schema(value_type = Option<Object>)]
    request: Option<Preview>,
    /// Why there is no request, as the model would read it.
    error: Option<String>,
    /// What came of it, when it was sent.
    outcome: Option<OutcomeBody>,
}

/// Show the exact request of a call, and send it when `send` is true
#[utoipa::path(post, path = "/v1/tools/{name}/try", tag = "tools", params(("name" = String, Path)),
    request_body(content = Object, description = "{arguments, ctx, send, call_id}; nothing is sent unless send is true, and nothing twice under one call_id"),
    security(("token" = [])), responses((status = 200, body = TryBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn try_tool(
    State(state): State<ApiState>,
    principal: Principal,
    Path(name): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<TryBody>, ApiError> {
    principal.may(Access::WriteCatalog)?;
    let mut keys = Keys::of(body, &["arguments", "ctx", "send", "call_id"])?;
    let arguments = keys.take("arguments").unwrap_or_else(|| Value::Object(Map::new()));
    let ctx = ctx_of(keys.take("ctx"))?;
    let send = keys.flag("send")?.unwrap_or(false);
    let call_id = keys.text("call_id")?;
    let snapshot = state.registry().snapshot();
    let entry = snapshot.tool(&name).ok_or_else(|| not_found(&name))?;
    let preview = entry.as_data().map(|definition| {
        let policy = state.executor.dispatch().policy();
        Preview::of(definition, arguments.clone(), &ctx, state.secrets().as_ref(), policy)
    });
    let (request, error) = match preview {
        None => (None, None),
        Some(Ok(preview)) => (Some(preview), None),
        // The operator who tries is told the name; the model is not.
        Some(Err(PreviewError::Render(RenderError::MissingSecret { name }))) => (None, Some(missing_secret(&name))),
        Some(Err(error)) => (None, Some(error.to_string())),
    };
    let outcome = match (send, &error) {
        (true, None) => Some(call(&state, ctx, CallRequest { call_id, ..CallRequest::new(name, arguments) }).await),
        _ => None,
    };
    Ok(Json(TryBody { request, error, outcome }))
}

/// A try is made by nobody's agent: the operator may use every tool.
async fn call(state: &ApiState, ctx: Ctx, request: CallRequest) -> OutcomeBody {
    let agent = Arc::new(Agent::default());
    state.executor.call(TRY_AGENT, &agent, ctx, request).await.into()
}
