//! The statements of [`Ledger`] that stand alone.

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, QueryBuilder, Row as _};
use toolcrib_definition::EffectMode;

use super::effect::Open;
use super::{Database, Driver, Row, SKIP_LOCKED, Tx};
use crate::changes::Change;
use crate::effect::EffectTransaction;
use crate::error::StoreError;
use crate::ledger::{Ledger, LedgerEvent, LedgerFilter, LedgerRow, LedgerState, Moved, Overdue, Step, Taken, Verdict};
use crate::revision::Page;
use crate::text::storable;
use crate::turns::SessionKey;

/// Rows that are moved or removed at once, so that nobody waits long for the database.
const AT_ONCE: i64 = 200;

pub(super) const LEDGER_COLUMNS: &str = "id, session, call_id, agent, tool, effect, state, arguments, arguments_hash, ctx, \
     request, request_hash, definition_hash, resend_until, owner, epoch, lease_until, outcome, actor, reason, created_at, \
     updated_at";

pub(super) fn row_of(row: &Row) -> Result<LedgerRow, StoreError> {
    let id: String = row.try_get("id")?;
    let bad = |column: &'static str, word: &str| StoreError::BadRow {
        table: "ledger",
        column,
        key: id.clone(),
        reason: format!("{word:?} is no word for it"),
    };
    let (effect, state): (String, String) = (row.try_get("effect")?, row.try_get("state")?);
    Ok(LedgerRow {
        session: row.try_get("session")?,
        call_id: row.try_get("call_id")?,
        agent: row.try_get("agent")?,
        tool: row.try_get("tool")?,
        effect: EffectMode::named(&effect).ok_or_else(|| bad("effect", &effect))?,
        state: LedgerState::named(&state).ok_or_else(|| bad("state", &state))?,
        arguments: row.try_get("arguments")?,
        arguments_hash: row.try_get("arguments_hash")?,
        ctx: row.try_get("ctx")?,
        request: row.try_get("request")?,
        request_hash: row.try_get("request_hash")?,
        definition_hash: row.try_get("definition_hash")?,
        resend_until: row.try_get("resend_until")?,
        owner: row.try_get("owner")?,
        epoch: row.try_get("epoch")?,
        lease_until: row.try_get("lease_until")?,
        outcome: row.try_get("outcome")?,
        actor: row.try_get("actor")?,
        reason: row.try_get("reason")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        id,
    })
}

#[async_trait]
impl Ledger for Database {
    async fn take_steps(&self, steps: &[Step]) -> Result<Option<Taken>, StoreError> {
        self.steps_together(steps).await
    }

    async fn begin_effect(&self, id: &str, actor: &str) -> Result<Option<EffectTransaction>, StoreError> {
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        // It locks the row: a second runner waits here, and then finds that the call is done.
        let sql = "UPDATE ledger SET actor = $1, updated_at = $2 \
                   WHERE id = $3 AND state = 'ready' AND effect = 'transactional' AND owner = $1";
        let locked = sqlx::query(sql).bind(actor).bind(now).bind(id).execute(&mut *tx).await?;
        if locked.rows_affected() == 0 {
            return Ok(None);
        }
        // What the tool does is undone to here when it fails, and its failure commits.
        sqlx::query("SAVEPOINT effect").execute(&mut *tx).await?;
        let open = Open { tx, id: id.to_owned(), changes: self.changes.clone() };
        Ok(Some(EffectTransaction::new(Box::new(open))))
    }

