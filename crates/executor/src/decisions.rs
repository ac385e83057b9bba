//! What people say about calls: approvals, answers, verdicts.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolcrib_definition::json::parse;
use toolcrib_store::{Approval, ApprovalKind, Decided, Decision, LedgerRow, LedgerState, Moved, StoreError, Verdict};

use crate::events::EventKind;
use crate::executor::{Executor, millis};
use crate::outcome::Outcome;
use crate::recorded::{ended_of, record_of_result};
use crate::wait;

/// What a person says about an approval.
#[derive(Debug, Clone, PartialEq)]
pub enum Say {
    /// The call may run.
    Approve,
    /// It may not.
    Deny,
    /// The answer to a question.
    Answer(Value),
}

/// What a person says about a call in doubt.
#[derive(Debug, Clone, PartialEq)]
pub enum SayOfDoubt {
    /// It was performed. This is its result, when the person knows it.
    Done(Option<Value>),
    /// It was not performed, and runs again.
    NotDone,
    /// Nobody will find out.
    Abandon,
}

/// A call of the ledger with what a person was asked about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerCall {
    /// The row.
    pub row: LedgerRow,
    /// What a person was asked, if anything.
    pub approval: Option<Approval>,
}

impl LedgerCall {
    /// Its outcome as it stands, without a trace of its own.
    pub fn outcome(&self) -> Outcome {
        let ended = ended_of(&self.row, self.approval.as_ref());
        Outcome {
            call_id: self.row.call_id.clone(),
            tool: self.row.tool.clone(),
            status: ended.status,
            result: ended.result,
            halt: ended.halt,
            attachments: ended.attachments,
            code: ended.error.map(|(code, _)| code),
            approval: ended.approval,
            ledger_id: ended.ledger_id,
            trace_id: self.row.id.clone(),
            duration_ms: u64::try_from(self.row.updated_at - self.row.created_at).unwrap_or_default(),
        }
    }
}

/// An answer that does not fit its question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnfitAnswer(pub String);

/// Why a decision was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The answer.
    #[error(transparent)]
    Answer(#[from] UnfitAnswer),
}

impl Executor {
    /// A call of the ledger. With a `wait`, the answer comes when the call has ended or is in doubt, at the latest after
    /// that time. None when there is no such call.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    pub async fn ledger_call(&self, id: &str, wait: Duration) -> Result<Option<LedgerCall>, StoreError> {
        let store = self.inner.registry.store();
        let settled = |row: &LedgerRow| row.state.is_final() || row.state == LedgerState::InDoubt;
        let Some(row) = wait::until(store, id, Instant::now() + wait, settled).await? else { return Ok(None) };
        let approval = store.approval_of_call(&row.id).await?;
        Ok(Some(LedgerCall { row, approval }))
    }

    /// Takes what a person says about an approval. Of two at once one wins, and the other is told.
    ///
    /// # Errors
    /// [`DecisionError`] when the answer does not fit the question, or the database can't be written.
    pub async fn decide(
        &self,
        id: &str,
        say: Say,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<Decided, DecisionError> {
        let store = self.inner.registry.store();
        let decision = match say {
            Say::Approve => Decision::Approve,
            Say::Deny => Decision::Deny,
            Say::Answer(answer) => {
                let Some(approval) = store.approval(id).await? else { return Ok(Decided::Missing) };
                if approval.kind != ApprovalKind::Question {
                    return Ok(Decided::WrongKind(approval.kind));
                }
                let row = store.ledger_row(&approval.ledger_id).await?;
                check_answer(row.as_ref(), &answer)?;
                let outcome = record_of_result(&json!({ "answer": answer }));
                Decision::Answer { answer: answer.to_string(), outcome }
            }
        };
        let decided = store.decide(id, decision, actor, reason).await?;
        if let Decided::Done(approval) = &decided {
            self.inner.events.publish(EventKind::ApprovalDecided, Some(&approval.agent), || {
                json!({
                    "approval_id": approval.id, "ledger_id": approval.ledger_id, "agent": approval.agent,
                    "session": approval.session, "tool": approval.tool, "state": approval.state.as_str(), "by": actor,
                })
            });
        }
        Ok(decided)
    }

    /// Takes a person's verdict on a call in doubt.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    pub async fn give_verdict(
        &self,
        id: &str,
        say: SayOfDoubt,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<Moved, StoreError> {
        let (word, verdict) = match say {
            SayOfDoubt::Done(result) => {
                let result =
                    result.unwrap_or_else(|| json!({ "note": "a person found out that this call was performed" }));
                ("done", Verdict::Done(record_of_result(&result)))
            }
            SayOfDoubt::NotDone => {
                ("not_done", Verdict::NotDone { quarantine_ms: millis(self.inner.ledger.quarantine) })
            }
            SayOfDoubt::Abandon => ("abandon", Verdict::Abandon),
        };
        let moved = self.inner.registry.store().give_verdict(id, verdict, actor, reason).await?;
        if let Moved::Done(row) = &moved {
            self.inner.events.publish(EventKind::VerdictGiven, Some(&row.agent), || {
                json!({
                    "ledger_id": row.id, "agent": row.agent, "session": row.session, "tool": row.tool, "verdict": word,
                    "by": actor,
                })
            });
        }
        Ok(moved)
    }
}

/// Holds an answer against what was asked for: the `answer_type` and `choices` of the question.
fn check_answer(row: Option<&LedgerRow>, answer: &Value) -> Result<(), UnfitAnswer> {
    let asked = row.and_then(|row| parse(row.arguments.as_bytes()).ok()).unwrap_or_default();
    let choices: Vec<&Value> = asked.get("choices").and_then(Value::as_array).into_iter().flatten().collect();
    if !choices.is_empty() && !choices.contains(&answer) {
        let known = choices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(UnfitAnswer(format!("the answer is one of {known}, not {answer}")));
    }
    if !choices.is_empty() {
        return Ok(());
    }
    let wanted = asked.get("answer_type").and_then(Value::as_str).unwrap_or("text");
    let fits = match wanted {
        "number" => answer.is_number(),
        "boolean" => answer.is_boolean(),
        _ => answer.as_str().is_some_and(|text| !text.trim().is_empty()),
    };
    if fits { Ok(()) } else { Err(UnfitAnswer(format!("the answer is a {wanted}, and not {answer}"))) }
}
