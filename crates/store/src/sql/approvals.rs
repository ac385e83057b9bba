//! The statements of [`Approvals`].

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, QueryBuilder, Row as _};

use super::ledger::push_agents;
use super::{Database, Driver, Row, SKIP_LOCKED};
use crate::approvals::{Approval, ApprovalFilter, ApprovalKind, ApprovalState, Approvals, Decided, Decision, Notice};
use crate::changes::Change;
use crate::error::StoreError;
use crate::ledger::LedgerState;
use crate::revision::Page;
use crate::text::storable;

const COLUMNS: &str = "id, ledger_id, kind, state, session, agent, tool, request_hash, why, created_at, expires_at, \
     decided_at, decided_by, reason, answer";

fn approval_of(row: &Row) -> Result<Approval, StoreError> {
    let id: String = row.try_get("id")?;
    let bad = |column: &'static str, word: &str| StoreError::BadRow {
        table: "approvals",
        column,
        key: id.clone(),
        reason: format!("{word:?} is no word for it"),
    };
    let (kind, state): (String, String) = (row.try_get("kind")?, row.try_get("state")?);
    Ok(Approval {
        ledger_id: row.try_get("ledger_id")?,
        kind: ApprovalKind::named(&kind).ok_or_else(|| bad("kind", &kind))?,
        state: ApprovalState::named(&state).ok_or_else(|| bad("state", &state))?,
        session: row.try_get("session")?,
        agent: row.try_get("agent")?,
        tool: row.try_get("tool")?,
        request_hash: row.try_get("request_hash")?,
        why: row.try_get("why")?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        decided_at: row.try_get("decided_at")?,
        decided_by: row.try_get("decided_by")?,
        reason: row.try_get("reason")?,
        answer: row.try_get("answer")?,
        id,
    })
}