    async fn renew(&self, owner: &str, ids: &[String], lease_ms: i64) -> Result<Vec<(String, i64)>, StoreError> {
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        let mut renewed = Vec::with_capacity(ids.len());
        for ids in ids.chunks(500) {
            let mut query = QueryBuilder::<Driver>::new("UPDATE ledger SET lease_until = CASE WHEN lease_until > ");
            query.push_bind(now + lease_ms).push(" THEN lease_until ELSE ").push_bind(now + lease_ms);
            query.push(" END WHERE id IN (SELECT id FROM ledger WHERE owner = ").push_bind(owner);
            // Who still works on a call that is in doubt by now says so: nobody may say that it was not performed.
            query.push(
                " AND (state = 'in_doubt' OR ((state IN ('claimed', 'sent') \
                 OR (state = 'ready' AND effect = 'transactional')) AND lease_until > ",
            );
            query.push_bind(now).push(")) AND id IN (");
            let mut list = query.separated(", ");
            for id in ids {
                list.push_bind(id);
            }
            // What is locked is being moved just now, or guarded by that lock.
            query.push(format!(") ORDER BY id {SKIP_LOCKED}) RETURNING id, epoch"));
            let held: Vec<(String, i64)> = query.build_query_as().persistent(false).fetch_all(&mut *tx).await?;
            renewed.extend(held);
        }
        tx.commit().await?;
        Ok(renewed)
    }

