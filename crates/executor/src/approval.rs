//! Whether a person is asked about a call.

use serde_json::{Map, Value};
use toolcrib_definition::{Approval, Ctx, EffectMode, RuleAnswer, ToolFacts};
use toolcrib_registry::{Agent, Entry};
use toolcrib_store::Ask;

/// Why a call is refused by its tool's own rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);

/// Whether calls of a tool may become rows of the ledger: they may change something, or a person may be asked about them.
/// Any other call leaves nothing behind, and may be made again.
pub fn may_be_ledgered(entry: &Entry, agent: &Agent) -> bool {
    entry.effect() != EffectMode::Idempotent
        || entry.as_code().is_some_and(|tool| tool.asks_a_person())
        || entry.as_data().is_some_and(|definition| definition.approval != Approval::Never)
        || is_required(entry, agent)
}

fn is_required(entry: &Entry, agent: &Agent) -> bool {
    agent.approvals_required().iter().any(|name| name == entry.name())
}

/// What the tool's rule and the agent's say together: the stricter wins.
pub(crate) fn ask_about(
    entry: &Entry,
    agent_id: &str,
    agent: &Agent,
    arguments: &Map<String, Value>,
    ctx: &Ctx,
) -> Result<Ask, Refused> {
    if entry.as_code().is_some_and(|tool| tool.asks_a_person()) {
        let question = arguments.get("question").and_then(Value::as_str).unwrap_or_default();
        return Ok(Ask::Question(question.to_owned()));
    }
    let rule = entry.as_data().map_or(&Approval::Never, |definition| &definition.approval);
    let ask = match rule {
        Approval::Never => Ask::IfRepeated,
        Approval::Always => Ask::Always("every call of this tool needs a person's approval".to_owned()),
        Approval::Once => {
            Ask::Once("the first call with these arguments in a session needs a person's approval".to_owned())
        }
        Approval::When(rule) => {
            let tags: Vec<String> = entry.tags().map(str::to_owned).collect();
            let effect = entry.effect().as_str();
            let facts = ToolFacts { name: entry.name(), group: entry.group(), tags: &tags, effect };
            let typed = entry.view().map(|view| view.parameters.typed(arguments));
            match rule.judge(typed.as_ref().unwrap_or(arguments), ctx, facts) {
                Ok(RuleAnswer::Go) => Ask::IfRepeated,
                Ok(RuleAnswer::Ask) => Ask::Always(format!("the tool's rule asks for it: {}", rule.text())),
                Ok(RuleAnswer::Deny(reason)) => return Err(Refused(reason)),
                // Closed, not open: a rule that can't be evaluated says nothing in favour of the call.
                Err(problem) => Ask::Always(format!("the tool's rule could not be evaluated: {problem}")),
            }
        }
    };
    if is_required(entry, agent) && !matches!(ask, Ask::Always(_)) {
        return Ok(Ask::Always(format!("the agent {agent_id} needs a person's approval for this tool")));
    }
    Ok(ask)
}
