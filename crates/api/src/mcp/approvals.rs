//! A parked call as a question to the client, where the agent's profile lets its clients decide.

use serde_json::{Value, json};
use toolcrib_executor::{Outcome, Say, Status};
use toolcrib_registry::{Ask, ToolClient};
use toolcrib_store::{Approval, ApprovalKind, Decided};

use super::address::Caller;
use super::client::StreamClient;
use crate::ledger::stored;
use crate::state::ApiState;

/// The key of the question among those of a call.
const QUESTION: &str = "toolcrib_approval";
/// How much of a request a person is shown, in characters.
const MAX_SHOWN: usize = 4_000;

/// Asks the client about a call that waits for a person, and returns how the call ended. A client that can't be asked, may
/// not decide, or does not answer leaves it waiting.
pub(super) async fn ask_client(state: &ApiState, caller: &Caller, client: &StreamClient, outcome: Outcome) -> Outcome {
    let (Status::Waiting, Some(id)) = (outcome.status, outcome.approval.clone()) else { return outcome };
    if !caller.agent.approvals_by_client() || !client.supports("elicitation") {
        return outcome;
    }
    let Some((approval, question)) = question(state, &id).await else { return outcome };
    let Ok(answers) = client.ask(vec![(QUESTION.to_owned(), Ask::Elicitation(question))]).await else { return outcome };
    let Some((say, reason)) = answers.first().and_then(|answer| said(approval.kind, answer)) else { return outcome };
    let actor = format!("{} (asked by its client)", caller.name);
    match state.executor.decide(&id, say, &actor, reason.as_deref()).await {
        Ok(Decided::Done(_) | Decided::TooLate(_)) => {}
        Ok(Decided::WrongKind(_) | Decided::Missing) => return outcome,
        Err(error) => {
            tracing::warn!(error = %error, approval = %id, "a client's decision was not taken");
            return outcome;
        }
    }
    let wait = caller.agent.limits().tool_timeout;
    match state.executor.ledger_call(&approval.ledger_id, wait).await {
        Ok(Some(call)) => call.outcome(),
        _ => outcome,
    }
}

/// The call of an approval as it stands.
pub(super) async fn as_it_stands(state: &ApiState, approval: &str) -> Option<Outcome> {
    let approval = state.registry().store().approval(approval).await.ok().flatten()?;
    let call = state.executor.ledger_call(&approval.ledger_id, std::time::Duration::ZERO).await.ok().flatten()?;
    Some(call.outcome())
}

/// What a person is asked: the parameters of `elicitation/create`.
async fn question(state: &ApiState, id: &str) -> Option<(Approval, Value)> {
    let store = state.registry().store();
    let approval = store.approval(id).await.ok().flatten()?;
    let row = store.ledger_row(&approval.ledger_id).await.ok().flatten()?;
    let (message, schema) = match approval.kind {
        ApprovalKind::Approval => {
            let request = stored(&row.request).map(|request| format!("{request:#}")).unwrap_or_default();
            let shown: String = request.chars().take(MAX_SHOWN).collect();
            let message = format!("{} wants to call {}: {}\n\n{shown}", approval.agent, approval.tool, approval.why);
            let properties = json!({
                "approve": { "type": "boolean", "title": "Let it run", "description": "Exactly as it is shown" },
                "reason": { "type": "string", "title": "Why" },
            });
            (message, json!({ "type": "object", "properties": properties, "required": ["approve"] }))
        }
        ApprovalKind::Question => {
            let arguments = stored(&row.arguments).unwrap_or_default();
            let answer = match (arguments.get("choices"), arguments.get("answer_type").and_then(Value::as_str)) {
                (Some(choices @ Value::Array(list)), _) if !list.is_empty() => {
                    json!({ "type": "string", "enum": choices })
                }
                (_, Some(kind @ ("number" | "boolean"))) => json!({ "type": kind }),
                _ => json!({ "type": "string" }),
            };
            let schema = json!({ "type": "object", "properties": { "answer": answer }, "required": ["answer"] });
            (approval.why.clone(), schema)
        }
    };
    Some((approval, json!({ "message": message, "requestedSchema": schema })))
}

/// What an answer to the question says. One that was closed says nothing.
fn said(kind: ApprovalKind, answer: &Value) -> Option<(Say, Option<String>)> {
    let content = answer.get("content");
    let reason = content.and_then(|content| content.get("reason")).and_then(Value::as_str).map(str::to_owned);
    match (answer.get("action").and_then(Value::as_str)?, kind) {
        ("decline", _) => Some((Say::Deny, reason.or_else(|| Some("declined in the client".to_owned())))),
        ("accept", ApprovalKind::Approval) => match content?.get("approve")?.as_bool()? {
            true => Some((Say::Approve, reason)),
            false => Some((Say::Deny, reason)),
        },
        ("accept", ApprovalKind::Question) => Some((Say::Answer(content?.get("answer")?.clone()), None)),
        _ => None,
    }
}
