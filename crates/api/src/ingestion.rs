//! Looking at an MCP server, and taking over what it lists.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use toolcrib_definition::Definition;
use toolcrib_executor::EventKind;
use toolcrib_mcp_ingest::{Change, Endpoint, McpFailure, McpServer, Plan, ToolReport, plan};
use toolcrib_store::McpServerRow;
use utoipa::ToSchema;

use crate::forecast::warnings_for;
use crate::mcp_servers::{not_found, server_of};
use crate::problem::ApiError;
use crate::state::ApiState;

/// How long a look at a server may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the last look at a server found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ServerState {
    /// The protocol version that is spoken.
    pub(crate) version: Option<String>,
    /// When it was last looked at, in ms since 1970.
    pub(crate) looked_at: Option<i64>,
    /// Why the last look failed, when it did.
    pub(crate) error: Option<String>,
    /// How many tools it lists.
    pub(crate) tools: usize,
    /// Tools whose description or schema changed while an agent may use them, with what changed.
    pub(crate) review: BTreeMap<String, Vec<String>>,
    /// Changes that wait until somebody accepts them: the definitions, by name.
    pub(crate) pending: BTreeMap<String, Value>,
}

impl ServerState {
    /// The state of a row; one that can't be read is none.
    pub(crate) fn of(row: &McpServerRow) -> Self {
        serde_json::from_str(&row.state).unwrap_or_default()
    }
}

/// What an ingestion did, or would do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IngestBody {
    server: String,
    /// The protocol version that was spoken.
    version: String,
    /// Whether nothing was written.
    dry_run: bool,
    /// Whether the changes wait until somebody accepts them.
    held: bool,
    added: usize,
    changed: usize,
    gone: usize,
    unchanged: usize,
    failed: usize,
    /// Each tool: what becomes of it, and what was done to its schema.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<ToolReport>,
    /// Tools that changed while an agent may use them: somebody should look.
    review: Vec<String>,
    /// What will fail later.
    warnings: Vec<String>,
}

/// The rows of a server's tools, disabled ones too.
pub(crate) fn rows_of(state: &ApiState, server: &str) -> Vec<Definition> {
    let snapshot = state.registry().snapshot();
    let group = format!("mcp:{server}");
    let of_server = snapshot.tools().filter(|tool| tool.group() == Some(group.as_str()));
    of_server.filter_map(|tool| tool.as_data().map(|definition| definition.as_ref().clone())).collect()
}

/// What will fail when the server is looked at.
pub(crate) fn forecast(state: &ApiState, server: &McpServer) -> Vec<String> {
    server.probe().map(|probe| warnings_for(state, &probe)).unwrap_or_default()
}

pub(crate) fn endpoint_of(state: &ApiState, server: &McpServer) -> Result<Endpoint, ApiError> {
    Endpoint::of_server(server, state.mcp.policy(), state.secrets().as_ref())
        .map_err(|error| failed(&McpFailure::before(error)))
}

pub(crate) fn failed(failure: &McpFailure) -> ApiError {
    ApiError::Upstream { code: failure.error.code(), message: failure.error.to_string() }
}

/// Looks at a server and takes over what it lists, unless it is only to be shown or is held.
pub(crate) async fn ingest(state: &ApiState, name: &str, dry_run: bool, actor: &str) -> Result<IngestBody, ApiError> {
    let row = state.registry().store().mcp_server(name).await?.ok_or_else(|| not_found(name))?;
    let server = server_of(&row)?;
    let looked = look(state, &server).await;
    // The row is read again: a look takes its time, and what was accepted meanwhile stays accepted.
    let _one_at_a_time = state.ingesting.lock().await;
    let row = state.registry().store().mcp_server(name).await?.ok_or_else(|| not_found(name))?;
    let mut known = ServerState::of(&row);
    known.looked_at = Some(state.registry().store().clock().now_ms());
    let (version, listed) = match looked {
        Ok(looked) => looked,
        Err(error) => {
            if !dry_run {
                known.error = Some(error.to_string());
                save(state, name, &known).await?;
            }
            return Err(error);
        }
    };
    let rows = rows_of(state, name);
    let is_first = rows.is_empty();
    let plan = make_plan(state, &server, listed, rows).await?;
    let held = server.hold && !is_first && !plan.writes.is_empty();
    let review = reviewed(state, &plan);
    let warnings = plan.writes.first().map(|(definition, _)| warnings_for(state, definition)).unwrap_or_default();
    if !dry_run {
        known.version = Some(version.clone());
        known.error = None;
        known.tools = plan.reports().filter(|report| report.change != Change::Gone).count();
        known.pending.clear();
        if held {
            let pending = plan.writes.iter().map(|(tool, _)| (tool.name.to_string(), tool.to_json()));
            known.pending = pending.collect();
        } else {
            let tools: Vec<Definition> = plan.writes.iter().map(|(definition, _)| definition.clone()).collect();
            state.registry().put_tools(&tools, actor).await?;
            known.review.extend(review.clone());
        }
        save(state, name, &known).await?;
        if !plan.writes.is_empty() && !held {
            let revision = state.registry().snapshot().revision().0;
            let data = || serde_json::json!({ "revision": revision, "mcp_server": name });
            state.executor.events().publish(EventKind::CatalogChanged, None, data);
        }
    }
    Ok(IngestBody {
        server: name.to_owned(),
        version,
        dry_run,
        held,
        added: plan.count(Change::Added),
        changed: plan.count(Change::Changed),
        gone: plan.count(Change::Gone),
        unchanged: plan.count(Change::Unchanged),
        failed: plan.count(Change::Failed),
        tools: plan.reports().cloned().collect(),
        review: review.into_keys().collect(),
        warnings,
    })
}