    async fn claim_ready(
        &self,
        owner: &str,
        lease_ms: i64,
        most: u32,
        of: Option<&SessionKey>,
    ) -> Result<Vec<LedgerRow>, StoreError> {
        // Mostly there is none, and then nobody need wait for the right to write.
        let any: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM ledger WHERE state = 'ready')")
            .fetch_one(self.readers())
            .await?;
        if !any {
            return Ok(Vec::new());
        }
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        forget_old_keys(&mut tx, owner, now).await?;
        let waited_for = match of {
            None => "",
            Some(_) => {
                "AND id IN (SELECT w.ledger_id FROM turn_waits w JOIN turns t ON t.id = w.turn_id \
                 WHERE t.agent = $5 AND t.session = $6)"
            }
        };
        let sql = AssertSqlSafe(format!(
            "UPDATE ledger SET state = CASE effect WHEN 'transactional' THEN 'ready' ELSE 'claimed' END, seq = seq + 1, \
             epoch = CASE effect WHEN 'transactional' THEN epoch ELSE epoch + 1 END, owner = $1, actor = $1, \
             reason = NULL, lease_until = $2, updated_at = $3 \
             WHERE state = 'ready' AND lease_until <= $3 AND id IN \
             (SELECT id FROM ledger WHERE state = 'ready' AND lease_until <= $3 {waited_for} ORDER BY id LIMIT $4 {SKIP_LOCKED}) \
             RETURNING {LEDGER_COLUMNS}"
        ));
        let mut claim = sqlx::query(sql).bind(owner).bind(now + lease_ms).bind(now).bind(i64::from(most));
        if let Some(of) = of {
            claim = claim.bind(&of.agent).bind(storable(&of.session));
        }
        let rows = claim.fetch_all(&mut *tx).await?;
        tx.commit().await?;
        // One that can't be read hides no other; its claim runs out.
        let readable =
            |row: &Row| row_of(row).map_err(|error| tracing::error!(error = %error, "a call can't be read")).ok();
        Ok(rows.iter().filter_map(readable).collect())
    }

    async fn move_overdue(&self, actor: &str) -> Result<Overdue, StoreError> {
        // Mostly nothing is, and then nobody need wait for the right to write.
        let any: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM ledger WHERE state = 'claimed' AND lease_until <= $1) \
             OR EXISTS (SELECT 1 FROM ledger WHERE state = 'sent' AND lease_until <= $1) \
             OR EXISTS (SELECT 1 FROM approvals WHERE state = 'open' AND expires_at <= $1)",
        )
        .bind(self.time().await?)
        .fetch_one(self.readers())
        .await?;
        if !any {
            return Ok(Overdue::default());
        }
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        let mut overdue = Overdue { ready: free_claims(&mut tx, actor, now).await?, ..Overdue::default() };
        for (id, state) in free_sent(&mut tx, actor, now).await? {
            if state == LedgerState::Ready.as_str() { &mut overdue.ready } else { &mut overdue.in_doubt }.push(id);
        }
        overdue.expired = expire(&mut tx, actor, now).await?;
        if overdue == Overdue::default() {
            return Ok(overdue);
        }
        let change = if overdue.ready.is_empty() { Change::Settled } else { Change::Ready };
        self.commit(tx, change).await?;
        self.changes.tell(Change::Settled);
        Ok(overdue)
    }

    async fn give_verdict(
        &self,
        id: &str,
        verdict: Verdict,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<Moved, StoreError> {
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        let (state, outcome, quarantine) = match verdict {
            Verdict::Done(outcome) => (LedgerState::Succeeded, Some(outcome), None),
            Verdict::NotDone { quarantine_ms } => (LedgerState::Ready, None, Some(quarantine_ms)),
            Verdict::Abandon => (LedgerState::Unknown, None, None),
        };
        let before = quarantine.map_or(i64::MAX, |quarantine| now - quarantine);
        let lease_before = if quarantine.is_some() { now } else { i64::MAX };
        let sql = AssertSqlSafe(format!(
            "UPDATE ledger SET state = $1, outcome = COALESCE($2, outcome), seq = seq + 1, actor = $3, reason = $4, \
             sends = CASE $1 WHEN 'ready' THEN 0 ELSE sends END, updated_at = $5 WHERE id = $6 AND state = 'in_doubt' AND updated_at <= $7 AND lease_until <= $8 \
             RETURNING {LEDGER_COLUMNS}"
        ));
        let moved = sqlx::query(sql)
            .bind(state.as_str())
            .bind(outcome)
            .bind(actor)
            .bind(reason.map(storable))
            .bind(now)
            .bind(id)
            .bind(before)
            .bind(lease_before)
            .fetch_optional(&mut *tx)
            .await?;
        if let Some(row) = moved {
            let row = row_of(&row)?;
            self.commit(tx, if state == LedgerState::Ready { Change::Ready } else { Change::Settled }).await?;
            return Ok(Moved::Done(Box::new(row)));
        }
        Ok(match read(&mut tx, id).await? {
            None => Moved::Missing,
            Some(row) if row.state != LedgerState::InDoubt => Moved::WrongState(row.state),
            Some(row) => {
                let rested = row.updated_at.saturating_add(quarantine.unwrap_or_default());
                Moved::TooEarly(rested.max(row.lease_until.unwrap_or_default()))
            }
        })
    }

    async fn cancel_call(&self, id: &str, actor: &str, reason: Option<&str>) -> Result<Moved, StoreError> {
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        sqlx::query(
            "UPDATE approvals SET state = 'cancelled', decided_at = $1, decided_by = $2, reason = $3 \
             WHERE ledger_id = $4 AND state = 'open'",
        )
        .bind(now)
        .bind(actor)
        .bind(reason.map(storable))
        .bind(id)
        .execute(&mut *tx)
        .await?;
        let sql = AssertSqlSafe(format!(
            "UPDATE ledger SET state = 'cancelled', seq = seq + 1, actor = $1, reason = $2, updated_at = $3 \
             WHERE id = $4 AND (state = 'awaiting' OR (state = 'ready' AND lease_until <= $3)) RETURNING {LEDGER_COLUMNS}"
        ));
        let cancel = sqlx::query(sql).bind(actor).bind(reason.map(storable)).bind(now).bind(id);
        if let Some(row) = cancel.fetch_optional(&mut *tx).await? {
            let row = row_of(&row)?;
            self.commit(tx, Change::Settled).await?;
            return Ok(Moved::Done(Box::new(row)));
        }
        let row = read(&mut tx, id).await?;
        Ok(row.map_or(Moved::Missing, |row| Moved::WrongState(row.state)))
    }

    async fn ledger_row(&self, id: &str) -> Result<Option<LedgerRow>, StoreError> {
        let sql = AssertSqlSafe(format!("SELECT {LEDGER_COLUMNS} FROM ledger WHERE id = $1"));
        let row = sqlx::query(sql).bind(id).fetch_optional(self.readers()).await?;
        row.as_ref().map(row_of).transpose()
    }

    async fn ledger_row_of(&self, session: &str, call_id: &str) -> Result<Option<LedgerRow>, StoreError> {
        let sql = AssertSqlSafe(format!("SELECT {LEDGER_COLUMNS} FROM ledger WHERE session = $1 AND call_id = $2"));
        let find = sqlx::query(sql).bind(storable(session)).bind(storable(call_id));
        find.fetch_optional(self.readers()).await?.as_ref().map(row_of).transpose()
    }

    async fn ledger_events(&self, id: &str) -> Result<Vec<LedgerEvent>, StoreError> {
        let sql = "SELECT seq, from_state, to_state, epoch, actor, reason, at FROM ledger_events \
                   WHERE ledger_id = $1 ORDER BY seq";
        Ok(sqlx::query_as(sql).bind(id).fetch_all(self.readers()).await?)
    }

    async fn ledger_rows(
        &self,
        filter: &LedgerFilter,
        after: Option<&str>,
        most: u32,
    ) -> Result<Page<LedgerRow>, StoreError> {
        let sql = format!("SELECT {LEDGER_COLUMNS} FROM ledger WHERE 1 = 1");
        let mut query = QueryBuilder::<Driver>::new(sql);
        if let Some(state) = filter.state {
            // The word itself, so that the index of that state is used.
            query.push(format!(" AND state = '{}'", state.as_str()));
        }
        let equals =
            [(" AND session = ", &filter.session), (" AND agent = ", &filter.agent), (" AND tool = ", &filter.tool)];
        for (clause, value) in equals {
            if let Some(value) = value {
                query.push(clause).push_bind(storable(value));
            }
        }
        push_agents(&mut query, filter.agents.as_deref());
        if let Some(after) = after {
            query.push(" AND id < ").push_bind(after);
        }
        query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(most) + 1);
        let rows = query.build().fetch_all(self.readers()).await?;
        let mut items: Vec<LedgerRow> = rows.iter().map(row_of).collect::<Result<_, _>>()?;
        let more = items.len() > most as usize;
        items.truncate(most as usize);
        let next = items.last().filter(|_| more).map(|last| last.id.clone());
        Ok(Page { items, next })
    }

    async fn count_in_doubt(&self) -> Result<i64, StoreError> {
        let sql = "SELECT COUNT(*) FROM ledger WHERE state = 'in_doubt'";
        Ok(sqlx::query_scalar(sql).fetch_one(self.readers()).await?)
    }

    async fn count_left_ready(&self, age_ms: i64) -> Result<i64, StoreError> {
        let since = self.time().await?.saturating_sub(age_ms);
        let sql = "SELECT COUNT(*) FROM ledger WHERE state = 'ready' AND lease_until <= $1 AND updated_at <= $1";
        Ok(sqlx::query_scalar(sql).bind(since).fetch_one(self.readers()).await?)
    }

    async fn purge_ledger(&self, age_ms: i64) -> Result<u64, StoreError> {
        let mut tx = self.write().await?;
        // An id begins with the time of its call.
        let oldest = format!("{:012x}", self.now(&mut tx).await?.saturating_sub(age_ms).max(0));
        let sql = "SELECT id FROM ledger WHERE state IN ('succeeded', 'failed', 'denied', 'expired', 'cancelled') \
                   AND id < $1 ORDER BY id LIMIT $2";
        let ids: Vec<String> = sqlx::query_scalar(sql).bind(oldest).bind(AT_ONCE).fetch_all(&mut *tx).await?;
        for id in &ids {
            for sql in [
                "DELETE FROM ledger_events WHERE ledger_id = $1",
                "DELETE FROM approvals WHERE ledger_id = $1",
                "DELETE FROM ledger WHERE id = $1",
            ] {
                sqlx::query(sql).bind(id).execute(&mut *tx).await?;
            }
        }
        tx.commit().await?;
        Ok(ids.len() as u64)
    }
}

