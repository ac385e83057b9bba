//! Looking at an MCP server, and taking over what it lists.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use toolcrib_definition::Definition;
use toolcrib_executor::EventKind;
use toolcrib_mcp_ingest::{Change, Endpoint, McpFailure, McpServer, Plan, ToolReport, keep_decisions, plan};
use toolcrib_registry::RegistryError;
use toolcrib_store::{Expect, McpServerRow, Revision, StoreError};
use utoipa::ToSchema;

use crate::forecast::warnings_for;
use crate::mcp_servers::{not_found, server_of};
use crate::problem::ApiError;
use crate::state::ApiState;

/// How often a look is made again because somebody wrote meanwhile.
const MAX_TRIES: usize = 4;
/// What the rows of a disabled server say.
const SERVER_DISABLED: &str = "its server is disabled";
/// How long a look at a server may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets one look at each server be under way at a time.
#[derive(Default)]
pub(crate) struct Looks(std::sync::Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Looks {
    /// Waits for the turn of a server.
    async fn turn(&self, server: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = match self.0.lock() {
            Ok(mut turns) => Arc::clone(turns.entry(server.to_owned()).or_default()),
            Err(_) => Arc::default(),
        };
        turn.lock_owned().await
    }
}

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

    /// The state without the definitions that wait, which may be long.
    pub(crate) fn summary(&self) -> Value {
        let pending: Vec<&String> = self.pending.keys().collect();
        serde_json::json!({
            "version": self.version, "looked_at": self.looked_at, "error": self.error, "tools": self.tools,
            "review": self.review, "pending": pending,
            "mark": (!self.pending.is_empty()).then(|| mark_of(&self.pending)),
        })
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
    /// The mark of these changes, to accept exactly them when they wait.
    mark: Option<String>,
    /// What will fail later.
    warnings: Vec<String>,
}

/// The rows of a server's tools, disabled ones too, each with its revision.
pub(crate) fn rows_of(state: &ApiState, server: &str) -> Vec<(Definition, Revision)> {
    let snapshot = state.registry().snapshot();
    let group = format!("mcp:{server}");
    let of_server = snapshot.tools().filter(|tool| tool.group() == Some(group.as_str()));
    of_server.filter_map(|tool| Some((tool.as_data()?.as_ref().clone(), tool.revision()?))).collect()
}

/// Lets the rows of a server be used, or not, as the server's own row says. Needs no look at the server.
pub(crate) async fn switch(state: &ApiState, server: &McpServer, actor: &str) -> Result<(), ApiError> {
    let mut changed = Vec::new();
    for (mut tool, revision) in rows_of(state, &server.name) {
        let Some(mcp) = &mut tool.mcp else { continue };
        let is_off = mcp.disabled.as_deref() == Some(SERVER_DISABLED);
        if server.enabled && is_off {
            mcp.disabled = None;
        } else if !server.enabled && mcp.disabled.is_none() {
            mcp.disabled = Some(SERVER_DISABLED.to_owned());
        } else {
            continue;
        }
        changed.push((tool, Expect::Revision(revision)));
    }
    state.registry().put_tools_expecting(&changed, actor).await?;
    Ok(())
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

/// Looks at a server and takes over what it lists, unless it is only to be shown or is held. What somebody
/// writes meanwhile is not lost: the look is made again over it.
pub(crate) async fn ingest(state: &ApiState, name: &str, dry_run: bool, actor: &str) -> Result<IngestBody, ApiError> {
    let _turn = state.looks.turn(name).await;
    let store = state.registry().store();
    for _ in 0..MAX_TRIES {
        let row = store.mcp_server(name).await?.ok_or_else(|| not_found(name))?;
        let server = server_of(&row)?;
        let (version, listed) = match look(state, &server).await {
            Ok(looked) => looked,
            Err(error) => {
                if !dry_run {
                    let _writing = state.ingesting.lock().await;
                    let row = store.mcp_server(name).await?.ok_or_else(|| not_found(name))?;
                    let looked_at = Some(store.clock().now_ms());
                    let failed = ServerState { looked_at, error: Some(error.to_string()), ..ServerState::of(&row) };
                    save(state, name, &failed).await?;
                }
                return Err(error);
            }
        };
        let rows = rows_of(state, name);
        let revisions: HashMap<String, Revision> =
            rows.iter().map(|(row, revision)| (row.name.to_string(), *revision)).collect();
        let is_first = rows.is_empty() && ServerState::of(&row).version.is_none();
        let rows = rows.into_iter().map(|(row, _)| row).collect();
        let plan = make_plan(state, &server, listed, rows).await?;
        let held = server.hold && !is_first && !plan.writes.is_empty();
        let body = body_of(state, &plan, name, version, dry_run, held);
        if dry_run {
            return Ok(body);
        }
        let _writing = state.ingesting.lock().await;
        let now = store.mcp_server(name).await?.ok_or_else(|| not_found(name))?;
        if now.revision != row.revision {
            continue;
        }
        let known = ServerState {
            version: Some(body.version.clone()),
            looked_at: Some(store.clock().now_ms()),
            error: None,
            tools: plan.reports().filter(|report| report.change != Change::Gone).count(),
            ..ServerState::of(&now)
        };
        match apply(state, name, &plan, &revisions, held, known, actor).await {
            Err(ApiError::Registry(RegistryError::Store(
                StoreError::StaleRevision { .. } | StoreError::Missing { .. },
            ))) => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(body),
        }
    }
    let message = format!("the rows of the MCP server {name} change all the time; try again in a moment");
    Err(ApiError::Upstream { code: "mcp.changing", message })
}

/// The definitions of a plan, by name.
fn pending_of(plan: &Plan) -> BTreeMap<String, Value> {
    plan.writes.iter().map(|(tool, _)| (tool.name.to_string(), tool.to_json())).collect()
}

/// A short text that is another one for any other changes.
fn mark_of(pending: &BTreeMap<String, Value>) -> String {
    let mut hash = Sha256::new();
    for (name, definition) in pending {
        hash.update(format!("{name}\n{definition}\n"));
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

async fn apply(
    state: &ApiState,
    name: &str,
    plan: &Plan,
    revisions: &HashMap<String, Revision>,
    held: bool,
    mut known: ServerState,
    actor: &str,
) -> Result<(), ApiError> {
    known.pending.clear();
    if held {
        known.pending = pending_of(plan);
        return save(state, name, &known).await;
    }
    // Before the write: afterwards every tool says the new thing already.
    let review = reviewed(state, plan);
    let expect = |tool: &Definition| match revisions.get(tool.name.as_str()) {
        Some(revision) => Expect::Revision(*revision),
        None => Expect::Absent,
    };
    let tools: Vec<_> = plan.writes.iter().map(|(tool, _)| (tool.clone(), expect(tool))).collect();
    state.registry().put_tools_expecting(&tools, actor).await?;
    known.review.extend(review);
    save(state, name, &known).await?;
    if !tools.is_empty() {
        let revision = state.registry().snapshot().revision().0;
        let data = || serde_json::json!({ "revision": revision, "mcp_server": name });
        state.executor.events().publish(EventKind::CatalogChanged, None, data);
    }
    Ok(())
}

fn body_of(state: &ApiState, plan: &Plan, name: &str, version: String, dry_run: bool, held: bool) -> IngestBody {
    let warnings = plan.writes.first().map(|(definition, _)| warnings_for(state, definition)).unwrap_or_default();
    IngestBody {
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
        review: reviewed(state, plan).into_keys().collect(),
        mark: held.then(|| mark_of(&pending_of(plan))),
        warnings,
    }
}

/// Takes over what waits, or the named part of it, and clears what was to be reviewed. What an operator
/// decided about a tool since then stays.
pub(crate) async fn accept(
    state: &ApiState,
    name: &str,
    tools: Option<Vec<String>>,
    mark: Option<String>,
    actor: &str,
) -> Result<Vec<String>, ApiError> {
    let _writing = state.ingesting.lock().await;
    let row = state.registry().store().mcp_server(name).await?.ok_or_else(|| not_found(name))?;
    let mut known = ServerState::of(&row);
    let names: BTreeSet<String> = match tools {
        None => known.pending.keys().chain(known.review.keys()).cloned().collect(),
        Some(names) => names.into_iter().collect(),
    };
    let waits = (!known.pending.is_empty()).then(|| mark_of(&known.pending));
    if mark != waits {
        // Nobody accepts what was not shown.
        return Err(ApiError::Mark { mark: waits });
    }
    let rows = rows_of(state, name);
    let mut writes = Vec::new();
    for tool in &names {
        let pending = known.pending.remove(tool);
        if known.review.remove(tool).is_none() && pending.is_none() {
            return Err(ApiError::NotFound { what: "waiting change of the tool", name: tool.clone() });
        }
        let Some(value) = pending else { continue };
        let mut definition = Definition::from_value(&value).map_err(ApiError::Definition)?;
        let expect = match rows.iter().find(|(row, _)| row.name == definition.name) {
            Some((row, revision)) => {
                keep_decisions(&mut definition, row);
                Expect::Revision(*revision)
            }
            // The name may have gone to another tool since.
            None => Expect::Absent,
        };
        writes.push((definition, expect));
    }
    state.registry().put_tools_expecting(&writes, actor).await?;
    save(state, name, &known).await?;
    Ok(names.into_iter().collect())
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
        |name: &str| snapshot.tool(name).is_some_and(|entry| snapshot.agents().any(|(_, agent)| agent.lists(entry)));
    let mut review = BTreeMap::new();
    for (definition, report) in &plan.writes {
        let matters =
            report.parts.iter().any(|part| matches!(*part, "description" | "schema" | "parameters" | "annotations"));
        let name = definition.name.as_str();
        if report.change == Change::Changed && matters && is_used(name) {
            review.insert(name.to_owned(), report.parts.iter().map(|part| (*part).to_owned()).collect());
        }
    }
    review
}
