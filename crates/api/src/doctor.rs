//! What is broken, each with the way to mend it.

pub(crate) mod drift;

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::{Access, Principal};
use crate::forecast::{agent_warnings, missing_secret, warnings_for};
use crate::ingestion::ServerState;
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;
use crate::traces::FLUSH;

/// How many tools are looked at for warnings; a catalog that is larger says so.
const MAX_TOOLS: usize = 2_000;
/// How long a call may be approved without being made before it is said, in ms.
const LEFT_READY: i64 = 10_000;
/// How far back blocked calls are looked for, in ms: one day.
const BLOCKS_SINCE: i64 = 24 * 3600 * 1000;

/// The codes that only doctor gives, with what they mean, for the reference.
pub const DOCTOR_CODES: &[(&str, &str)] = &[
    ("tool.broken_row", "A stored tool no longer validates; it is left out until it is written anew."),
    ("agent.broken_row", "A stored agent no longer validates; it is left out until it is written anew."),
    ("skill.broken_row", "A stored skill no longer validates; it is left out until it is written anew."),
    ("tool.shadowed", "A stored tool has the name of one that is compiled in, which wins."),
    ("tool.forecast", "Calls of the tool will fail: the egress policy blocks its host, or a secret is not configured."),
    ("tool.unreachable", "No agent may use the tool."),
    ("agent.names", "A list of the agent names a tool or group that is not there, or not its own."),
    ("agent.prompt_names_tool", "The instructions name a tool that the agent may not use."),
    ("agent.prompt_names_skill", "The instructions name a skill that the agent may not use."),
    ("agent.skills", "The agent's skills name one that is not there."),
    ("agent.skills_eager", "The agent's eager skills name one that is not there, or that it may not use."),
    ("agent.companion", "A skill of the agent has a companion that the agent may not use."),
    ("agent.provider", "The agent asks a provider that is not configured."),
    ("agent.no_model", "The agent has instructions, and no model to read them."),
    ("skill.eager", "A skill's frontmatter says eager, which only an agent can."),
    ("skill.names_skill", "A skill's text names another skill that is no companion of it."),
    ("skill.names_agent", "A shared skill's text names an agent that has it."),
    ("skill.companion", "A skill has a companion that is not there."),
    ("call.no_server", "Calls were approved, and no server runs that would make them."),
    ("provider.secret", "The key of a provider is not configured."),
    ("provider.failing", "The last requests to a provider failed."),
    ("doctor.partial", "The catalog is larger than doctor looks at."),
    ("traces.lost", "Traces could not be kept."),
];

/// What doctor found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DoctorBody {
    /// Whether there is no finding of severity `error`.
    healthy: bool,
    tools: usize,
    revision: i64,
    findings: Vec<Finding>,
    /// Hosts that failed lately.
    breakers: Vec<BreakerBody>,
}

/// Something that is wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Finding {
    /// `error` or `warning`.
    severity: &'static str,
    code: String,
    /// What it concerns.
    subject: String,
    /// What is wrong, and how to mend it.
    message: String,
}

/// A host that failed lately.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BreakerBody {
    host: String,
    /// `closed`, `open` or `half_open`.
    state: &'static str,
    failures: u32,
}

/// Say what is broken, and how to mend it
#[utoipa::path(get, path = "/v1/doctor", tag = "operations", security(("token" = [])),
    responses((status = 200, body = DoctorBody), (status = 403, body = ProblemBody)))]