#[async_trait]
impl Approvals for Database {
    async fn decide(
        &self,
        id: &str,
        decision: Decision,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<Decided, StoreError> {
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        let (state, kind, call, answer, outcome) = match decision {
            Decision::Approve => {
                (ApprovalState::Approved, Some(ApprovalKind::Approval), LedgerState::Ready, None, None)
            }
            Decision::Deny => (ApprovalState::Denied, None, LedgerState::Denied, None, None),
            Decision::Answer { answer, outcome } => {
                let (kind, call) = (Some(ApprovalKind::Question), LedgerState::Succeeded);
                (ApprovalState::Answered, kind, call, Some(answer), Some(outcome))
            }
        };
        let sql = AssertSqlSafe(format!(
            "UPDATE approvals SET state = $1, decided_at = $2, decided_by = $3, reason = $4, answer = $5 \
             WHERE id = $6 AND state = 'open' AND expires_at > $2 AND kind = COALESCE($7, kind) RETURNING {COLUMNS}"
        ));
        let decided = sqlx::query(sql)
            .bind(state.as_str())
            .bind(now)
            .bind(actor)
            .bind(reason.map(storable))
            .bind(answer)
            .bind(id)
            .bind(kind.map(ApprovalKind::as_str))
            .fetch_optional(&mut *tx)
            .await?;
        let Some(row) = decided else {
            drop(tx);
            return Ok(match self.approval(id).await? {
                None => Decided::Missing,
                Some(approval) => match kind {
                    Some(kind) if approval.kind != kind => Decided::WrongKind(approval.kind),
                    _ => Decided::TooLate(Box::new(approval)),
                },
            });
        };
        let approval = approval_of(&row)?;
        let moved = sqlx::query(
            "UPDATE ledger SET state = $1, outcome = $2, seq = seq + 1, actor = $3, reason = $4, updated_at = $5, \
             lease_until = 0 WHERE id = $6 AND state = 'awaiting'",
        )
        .bind(call.as_str())
        .bind(outcome)
        .bind(actor)
        .bind(reason.map(storable))
        .bind(now)
        .bind(&approval.ledger_id)
        .execute(&mut *tx)
        .await?;
        if moved.rows_affected() != 1 {
            let reason = "its call does not wait for it".to_owned();
            return Err(StoreError::BadRow { table: "approvals", column: "ledger_id", key: approval.id, reason });
        }
        self.commit(tx, if call == LedgerState::Ready { Change::Ready } else { Change::Settled }).await?;
        self.changes.tell(Change::Settled);
        Ok(Decided::Done(Box::new(approval)))
    }

    async fn take_notices(&self, lease_ms: i64, most: u32) -> Result<Vec<Notice>, StoreError> {
        let any = "SELECT EXISTS (SELECT 1 FROM approval_notices WHERE next_at <= $1)";
        let any: bool = sqlx::query_scalar(any).bind(self.time().await?).fetch_one(self.readers()).await?;
        if !any {
            return Ok(Vec::new());
        }
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        let sql = AssertSqlSafe(format!(
            "UPDATE approval_notices SET next_at = $1, tries = tries + 1 WHERE (approval_id, webhook) IN \
             (SELECT approval_id, webhook FROM approval_notices WHERE next_at <= $2 ORDER BY next_at LIMIT $3 {SKIP_LOCKED}) \
             RETURNING approval_id, webhook, tries"
        ));
        let take = sqlx::query_as(sql).bind(now + lease_ms).bind(now).bind(i64::from(most));
        let taken: Vec<(String, String, i64)> = take.fetch_all(&mut *tx).await?;
        tx.commit().await?;
        let mut notices = Vec::with_capacity(taken.len());
        for (id, webhook, tries) in taken {
            match self.approval(&id).await? {
                Some(approval) => notices.push(Notice { approval, webhook, tries }),
                None => self.drop_notice(&id, &webhook).await?,
            }
        }
        Ok(notices)
    }

    async fn drop_notice(&self, approval: &str, webhook: &str) -> Result<(), StoreError> {
        let mut tx = self.write().await?;
        let sql = "DELETE FROM approval_notices WHERE approval_id = $1 AND webhook = $2";
        sqlx::query(sql).bind(approval).bind(webhook).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn delay_notice(&self, approval: &str, webhook: &str, pause_ms: i64) -> Result<(), StoreError> {
        let mut tx = self.write().await?;
        let next = self.now(&mut tx).await?.saturating_add(pause_ms);
        let sql = "UPDATE approval_notices SET next_at = $1 WHERE approval_id = $2 AND webhook = $3";
        sqlx::query(sql).bind(next).bind(approval).bind(webhook).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn approval(&self, id: &str) -> Result<Option<Approval>, StoreError> {
        let sql = AssertSqlSafe(format!("SELECT {COLUMNS} FROM approvals WHERE id = $1"));
        let row = sqlx::query(sql).bind(id).fetch_optional(self.readers()).await?;
        row.as_ref().map(approval_of).transpose()
    }

    async fn count_open(&self) -> Result<i64, StoreError> {
        let sql = "SELECT COUNT(*) FROM approvals WHERE state = 'open'";
        Ok(sqlx::query_scalar(sql).fetch_one(self.readers()).await?)
    }

    async fn approval_of_call(&self, ledger_id: &str) -> Result<Option<Approval>, StoreError> {
        let sql = AssertSqlSafe(format!("SELECT {COLUMNS} FROM approvals WHERE ledger_id = $1"));
        let row = sqlx::query(sql).bind(ledger_id).fetch_optional(self.readers()).await?;
        row.as_ref().map(approval_of).transpose()
    }

    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        after: Option<&str>,
        most: u32,
    ) -> Result<Page<Approval>, StoreError> {
        let mut query = QueryBuilder::<Driver>::new(format!("SELECT {COLUMNS} FROM approvals WHERE 1 = 1"));
        if let Some(state) = filter.state {
            // The word itself, so that the index of that state is used.
            query.push(format!(" AND state = '{}'", state.as_str()));
        }
        push_agents(&mut query, filter.agents.as_deref());
        if let Some(after) = after {
            query.push(" AND id < ").push_bind(after);
        }
        query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(most) + 1);
        let rows = query.build().fetch_all(self.readers()).await?;
        let mut items: Vec<Approval> = rows.iter().map(approval_of).collect::<Result<_, _>>()?;
        let more = items.len() > most as usize;
        items.truncate(most as usize);
        let next = items.last().filter(|_| more).map(|last| last.id.clone());
        Ok(Page { items, next })
    }
}
