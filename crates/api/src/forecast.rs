//! What will fail later although a definition is sound.

use toolcrib_definition::Definition;
use toolcrib_registry::{Agent, SYSTEM_TOOLS, Snapshot};

use crate::doctor::drift;
use crate::state::ApiState;

/// Warnings of a tool: a host that today's egress policy blocks, a secret that is not configured.
pub(crate) fn warnings_for(state: &ApiState, definition: &Definition) -> Vec<String> {
    let mut warnings = Vec::new();
    let name = &definition.name;
    if let Some(origin) = definition.request.url.literal_origin()
        && let Err(blocked) = state.executor.dispatch().policy().check_url(&origin)
    {
        let code = blocked.reason.code();
        let setting = match code {
            "egress.scheme" => "; the setting is egress.allow_http",
            "egress.private_address" => "; the setting is egress.allow_cidrs for this network, or egress.allow_private",
            "egress.loopback_address" => "; the setting is egress.allow_private",
            "egress.host_not_allowed" => "; the setting is egress.hosts",
            "egress.port" => "; the setting is egress.ports",
            _ => "",
        };
        warnings.push(format!("{name}: {blocked}{setting} [{code}]"));
    }
    let secrets = state.secrets();
    for secret in definition.secrets() {
        if secrets.secret(secret).is_none() {
            warnings.push(format!("{name}: {}, and calls will fail until it is", missing_secret(secret)));
        }
    }
    warnings
}

/// That a secret is not configured, and how to configure it.
pub(crate) fn missing_secret(name: &str) -> String {
    let variable = name.to_ascii_uppercase().replace('.', "_");
    format!("the secret {name:?} is not configured; set TOOLCRIB_SECRET_{variable}, or put a file into secrets.dir")
}

/// Warnings of an agent that was written: what doctor says of it.
pub(crate) fn warnings_of_agent(state: &ApiState, id: &str, agent: &Agent) -> Vec<String> {
    let snapshot = state.registry().snapshot();
    let (skills, providers) = (state.engine.skills().catalog(), state.engine.providers());
    let mut warnings = agent_warnings(&snapshot, agent);
    warnings.extend(drift::of_agent(id, agent, &snapshot, &skills, providers).into_iter().map(|drift| drift.message));
    warnings
}

/// Warnings of an agent: names that lead nowhere.
pub(crate) fn agent_warnings(snapshot: &Snapshot, agent: &Agent) -> Vec<String> {
    let mut warnings = Vec::new();
    for (list, names) in [
        ("tools_allow", agent.tools_allow().unwrap_or_default()),
        ("tools_deny", agent.tools_deny()),
        ("tools_deferred", agent.tools_deferred()),
        ("approvals_required", agent.approvals_required()),
    ] {
        for name in names {
            match snapshot.tool(name) {
                // A tool of the turn itself is in no catalog.
                None if SYSTEM_TOOLS.contains(&name.as_str()) => {}
                None => warnings.push(format!("{list} names {name:?}, and there is no such tool")),
                Some(tool) if list == "tools_deferred" && !agent.allows(tool) => {
                    warnings.push(format!("tools_deferred names {name:?}, which the agent is not allowed"));
                }
                Some(_) => {}
            }
        }
    }
    for group in agent.tools_allow_groups().into_iter().flatten() {
        if !snapshot.groups().any(|(known, _)| known == group) {
            warnings.push(format!("tools_allow_groups names {group:?}, and no tool is in that group"));
        }
    }
    warnings
}