pub(crate) async fn examine(State(state): State<ApiState>, principal: Principal) -> Result<Json<DoctorBody>, ApiError> {
    principal.may(Access::Observe)?;
    let snapshot = state.registry().snapshot();
    let mut findings = Vec::new();
    let mut find = |severity, code: &str, subject: &str, message: String| {
        findings.push(Finding { severity, code: code.to_owned(), subject: subject.to_owned(), message });
    };
    for (name, row) in snapshot.broken() {
        let message = format!("the stored tool no longer validates and is left out: {}. Write it anew", row.problems);
        find("error", "tool.broken_row", name, message);
    }
    for (id, row) in snapshot.broken_agents() {
        let message = format!("the stored agent no longer validates and is left out: {}. Write it anew", row.problems);
        find("error", "agent.broken_row", id, message);
    }
    let tokens = state.tokens.unreadable();
    for row in snapshot.unreadable().chain(tokens.iter().map(String::as_str)) {
        find("error", "store.bad_row", "database", format!("{row}; it is left out. Mend the row, or delete it"));
    }
    for name in snapshot.shadowed() {
        let message = "a tool compiled into the program has this name and wins; delete the stored one".to_owned();
        find("warning", "tool.shadowed", name, message);
    }
    for (id, agent) in snapshot.agents() {
        for warning in agent_warnings(&snapshot, agent) {
            find("warning", "agent.names", id, warning);
        }
    }
    let skills = state.engine.skills();
    for broken in skills.broken() {
        let message =
            format!("the stored skill no longer validates and is left out: {}. Write it anew", broken.problems);
        find("error", "skill.broken_row", &broken.name, message);
    }
    for row in skills.unreadable() {
        find("error", "store.bad_row", "database", format!("{row}; it is left out. Mend the row, or delete it"));
    }
    let providers = state.engine.providers();
    for drift::Drift { severity, code, subject, message } in
        drift::all(&snapshot, &skills.catalog(), providers, MAX_TOOLS)
    {
        find(severity, code, &subject, message);
    }
    let agents = || snapshot.agents().map(|(_, agent)| agent);
    let first: HashSet<&str> = agents().filter_map(|agent| Some(agent.model()?.provider.as_str())).collect();
    let fallback: HashSet<&str> =
        agents().flat_map(|agent| agent.fallback_models()).map(|model| model.provider.as_str()).collect();
    for (provider, secret) in providers.keys() {
        if state.secrets().secret(secret).is_some() {
            continue;
        }
        // A provider that no agent asks may have no key.
        if first.contains(provider) {
            find("error", "provider.secret", provider, missing_secret(secret));
        } else if fallback.contains(provider) {
            find("warning", "provider.secret", provider, missing_secret(secret));
        }
    }
    for breaker in providers.breakers() {
        let message = format!("the last {} request(s) to the provider failed; the log says why", breaker.failures);
        find("warning", "provider.failing", &breaker.host, message);
    }
    for tool in snapshot.tools().take(MAX_TOOLS) {
        for warning in tool.as_data().map(|definition| warnings_for(&state, definition)).unwrap_or_default() {
            find("warning", "tool.forecast", tool.name(), warning);
        }
    }
    if snapshot.tool_count() > MAX_TOOLS {
        let message = format!("only the first {MAX_TOOLS} tools were looked at for warnings");
        find("warning", "doctor.partial", "catalog", message);
    }
    let store = state.registry().store();
    for row in store.mcp_servers().await? {
        let known = ServerState::of(&row);
        if let Some(error) = known.error {
            find("warning", "mcp.unreachable", &row.name, format!("the last look at the MCP server failed: {error}"));
        }
        if !known.pending.is_empty() {
            let count = known.pending.len();
            let message = format!(
                "{count} change(s) wait; see them with `toolcrib mcp diff {0}`, which names the mark to accept them with",
                row.name
            );
            find("warning", "mcp.pending", &row.name, message);
        }
        for (tool, parts) in known.review {
            let parts = parts.join(", ");
            let message = format!(
                "its server changed it ({parts}) while an agent may use it; look at it, then `toolcrib mcp accept {} {tool}`",
                row.name
            );
            find("warning", "mcp.review", &tool, message);
        }
    }
    state.executor.recorder().flush(FLUSH).await;
    for (tool, code, count) in store.blocked_calls(store.clock().now_ms() - BLOCKS_SINCE).await? {
        let message = format!("the egress policy blocked {count} call(s) of the last day; the traces say what and why");
        find("warning", &code, &tool, message);
    }
    for (code, count, message) in [
        (
            "call.in_doubt",
            store.count_in_doubt().await?,
            "call(s) are in doubt; `toolcrib calls list --state in_doubt`",
        ),
        (
            "call.no_server",
            store.count_left_ready(LEFT_READY).await?,
            "approved call(s) wait for a server that makes them; start `toolcrib serve` on this database",
        ),
        ("call.approval", store.count_open().await?, "call(s) wait for a person; `toolcrib approvals list`"),
    ] {
        if count > 0 {
            find("warning", code, "ledger", format!("{count} {message}"));
        }
    }
    for (name, what) in state.people.missing_secrets(state.secrets().as_ref()) {
        find("warning", "approval.secret", &name, format!("{what}: {}", missing_secret(&name)));
    }
    let lost = state.executor.metrics().traces_lost();
    if lost > 0 {
        find("error", "traces.lost", "traces", format!("{lost} trace(s) could not be kept since the start"));
    }
    let breakers = state.executor.dispatch().breakers();
    for breaker in &breakers {
        let paused = if breaker.state.as_str() == "closed" { "" } else { "; calls to the host are paused" };
        let message = format!("the last {} call(s) failed{paused}; the traces say why", breaker.failures);
        find("warning", if paused.is_empty() { "upstream.failing" } else { "call.paused" }, &breaker.host, message);
    }
    let breakers = breakers
        .into_iter()
        .map(|breaker| BreakerBody { host: breaker.host, state: breaker.state.as_str(), failures: breaker.failures })
        .collect();
    Ok(Json(DoctorBody {
        healthy: findings.iter().all(|finding| finding.severity != "error"),
        tools: snapshot.tool_count(),
        revision: snapshot.revision().0,
        findings,
        breakers,
    }))
}
