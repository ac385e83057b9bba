//! Steps of many calls in one transaction, many rows a statement.

use std::collections::{HashMap, HashSet};

use sqlx::{QueryBuilder, Row as _};

use super::ledger::{LEDGER_COLUMNS, row_of};
use super::{Database, Driver, Tx};
use crate::approvals::{Approval, ApprovalKind, ApprovalState};
use crate::changes::Change;
use crate::error::StoreError;
use crate::ledger::{Ask, Lease, LedgerState, NewCall, Proposal, Settlement, Step, Stepped};
use crate::text::storable;
use toolcrib_definition::EffectMode;

/// Rows of one statement. Each number of rows is a prepared statement of its own, which the connections keep.
const TOGETHER: usize = 32;

impl Database {
    pub(super) async fn steps_together(&self, steps: &[Step]) -> Result<Vec<Stepped>, StoreError> {
        let mut tx = self.write_steps().await?;
        let now = self.now(&mut tx).await?;
        let mut taken: Vec<Option<Stepped>> = vec![None; steps.len()];
        let mut proposals = Vec::new();
        let mut sends = Vec::new();
        let mut settlements = Vec::new();
        for (place, step) in steps.iter().enumerate() {
            match step {
                Step::Propose(call) => proposals.push((place, &**call)),
                Step::Send { lease, lease_ms } => sends.push((place, lease, *lease_ms)),
                Step::Settle(settlement) => settlements.push((place, &**settlement)),
            }
        }
        // Replicas that bring the same keys wait for each other in one order.
        proposals.sort_by_key(|(_, call)| (&call.session, &call.call_id));
        let mut loud = false;
        for part in proposals.chunks(TOGETHER) {
            let made = propose(&mut tx, part, now).await?;
            for ((place, _), proposal) in part.iter().zip(made) {
                loud |= matches!(proposal, Proposal::Awaiting(_));
                taken[*place] = Some(Stepped::Proposed(proposal));
            }
        }
        for part in sends.chunks(TOGETHER) {
            let moved = send(&mut tx, part, now).await?;
            for (place, lease, _) in part {
                taken[*place] = Some(Stepped::Moved(moved.contains(&lease.id)));
            }
        }
        for part in settlements.chunks(TOGETHER) {
            let moved = settle(&mut tx, part, now).await?;
            for (place, settlement) in part {
                loud |= settlement.announce || settlement.state == LedgerState::InDoubt;
                taken[*place] = Some(Stepped::Moved(moved.contains(&settlement.lease.id)));
            }
        }
        if loud {
            self.commit(tx, Change::Settled).await?;
        } else {
            tx.commit().await?;
            if !settlements.is_empty() {
                self.changes.tell(Change::Settled);
            }
        }
        Ok(taken.into_iter().map(|taken| taken.unwrap_or(Stepped::Moved(false))).collect())
    }
}

async fn propose(tx: &mut Tx, calls: &[(usize, &NewCall)], now: i64) -> Result<Vec<Proposal>, StoreError> {
    let mut asked = Vec::with_capacity(calls.len());
    let known = look(tx, calls).await?;
    for (_, call) in calls {
        let (repeats, approved) = known.get(&call.id).copied().unwrap_or_default();
        let why = match &call.ask {
            Ask::Question(question) => Some((ApprovalKind::Question, question.clone())),
            Ask::Always(why) => Some((ApprovalKind::Approval, why.clone())),
            Ask::Once(why) if !approved => Some((ApprovalKind::Approval, why.clone())),
            Ask::Once(_) | Ask::IfRepeated => repeats.then(|| {
                let why =
                    "the same request was made in this session before, and it is not known whether it was performed";
                (ApprovalKind::Approval, why.to_owned())
            }),
        };
        asked.push(why);
    }
    let inserted = insert(tx, calls, &asked, now).await?;
    let mut proposals = Vec::with_capacity(calls.len());
    for ((_, call), asked) in calls.iter().zip(asked) {
        if !inserted.contains(&call.id) {
            proposals.push(Proposal::Known(Box::new(existing(tx, call).await?)));
            continue;
        }
        proposals.push(match asked {
            Some((kind, why)) => Proposal::Awaiting(Box::new(ask(tx, call, kind, why, now).await?)),
            None => {
                let epoch = if call.effect == EffectMode::Transactional { 0 } else { 1 };
                Proposal::Claimed(Lease { id: call.id.clone(), owner: call.owner.clone(), epoch })
            }
        });
    }
    Ok(proposals)
}

