//! The tools of an agent, in the format of its provider.

use axum::Json;
use axum::extract::State;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_definition::{LeftOut, ProviderFormat, ToolList};
use utoipa::{IntoParams, ToSchema};

use crate::agents::not_found;
use crate::auth::{Access, Principal};
use crate::extract::{Path, Query};
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// Which format is wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct FormatQuery {
    /// openai, openai-strict, openai-responses, openai-responses-strict, anthropic, gemini, gemini-parameters,
    /// bedrock or mcp; openai when left out
    format: Option<String>,
    /// Whether tools that are not shown at first are among them; false when left out
    deferred: Option<bool>,
}

/// The tools of an agent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentTools {
    agent: String,
    format: &'static str,
    /// The revision of the catalog that this shows.
    revision: i64,
    /// The value of the provider's own `tools` (for Bedrock, of `toolConfig.tools`).
    #[schema(value_type = Vec<Object>)]
    tools: Value,
    /// Tools that the provider would refuse, and perhaps the whole list with them; each with the reason.
    #[schema(value_type = Vec<Object>)]
    left_out: Vec<LeftOut>,
    /// Names of tools that the agent may use and is not shown at first.
    deferred: Vec<String>,
}

/// List the tools of an agent as its provider takes them
#[utoipa::path(get, path = "/v1/agents/{id}/tools", tag = "agents", params(("id" = String, Path), FormatQuery),
    security(("token" = [])),
    responses((status = 200, body = AgentTools), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    Query(query): Query<FormatQuery>,
) -> Result<Json<AgentTools>, ApiError> {
    principal.may(Access::ListAgentTools)?;
    principal.may_use_agent(&id)?;
    let format = match query.format.as_deref() {
        None => ProviderFormat::OpenAiChat,
        Some(name) => ProviderFormat::named(name).ok_or_else(|| {
            let names = ProviderFormat::ALL.map(ProviderFormat::as_str).join(", ");
            ApiError::Request(format!("there is no format {name:?}; the formats are {names}"))
        })?,
    };
    let all = query.deferred.unwrap_or(false);
    let snapshot = state.registry().snapshot();
    let agent = snapshot.agent(&id).ok_or_else(|| not_found(&id))?;
    let (offered, deferred): (Vec<_>, Vec<_>) =
        snapshot.allowed(agent).into_iter().partition(|tool| all || agent.offers(tool));
    let ToolList { tools, left_out } = format.tools(offered.into_iter().filter_map(|tool| tool.view()));
    Ok(Json(AgentTools {
        agent: id,
        format: format.as_str(),
        revision: snapshot.revision().0,
        tools,
        left_out,
        deferred: deferred.into_iter().map(|tool| tool.name().to_owned()).collect(),
    }))
}
