//! What no longer fits together: texts that name what is not theirs, lists that name what is not there, tools that nobody
//! can reach.
//!
//! Only what can be decided mechanically is said. A name counts as mentioned when it stands in backticks, or, when it could
//! be no ordinary word (it holds `_` or `-`), as a word of its own.

use std::collections::BTreeSet;

use toolcrib_registry::{Agent, SkillsEager, Snapshot};
use toolcrib_skills::{ScopedSkill, SkillCatalog};
use toolcrib_store::SHARED;
use toolcrib_turn::Providers;

/// Something that drifted.
pub(crate) struct Drift {
    /// `error` when it keeps something from working at all, else `warning`.
    pub(crate) severity: &'static str,
    pub(crate) code: &'static str,
    pub(crate) subject: String,
    pub(crate) message: String,
}

/// All that drifted. At most `most_tools` tools are looked at.
pub(super) fn all(snapshot: &Snapshot, skills: &SkillCatalog, providers: &Providers, most_tools: usize) -> Vec<Drift> {
    let mut found = Vec::new();
    for (id, agent) in snapshot.agents() {
        found.extend(of_agent(id, agent, snapshot, skills, providers));
    }
    for scoped in skills.iter() {
        of_skill(scoped, snapshot, skills, &mut found);
    }
    unreachable(snapshot, most_tools, &mut found);
    found
}

/// What of an agent does not fit.
pub(crate) fn of_agent(
    id: &str,
    agent: &Agent,
    snapshot: &Snapshot,
    skills: &SkillCatalog,
    providers: &Providers,
) -> Vec<Drift> {
    let mut found = Vec::new();
    let mut note = |severity, code, message: String| {
        found.push(Drift { severity, code, subject: id.to_owned(), message });
    };
    let mut add = |code, message| note("warning", code, message);
    let mentioned = mentions(agent.instructions().unwrap_or_default());
    for name in &mentioned {
        if snapshot.tool(name).is_some_and(|tool| !agent.allows(tool)) {
            let message = format!(
                "the instructions name the tool {name}, which the agent may not use; allow it, or leave it out"
            );
            add("agent.prompt_names_tool", message);
        }
        if skills.resolve(id, name).is_some() && !agent.may_load(name) {
            let message = format!(
                "the instructions name the skill {name}, which the agent may not use; allow it, or leave it out"
            );
            add("agent.prompt_names_skill", message);
        }
    }
    for name in agent.skills().unwrap_or_default() {
        if skills.resolve(id, name).is_none() {
            add("agent.skills", format!("skills names {name:?}, and there is no such skill"));
        }
    }
    if let SkillsEager::Names(names) = agent.skills_eager() {
        for name in names.iter().filter(|name| !agent.may_load(name)) {
            add("agent.skills_eager", format!("skills_eager names {name:?}, which the agent is not allowed"));
        }
        for name in names.iter().filter(|name| agent.may_load(name) && skills.resolve(id, name).is_none()) {
            add("agent.skills_eager", format!("skills_eager names {name:?}, and there is no such skill"));
        }
    }
    // An agent that is not restricted has every companion, so only lists can leave one out.
    for name in agent.skills().unwrap_or_default() {
        for companion in skills.resolve(id, name).map(|found| found.skill.companions()).unwrap_or_default() {
            if !agent.may_load(companion) {
                let message = format!("the skill {name} has the companion {companion}, which the agent is not allowed");
                add("agent.companion", message);
            }
        }
    }
    if agent.instructions().is_some() && agent.model().is_none() {
        let message =
            "it has instructions, and no provider and model that would read them; write both into its profile";
        add("agent.no_model", message.to_owned());
    }
    let first = agent.model().into_iter().map(|model| ("error", model));
    for (severity, model) in first.chain(agent.fallback_models().iter().map(|model| ("warning", model))) {
        if !providers.names().any(|name| name == model.provider) {
            let message = format!(
                "it asks the provider {:?}, which is not configured; write [providers.{0}] into the configuration",
                model.provider
            );
            note(severity, "agent.provider", message);
        }
    }
    found
}

fn of_skill(scoped: ScopedSkill<'_>, snapshot: &Snapshot, skills: &SkillCatalog, found: &mut Vec<Drift>) {
    let (scope, skill) = (scoped.scope, scoped.skill);
    let subject = if scope == SHARED { skill.name().to_owned() } else { format!("{scope}/{}", skill.name()) };
    let mut add =
        |code, message: String| found.push(Drift { severity: "warning", code, subject: subject.clone(), message });
    if skill.says_eager() {
        let message = "its frontmatter says eager, which only an agent can (skills_eager); leave it out".to_owned();
        add("skill.eager", message);
    }
    let mentioned = mentions(skill.body());
    for name in &mentioned {
        let is_other = name != skill.name() && !skill.companions().contains(name);
        if is_other && skills.resolve(scope, name).is_some() {
            let message =
                format!("its text names the skill {name}, which is no companion of it; declare it, or leave it out");
            add("skill.names_skill", message);
        }
        let holds = |agent: &Agent| agent.may_load(skill.name());
        if scope == SHARED && snapshot.agent(name).is_some_and(|agent| holds(agent)) {
            let message = format!(
                "it is shared, and its text names {name}, one of the agents that have it; make it that agent's own, or leave the name out"
            );
            add("skill.names_agent", message);
        }
    }
    for companion in skill.companions().iter().filter(|name| skills.resolve(scope, name).is_none()) {
        add("skill.companion", format!("it has the companion {companion:?}, and there is no such skill"));
    }
}

/// Tools that no agent may use.
fn unreachable(snapshot: &Snapshot, most: usize, found: &mut Vec<Drift>) {
    let agents: Vec<_> = snapshot.agents().map(|(_, agent)| agent).collect();
    if agents.is_empty() {
        return;
    }
    let data = snapshot.tools().take(most).filter(|tool| tool.as_data().is_some() && tool.disabled().is_none());
    for tool in data.filter(|tool| agents.iter().all(|agent| !agent.allows(tool))) {
        let message = "no agent may use it; allow it to one, or delete it".to_owned();
        let subject = tool.name().to_owned();
        found.push(Drift { severity: "warning", code: "tool.unreachable", subject, message });
    }
}

/// The names that a text mentions.
fn mentions(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut found = BTreeSet::new();
    let mut quoted = text.split('`');
    quoted.next();
    // Every second piece stands between backticks.
    while let Some(inside) = quoted.next() {
        let name = inside.trim();
        if !name.is_empty() && name.chars().all(is_name) {
            found.insert(name.to_owned());
        }
        if quoted.next().is_none() {
            break;
        }
    }
    for word in text.split(|c: char| !is_name(c)) {
        let word = word.trim_matches(['.', '-']);
        if word.contains(['_', '-']) && word.chars().next().is_some_and(|c| c.is_ascii_alphanumeric()) {
            found.insert(word.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_mentions() {
        for (text, expected) in [
            ("Use `refunds`, then find_order.", &["find_order", "refunds"][..]),
            ("See tone-of-voice for the tone.", &["tone-of-voice"]),
            ("A refund is a refund; well-known things", &["well-known"]),
            ("my_find_order_2 is not find_order", &["find_order", "my_find_order_2"]),
            ("an `open quote and refunds", &[]),
            ("`not a name` and `x`", &["x"]),
            ("- a list\n-- no name --", &[]),
        ] {
            let found: Vec<String> = mentions(text).into_iter().collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