/// Whether each call may repeat one whose end is not known, and whether its arguments were approved before.
async fn look(tx: &mut Tx, calls: &[(usize, &NewCall)]) -> Result<HashMap<String, (bool, bool)>, StoreError> {
    // Only a rule of "once" wants to know the second.
    let any_once = calls.iter().any(|(_, call)| matches!(call.ask, Ask::Once(_)));
    let approved = if any_once {
        "EXISTS (SELECT 1 FROM approvals JOIN ledger ON ledger.id = approvals.ledger_id \
         WHERE approvals.session = v.column2 AND approvals.tool = v.column3 AND approvals.arguments_hash = v.column5 \
         AND approvals.agent = v.column6 AND approvals.state = 'approved' AND approvals.request_hash = v.column4 \
         AND ledger.definition_hash = v.column7)"
    } else {
        "FALSE"
    };
    let mut query = QueryBuilder::<Driver>::new(format!(
        "SELECT v.column1 AS id, EXISTS (SELECT 1 FROM ledger WHERE request_hash = v.column4 AND session = v.column2 \
         AND tool = v.column3 AND state IN ('ready', 'claimed', 'sent', 'in_doubt', 'unknown') AND sends > 0) AS repeats, \
         {approved} AS approved FROM ("
    ));
    query.push_values(calls, |mut values, (_, call)| {
        values
            .push_bind(&call.id)
            .push_bind(storable(&call.session))
            .push_bind(&call.tool)
            .push_bind(&call.request_hash)
            .push_bind(&call.arguments_hash)
            .push_bind(&call.agent)
            .push_bind(&call.definition_hash);
    });
    query.push(") AS v");
    let rows = query.build().fetch_all(&mut **tx).await?;
    let mut known = HashMap::with_capacity(rows.len());
    for row in rows {
        known.insert(row.try_get("id")?, (row.try_get("repeats")?, row.try_get("approved")?));
    }
    Ok(known)
}

/// Writes the calls that are not there yet, and tells which.
async fn insert(
    tx: &mut Tx,
    calls: &[(usize, &NewCall)],
    asked: &[Option<(ApprovalKind, String)>],
    now: i64,
) -> Result<HashSet<String>, StoreError> {
    let mut query = QueryBuilder::<Driver>::new(
        "INSERT INTO ledger (id, session, call_id, agent, tool, effect, state, seq, arguments, arguments_hash, ctx, \
         request, request_hash, definition_hash, resend_until, owner, epoch, lease_until, actor, reason, created_at, \
         updated_at) ",
    );
    query.push_values(calls.iter().zip(asked), |mut values, ((_, call), asked)| {
        let (state, epoch, lease) = match asked {
            Some(_) => (LedgerState::Awaiting, 0, None),
            // A transactional call moves when its effect commits; till then its proposer has it.
            None if call.effect == EffectMode::Transactional => (LedgerState::Ready, 0, Some(now + call.lease_ms)),
            None => (LedgerState::Claimed, 1, Some(now + call.lease_ms)),
        };
        values
            .push_bind(&call.id)
            .push_bind(storable(&call.session))
            .push_bind(storable(&call.call_id))
            .push_bind(&call.agent)
            .push_bind(&call.tool)
            .push_bind(call.effect.as_str())
            .push_bind(state.as_str())
            .push_bind(1_i64)
            .push_bind(&call.arguments)
            .push_bind(&call.arguments_hash)
            .push_bind(&call.ctx)
            .push_bind(&call.request)
            .push_bind(&call.request_hash)
            .push_bind(&call.definition_hash)
            .push_bind(call.resend_ms.map(|life| now.saturating_add(life)))
            .push_bind(lease.map(|_| call.owner.as_str()))
            .push_bind(epoch)
            .push_bind(lease)
            .push_bind(&call.owner)
            .push_bind(asked.as_ref().map(|(_, why)| storable(why)))
            .push_bind(now)
            .push_bind(now);
    });
    query.push(" ON CONFLICT (session, call_id) DO NOTHING RETURNING id");
    let ids: Vec<String> = query.build_query_scalar().fetch_all(&mut **tx).await?;
    Ok(ids.into_iter().collect())
}

async fn existing(tx: &mut Tx, call: &NewCall) -> Result<crate::LedgerRow, StoreError> {
    let sql = sqlx::AssertSqlSafe(format!("SELECT {LEDGER_COLUMNS} FROM ledger WHERE session = $1 AND call_id = $2"));
    let row = sqlx::query(sql).bind(storable(&call.session)).bind(storable(&call.call_id)).fetch_one(&mut **tx).await?;
    row_of(&row)
}

