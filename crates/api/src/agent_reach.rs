//! What an agent may use of the whole catalog, and why.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolcrib_registry::{Agent, Entry};
use utoipa::{IntoParams, ToSchema};

use crate::agents::not_found;
use crate::auth::{Access, Principal};
use crate::catalog_page::{CatalogPage, Wanted};
use crate::extract::{Path, Query};
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// Which tools are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReachQuery {
    /// Words to search for; the best come first, and there is no next page
    q: Option<String>,
    /// Only tools that the agent may use, or only those that it may not
    may: Option<bool>,
    /// The `next` of the page before
    after: Option<String>,
    /// How many at the most, 1 to 500; 100 when left out
    limit: Option<u32>,
}

/// Tools, and whether an agent may use them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReachList {
    agent: String,
    tools: Vec<ReachBody>,
    /// How many it may use.
    reached: usize,
    /// How many there are in all.
    total: usize,
    /// Give this as `after` to get the next part.
    next: Option<String>,
}

/// Whether an agent may use a tool.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReachBody {
    name: String,
    group: Option<String>,
    may: bool,
    /// Whether it is not shown at first.
    deferred: bool,
    /// Why, in words.
    why: String,
}

fn body_of(agent: &Agent, tool: &Entry) -> ReachBody {
    let reach = agent.reach(tool);
    ReachBody {
        name: tool.name().to_owned(),
        group: tool.group().map(str::to_owned),
        may: reach.is_in(),
        deferred: reach.is_in() && !agent.offers(tool),
        why: reach.to_string(),
    }
}

/// List tools with whether an agent may use them, and why
#[utoipa::path(get, path = "/v1/agents/{id}/reach", tag = "agents", params(("id" = String, Path), ReachQuery),
    security(("token" = [])), responses((status = 200, body = ReachList), (status = 404, body = ProblemBody)))]
pub(crate) async fn list(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
    Query(query): Query<ReachQuery>,
) -> Result<Json<ReachList>, ApiError> {
    principal.may(Access::ReadAgents)?;
    principal.may_use_agent(&id)?;
    let most = query.limit.unwrap_or(100).clamp(1, 500) as usize;
    let snapshot = state.registry().snapshot();
    let agent = snapshot.agent(&id).ok_or_else(|| not_found(&id))?;
    let fits = |tool: &Entry| query.may.is_none_or(|may| agent.allows(tool) == may);
    let (total, reached) = (snapshot.tool_count(), snapshot.allowed(agent).len());
    let wanted = Wanted { words: query.q.as_deref(), sort: None, after: query.after.as_deref(), most };
    let page = CatalogPage::read(state.registry(), &snapshot, &wanted, fits)?;
    let tools = page.tools.into_iter().map(|tool| body_of(agent, tool)).collect();
    Ok(Json(ReachList { agent: id, tools, reached, total, next: page.next }))
}
