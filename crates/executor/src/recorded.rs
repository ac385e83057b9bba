//! Outcomes as the ledger records them, and as it tells them again.

use std::borrow::Cow;

use serde_json::{Value, json};
use toolcrib_definition::Attachment;
use toolcrib_definition::json::{self as definition_json, MAX_DEPTH, ReadOptions};
use toolcrib_store::{Approval, ApprovalKind, LedgerRow, LedgerState};

use crate::outcome::{HaltOutcome, Status};
use crate::pipeline::{Ended, IN_DOUBT};

/// The outcome to record for a call that ended so.
pub(crate) fn record_of(ended: &Ended) -> String {
    json!({
        "status": ended.status.as_str(),
        "result": ended.result,
        "halt": ended.halt.as_ref().map(|halt| json!({ "say": halt.say })),
        "attachments": ended.attachments,
        "code": ended.error.as_ref().map(|(code, _)| code.as_ref()),
    })
    .to_string()
}

/// The outcome to record for a result that a person gave.
pub(crate) fn record_of_result(result: &Value) -> String {
    json!({ "status": Status::Ok.as_str(), "result": result, "halt": null, "attachments": [], "code": null })
        .to_string()
}

/// How a call of the ledger stands, in the words that its caller and the model read.
pub(crate) fn ended_of(row: &LedgerRow, approval: Option<&Approval>) -> Ended {
    let because = row.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let ended = match row.state {
        LedgerState::Awaiting => waiting_for(approval),
        LedgerState::Proposed | LedgerState::Ready | LedgerState::Claimed | LedgerState::Sent => {
            let message = "the call is still running; ask again with the same call_id";
            Ended::error(Status::Waiting, "call.running", message, None)
        }
        LedgerState::Denied => {
            Ended::error(Status::Denied, "call.denied_by_person", format!("a person refused this call{because}"), None)
        }
        LedgerState::Expired => {
            let message = "nobody decided about this call in time, so it was not made; that is no refusal";
            Ended::error(Status::Error, "call.expired", message, None)
        }
        LedgerState::Cancelled => row.outcome.as_deref().and_then(read).unwrap_or_else(|| {
            Ended::error(Status::Error, "call.not_made", format!("the call was not made{because}"), None)
        }),
        LedgerState::Unknown => {
            let message =
                "it is not known whether this call took effect, and nobody will find out; don't repeat it blindly";
            Ended::error(Status::InDoubt, "call.unknown", message, None)
        }
        LedgerState::Succeeded | LedgerState::Failed | LedgerState::InDoubt => {
            match row.outcome.as_deref().and_then(read) {
                Some(ended) => ended,
                None if row.state == LedgerState::Succeeded => {
                    let message = "the call was performed, and its result can't be read any more";
                    Ended::error(Status::Error, "call.recorded", message, None)
                }
                None => Ended::error(Status::InDoubt, "call.in_doubt", format!("the call broke off; {IN_DOUBT}"), None),
            }
        }
    };
    Ended { ledger_id: Some(row.id.clone()), ..ended }
}

/// A call that waits for a person. `None` is one whose approval can't be read.
pub(crate) fn waiting_for(approval: Option<&Approval>) -> Ended {
    let (code, message) = match approval.map(|approval| approval.kind) {
        Some(ApprovalKind::Question) => ("call.question", "a person was asked, and the answer is waited for"),
        _ => ("call.approval", "this call waits for a person's approval; nothing was done yet"),
    };
    let approval = approval.map(|approval| approval.id.clone());
    Ended { approval, ..Ended::error(Status::Waiting, code, message, None) }
}

fn read(text: &str) -> Option<Ended> {
    // What was written is read, however deep and long it became.
    let options = ReadOptions { max_depth: 4 * MAX_DEPTH, ..ReadOptions::for_answers() };
    let mut value = definition_json::read(text.as_bytes(), options).ok()?;
    let status = Status::named(value.get("status")?.as_str()?)?;
    let halt = value.get("halt").filter(|halt| !halt.is_null());
    let halt = halt.map(|halt| HaltOutcome { say: halt.get("say").and_then(Value::as_str).map(str::to_owned) });
    let attachments = value.get("attachments").and_then(Value::as_array).into_iter().flatten();
    let attachments =
        attachments.filter_map(|value| serde_json::from_value::<Attachment>(value.clone()).ok()).collect();
    let error = value.get("code").and_then(Value::as_str).map(|code| (Cow::Owned(code.to_owned()), None));
    let result = value.get_mut("result").map(Value::take)?;
    Some(Ended { halt, attachments, error, ..Ended::new(status, result) })
}