async fn ask(tx: &mut Tx, call: &NewCall, kind: ApprovalKind, why: String, now: i64) -> Result<Approval, StoreError> {
    let approval = Approval {
        id: call.approval_id.clone(),
        ledger_id: call.id.clone(),
        kind,
        state: ApprovalState::Open,
        session: storable(&call.session).into_owned(),
        agent: call.agent.clone(),
        tool: call.tool.clone(),
        request_hash: call.request_hash.clone(),
        why,
        created_at: now,
        expires_at: now.saturating_add(call.approval_ms),
        decided_at: None,
        decided_by: None,
        reason: None,
        answer: None,
    };
    sqlx::query(
        "INSERT INTO approvals (id, ledger_id, kind, state, session, agent, tool, arguments_hash, request_hash, why, \
         created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(&approval.id)
    .bind(&approval.ledger_id)
    .bind(approval.kind.as_str())
    .bind(approval.state.as_str())
    .bind(&approval.session)
    .bind(&approval.agent)
    .bind(&approval.tool)
    .bind(&call.arguments_hash)
    .bind(&approval.request_hash)
    .bind(storable(&approval.why))
    .bind(approval.created_at)
    .bind(approval.expires_at)
    .execute(&mut **tx)
    .await?;
    for webhook in &call.notices {
        let sql = "INSERT INTO approval_notices (approval_id, webhook, tries, next_at) VALUES ($1, $2, 0, $3)";
        sqlx::query(sql).bind(&approval.id).bind(webhook).bind(now).execute(&mut **tx).await?;
    }
    Ok(approval)
}

async fn send(tx: &mut Tx, leases: &[(usize, &Lease, i64)], now: i64) -> Result<HashSet<String>, StoreError> {
    let mut query = QueryBuilder::<Driver>::new(
        "UPDATE ledger SET state = 'sent', sends = sends + 1, seq = seq + 1, reason = NULL, updated_at = ",
    );
    query.push_bind(now).push(", lease_until = v.column4, actor = v.column2 FROM (");
    query.push_values(leases, |mut values, (_, lease, lease_ms)| {
        values.push_bind(&lease.id).push_bind(&lease.owner).push_bind(lease.epoch).push_bind(now + lease_ms);
    });
    query.push(
        ") AS v WHERE ledger.id = v.column1 AND ledger.owner = v.column2 AND ledger.epoch = v.column3 \
         AND ledger.state = 'claimed' AND (ledger.sends = 0 OR ledger.effect = 'idempotent' OR ledger.resend_until > ",
    );
    query.push_bind(now).push(") AND ledger.lease_until > ").push_bind(now).push(" RETURNING ledger.id");
    let ids: Vec<String> = query.build_query_scalar().fetch_all(&mut **tx).await?;
    Ok(ids.into_iter().collect())
}

/// Ends calls of whoever has the lease, and of whoever had it last when nobody took it since: a late answer is an answer.
/// What was sent before, by this owner or another, is not called failed because a later try did not get through.
async fn settle(tx: &mut Tx, all: &[(usize, &Settlement)], now: i64) -> Result<HashSet<String>, StoreError> {
    let mut query = QueryBuilder::<Driver>::new(
        "UPDATE ledger SET state = CASE WHEN ledger.effect = 'at_most_once' AND v.column4 IN ('failed', 'cancelled') \
         AND ledger.sends > CASE ledger.state WHEN 'sent' THEN 1 WHEN 'in_doubt' THEN 1 ELSE 0 END \
         THEN 'in_doubt' ELSE v.column4 END, seq = seq + 1, updated_at = ",
    );
    query.push_bind(now).push(", lease_until = ").push_bind(now);
    query.push(", outcome = v.column5, reason = v.column6, actor = v.column2 FROM (");
    query.push_values(all, |mut values, (_, settlement)| {
        values
            .push_bind(&settlement.lease.id)
            .push_bind(&settlement.lease.owner)
            .push_bind(settlement.lease.epoch)
            .push_bind(settlement.state.as_str())
            .push_bind(&settlement.outcome)
            .push_bind(settlement.reason.as_deref().map(storable));
    });
    query.push(
        ") AS v WHERE ledger.id = v.column1 AND ledger.owner = v.column2 AND ledger.epoch = v.column3 \
         AND ((ledger.state IN ('sent', 'in_doubt') AND v.column4 IN ('succeeded', 'failed', 'in_doubt')) \
         OR (ledger.state = 'claimed' AND v.column4 IN ('failed', 'cancelled')) \
         OR (ledger.state = 'ready' AND (v.column4 IN ('failed', 'cancelled') \
         OR (ledger.sends > 0 AND v.column4 = 'succeeded')))) \
         RETURNING ledger.id",
    );
    let ids: Vec<String> = query.build_query_scalar().fetch_all(&mut **tx).await?;
    Ok(ids.into_iter().collect())
}