/// Restricts a query to rows of these agents. An empty list matches nothing.
pub(super) fn push_agents(query: &mut QueryBuilder<Driver>, agents: Option<&[String]>) {
    let Some(agents) = agents else { return };
    query.push(" AND agent IN (");
    let mut list = query.separated(", ");
    // SQL wants at least one value.
    list.push("''");
    for agent in agents {
        list.push_bind(agent.clone());
    }
    query.push(")");
}

async fn read(tx: &mut Tx, id: &str) -> Result<Option<LedgerRow>, StoreError> {
    let sql = AssertSqlSafe(format!("SELECT {LEDGER_COLUMNS} FROM ledger WHERE id = $1"));
    let row = sqlx::query(sql).bind(id).fetch_optional(&mut **tx).await?;
    row.as_ref().map(row_of).transpose()
}

/// A call that was sent before may be sent again only as long as the upstream remembers its key.
async fn forget_old_keys(tx: &mut Tx, actor: &str, now: i64) -> Result<(), StoreError> {
    let sql = "UPDATE ledger SET state = 'in_doubt', seq = seq + 1, actor = $1, updated_at = $2, \
               reason = 'the upstream no longer remembers its key' WHERE state = 'ready' AND effect = 'at_most_once' \
               AND sends > 0 AND (resend_until IS NULL OR resend_until <= $2)";
    sqlx::query(sql).bind(actor).bind(now).execute(&mut **tx).await?;
    Ok(())
}