/// Takes over what waits, or the named part of it, and clears what was to be reviewed.
pub(crate) async fn accept(
    state: &ApiState,
    name: &str,
    tools: Option<Vec<String>>,
    actor: &str,
) -> Result<Vec<String>, ApiError> {
    let _one_at_a_time = state.ingesting.lock().await;
    let row = state.registry().store().mcp_server(name).await?.ok_or_else(|| not_found(name))?;
    let mut known = ServerState::of(&row);
    let names: Vec<String> = match tools {
        None => known.pending.keys().chain(known.review.keys()).cloned().collect(),
        Some(names) => names,
    };
    let mut accepted = Vec::new();
    let mut definitions = Vec::new();
    for tool in names {
        let pending = known.pending.remove(&tool);
        if known.review.remove(&tool).is_none() && pending.is_none() {
            return Err(ApiError::NotFound { what: "waiting change of the tool", name: tool });
        }
        if let Some(value) = pending {
            definitions.push(Definition::from_value(&value).map_err(ApiError::Definition)?);
        }
        accepted.push(tool);
    }
    state.registry().put_tools(&definitions, actor).await?;
    save(state, name, &known).await?;
    accepted.sort();
    accepted.dedup();
    Ok(accepted)
}

async fn save(state: &ApiState, name: &str, known: &ServerState) -> Result<(), ApiError> {
    let text = serde_json::to_string(known).map_err(|_| ApiError::Internal)?;
    state.registry().store().set_mcp_state(name, &text).await?;
    Ok(())
}

async fn look(state: &ApiState, server: &McpServer) -> Result<(String, Vec<Value>), ApiError> {
    let endpoint = endpoint_of(state, server)?;
    let deadline = Instant::now() + PATIENCE;
    let version = state.mcp.version(&endpoint, deadline).await.map_err(|failure| failed(&failure))?;
    let tools = state.mcp.tools(&endpoint, deadline).await.map_err(|failure| failed(&failure))?;
    Ok((version, tools))
}

/// Lowering a long list takes a while, so it is done away from the threads that serve others.
async fn make_plan(
    state: &ApiState,
    server: &McpServer,
    listed: Vec<Value>,
    rows: Vec<Definition>,
) -> Result<Plan, ApiError> {
    let (snapshot, registry) = (state.registry().snapshot(), Arc::clone(state.registry()));
    let server = server.clone();
    tokio::task::spawn_blocking(move || {
        let own = |name: &str| rows.iter().any(|row| row.name.as_str() == name);
        let taken = |name: &str| registry.is_code(name) || (snapshot.tool(name).is_some() && !own(name));
        plan(&server, &listed, &rows, &taken)
    })
    .await
    .map_err(|_| ApiError::Internal)
}

/// Tools that changed what a model reads or may send, while an agent may use them.
fn reviewed(state: &ApiState, plan: &Plan) -> BTreeMap<String, Vec<String>> {
    let snapshot = state.registry().snapshot();
    let is_used =
        |name: &str| snapshot.tool(name).is_some_and(|entry| snapshot.agents().any(|(_, agent)| agent.allows(entry)));
    let mut review = BTreeMap::new();
    for (definition, report) in &plan.writes {
        let matters = report.parts.iter().any(|part| matches!(*part, "description" | "schema" | "parameters"));
        let name = definition.name.as_str();
        if report.change == Change::Changed && matters && is_used(name) {
            review.insert(name.to_owned(), report.parts.iter().map(|part| (*part).to_owned()).collect());
        }
    }
    review
}