/// A claim whose owner is gone is provably unsent: the call may run again.
async fn free_claims(tx: &mut Tx, actor: &str, now: i64) -> Result<Vec<String>, StoreError> {
    let sql = AssertSqlSafe(format!(
        "UPDATE ledger SET state = 'ready', seq = seq + 1, actor = $1, reason = 'its owner is gone before it sent it', \
         updated_at = $2 WHERE state = 'claimed' AND lease_until <= $2 AND id IN \
         (SELECT id FROM ledger WHERE state = 'claimed' AND lease_until <= $2 ORDER BY lease_until LIMIT $3 {SKIP_LOCKED}) \
         RETURNING id"
    ));
    Ok(sqlx::query_scalar(sql).bind(actor).bind(now).bind(AT_ONCE).fetch_all(&mut **tx).await?)
}

/// A call that was sent and whose owner is gone runs again when that harms nobody, and else is in doubt.
async fn free_sent(tx: &mut Tx, actor: &str, now: i64) -> Result<Vec<(String, String)>, StoreError> {
    let sql = AssertSqlSafe(format!(
        "UPDATE ledger SET state = CASE WHEN effect = 'idempotent' OR resend_until > $2 THEN 'ready' ELSE 'in_doubt' END, \
         seq = seq + 1, actor = $1, reason = 'its owner is gone; the request may have arrived', updated_at = $2 \
         WHERE state = 'sent' AND lease_until <= $2 AND id IN \
         (SELECT id FROM ledger WHERE state = 'sent' AND lease_until <= $2 ORDER BY lease_until LIMIT $3 {SKIP_LOCKED}) \
         RETURNING id, state"
    ));
    Ok(sqlx::query_as(sql).bind(actor).bind(now).bind(AT_ONCE).fetch_all(&mut **tx).await?)
}

/// Approvals that nobody gave in time.
async fn expire(tx: &mut Tx, actor: &str, now: i64) -> Result<Vec<String>, StoreError> {
    let sql = AssertSqlSafe(format!(
        "UPDATE approvals SET state = 'expired', decided_at = $1 WHERE state = 'open' AND id IN \
         (SELECT id FROM approvals WHERE state = 'open' AND expires_at <= $1 ORDER BY expires_at LIMIT $2 {SKIP_LOCKED}) \
         RETURNING ledger_id"
    ));
    let ids: Vec<String> = sqlx::query_scalar(sql).bind(now).bind(AT_ONCE).fetch_all(&mut **tx).await?;
    let sql = "UPDATE ledger SET state = 'expired', seq = seq + 1, actor = $1, reason = 'nobody decided in time', \
               updated_at = $2 WHERE id = $3 AND state = 'awaiting'";
    for id in &ids {
        sqlx::query(sql).bind(actor).bind(now).bind(id).execute(&mut **tx).await?;
    }
    Ok(ids)
}
