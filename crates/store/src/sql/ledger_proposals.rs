//! Proposals: how a call gets its row, and whether a person is asked first.

use std::collections::{HashMap, HashSet};

use sqlx::{Connection as _, QueryBuilder, Row as _};

use super::ledger::{LEDGER_COLUMNS, row_of};
use super::{BEGIN, Connection, Database, Driver, push_now};
use crate::approvals::{Approval, ApprovalKind, ApprovalState};
use crate::changes::Change;
use crate::error::StoreError;
use crate::ledger::{LedgerRow, LedgerState};
use crate::proposal::{Ask, Connected, Lease, NewCall, Proposal};
use crate::text::storable;
use toolcrib_definition::EffectMode;

/// The longest time that a call may be sent again, in ms: a hundred years, which no sum with the time exceeds.
const LONGEST_RESEND: i64 = 3_155_760_000_000;

/// Why a person is asked about a call, where one is.
type Asked = Option<(ApprovalKind, String)>;

/// A call that asks to be written down.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) call: &'a NewCall,
    /// Whether its connection stands, so that it is written down as sent. A transactional call is never sent.
    sent: bool,
}

impl<'a> Asking<'a> {
    pub(super) fn new(call: &'a NewCall, connected: &Connected) -> Self {
        Self { call, sent: connected.is_said() && call.effect != EffectMode::Transactional }
    }

    /// What it is when nobody is asked.
    fn ours(&self) -> Proposal {
        let call = self.call;
        // A transactional call moves when its effect commits; till then its proposer has it.
        let epoch = i64::from(call.effect != EffectMode::Transactional);
        let lease = Lease { id: call.id.clone(), owner: call.owner.clone(), epoch };
        if self.sent { Proposal::Sent(lease) } else { Proposal::Claimed(lease) }
    }
}

impl Database {
    /// Writes calls down that ask nobody unless they repeat another, in one statement, and says what became of each. None when
    /// others are among them; then none is written.
    pub(super) async fn propose_unasked(
        &self,
        connection: &mut Connection,
        calls: &[Asking<'_>],
    ) -> Result<Option<Vec<Result<Proposal, StoreError>>>, StoreError> {
        if calls.iter().any(|asking| asking.call.ask != Ask::IfRepeated) {
            return Ok(None);
        }
        let unasked = vec![None; calls.len()];
        let mut query = insertion(calls, &unasked, self.clock.now_ms(), NOT_REPEATED);
        query.push(" RETURNING id");
        let written: Vec<String> = query.build_query_scalar().fetch_all(&mut *connection).await?;
        let written: HashSet<String> = written.into_iter().collect();
        let mut made = Vec::with_capacity(calls.len());
        for asking in calls {
            // Those that it left out are seen to one by one, and none takes another with it.
            made.push(match written.contains(&asking.call.id) {
                true => Ok(asking.ours()),
                false => self.propose_single(connection, *asking).await,
            });
        }
        Ok(Some(made))
    }

    async fn propose_single(&self, connection: &mut Connection, asking: Asking<'_>) -> Result<Proposal, StoreError> {
        let mut tx = connection.begin_with(BEGIN).await?;
        let mut made = self.propose_carefully(&mut tx, &[asking]).await?;
        let proposal = made.remove(&asking.call.id).unwrap_or_else(|| asking.ours());
        if matches!(proposal, Proposal::Awaiting(_)) {
            self.notify(&mut tx, Change::Settled).await?;
        }
        tx.commit().await?;
        Ok(proposal)
    }

    /// Writes calls down, and says what became of each.
    pub(super) async fn propose(
        &self,
        connection: &mut Connection,
        calls: &[Asking<'_>],
    ) -> Result<Vec<Proposal>, StoreError> {
        // Almost always nobody is asked and nothing is repeated; then one statement does it, and its number of rows says so.
        let (plain, mut careful): (Vec<Asking<'_>>, Vec<Asking<'_>>) =
            calls.iter().partition(|asking| asking.call.ask == Ask::IfRepeated);
        let unasked = vec![None; plain.len()];
        let now = self.clock.now_ms();
        if !plain.is_empty() && insert(connection, &plain, &unasked, now, NOT_REPEATED).await? < plain.len() as u64 {
            let there = present(connection, &plain).await?;
            careful.extend(plain.iter().filter(|asking| !there.contains(&asking.call.id)));
            careful.sort_by_key(|asking| (&asking.call.session, &asking.call.call_id));
        }
        let mut made = self.propose_carefully(connection, &careful).await?;
        Ok(calls.iter().map(|asking| made.remove(&asking.call.id).unwrap_or_else(|| asking.ours())).collect())
    }

    /// The same with a look at each, in a transaction that the caller commits.
    async fn propose_carefully(
        &self,
        connection: &mut Connection,
        careful: &[Asking<'_>],
    ) -> Result<HashMap<String, Proposal>, StoreError> {
        let now = self.clock.now_ms();
        let mut made = HashMap::with_capacity(careful.len());
        if careful.is_empty() {
            return Ok(made);
        }
        let asked = whom_to_ask(connection, careful).await?;
        insert(connection, careful, &asked, now, "TRUE").await?;
        let there = present(connection, careful).await?;
        let asked_at = self.now(connection).await?;
        for (asking, asked) in careful.iter().zip(asked) {
            let call = asking.call;
            let proposal = match asked {
                _ if !there.contains(&call.id) => Proposal::Known(Box::new(existing(connection, call).await?)),
                Some((kind, why)) => Proposal::Awaiting(Box::new(ask(connection, call, kind, why, asked_at).await?)),
                None => asking.ours(),
            };
            made.insert(call.id.clone(), proposal);
        }
        Ok(made)
    }
}

/// Whether no call of the same session, tool and request may have been performed. `|| ''` keeps Postgres from walking all calls
/// of the session: planned while the table was empty, any index looked as good as the one that fits.
const NOT_REPEATED: &str = "NOT EXISTS (SELECT 1 FROM ledger WHERE request_hash = v.request_hash AND session || '' = v.session \
     AND tool = v.tool AND state IN ('ready', 'claimed', 'sent', 'in_doubt', 'unknown') AND sends > 0)";

/// Why a person is asked about each call, where one is.
async fn whom_to_ask(connection: &mut Connection, calls: &[Asking<'_>]) -> Result<Vec<Asked>, StoreError> {
    let known = look(connection, calls).await?;
    let asked = calls.iter().map(|Asking { call, .. }| {
        let (repeats, approved) = known.get(&call.id).copied().unwrap_or_default();
        match &call.ask {
            Ask::Question(question) => Some((ApprovalKind::Question, question.clone())),
            Ask::Always(why) => Some((ApprovalKind::Approval, why.clone())),
            Ask::Once(why) if !approved => Some((ApprovalKind::Approval, why.clone())),
            Ask::Once(_) | Ask::IfRepeated => repeats.then(|| {
                let why =
                    "the same request was made in this session before, and it is not known whether it was performed";
                (ApprovalKind::Approval, why.to_owned())
            }),
        }
    });
    Ok(asked.collect())
}

/// Whether each call may repeat one whose end is not known, and whether its arguments were approved before.
async fn look(connection: &mut Connection, calls: &[Asking<'_>]) -> Result<HashMap<String, (bool, bool)>, StoreError> {
    // Only a rule of "once" wants to know the second.
    let any_once = calls.iter().any(|Asking { call, .. }| matches!(call.ask, Ask::Once(_)));
    let approved = if any_once {
        "EXISTS (SELECT 1 FROM approvals JOIN ledger ON ledger.id = approvals.ledger_id \
         WHERE approvals.session = v.session AND approvals.tool = v.tool AND approvals.arguments_hash = v.arguments_hash \
         AND approvals.agent = v.agent AND approvals.state = 'approved' AND approvals.request_hash = v.request_hash \
         AND ledger.definition_hash = v.definition_hash)"
    } else {
        "FALSE"
    };
    let mut query = QueryBuilder::<Driver>::new(
        "WITH v (id, session, tool, request_hash, arguments_hash, agent, definition_hash) AS (",
    );
    query.push_values(calls, |mut values, Asking { call, .. }| {
        values
            .push_bind(&call.id)
            .push_bind(storable(&call.session))
            .push_bind(&call.tool)
            .push_bind(&call.request_hash)
            .push_bind(&call.arguments_hash)
            .push_bind(&call.agent)
            .push_bind(&call.definition_hash);
    });
    query.push(format!(") SELECT v.id, NOT {NOT_REPEATED} AS repeats, {approved} AS approved FROM v"));
    let rows = query.build().fetch_all(&mut *connection).await?;
    let mut known = HashMap::with_capacity(rows.len());
    for row in rows {
        known.insert(row.try_get("id")?, (row.try_get("repeats")?, row.try_get("approved")?));
    }
    Ok(known)
}

/// Writes the calls that are not there yet and for which `condition` holds. Returns how many.
async fn insert(
    connection: &mut Connection,
    calls: &[Asking<'_>],
    asked: &[Asked],
    now: i64,
    condition: &'static str,
) -> Result<u64, StoreError> {
    Ok(insertion(calls, asked, now, condition).build().execute(connection).await?.rows_affected())
}

fn insertion(calls: &[Asking<'_>], asked: &[Asked], now: i64, condition: &'static str) -> QueryBuilder<Driver> {
    let mut query = QueryBuilder::<Driver>::new(
        "WITH v (id, session, call_id, agent, tool, effect, state, arguments, arguments_hash, ctx, request, request_hash, \
         definition_hash, resend_ms, actor, owner, epoch, lease_ms, sends, why) AS (",
    );
    query.push_values(calls.iter().zip(asked), |mut values, (Asking { call, sent }, asked)| {
        let sends = i64::from(*sent && asked.is_none());
        let (state, epoch, owner) = match asked {
            Some(_) => (LedgerState::Awaiting, 0, None),
            None if *sent => (LedgerState::Sent, 1, Some(&call.owner)),
            None if call.effect == EffectMode::Transactional => (LedgerState::Ready, 0, Some(&call.owner)),
            None => (LedgerState::Claimed, 1, Some(&call.owner)),
        };
        values
            .push_bind(&call.id)
            .push_bind(storable(&call.session))
            .push_bind(storable(&call.call_id))
            .push_bind(&call.agent)
            .push_bind(&call.tool)
            .push_bind(call.effect.as_str())
            .push_bind(state.as_str())
            .push_bind(&call.arguments)
            .push_bind(&call.arguments_hash)
            .push_bind(&call.ctx)
            .push_bind(&call.request)
            .push_bind(&call.request_hash)
            .push_bind(&call.definition_hash)
            .push_bind(call.resend_ms.map(|life| life.min(LONGEST_RESEND)))
            .push_bind(&call.owner)
            .push_bind(owner)
            .push_bind(epoch)
            .push_bind(owner.map(|_| call.lease_ms))
            .push_bind(sends)
            .push_bind(asked.as_ref().map(|(_, why)| storable(why)));
    });
    query.push(
        ") INSERT INTO ledger (id, session, call_id, agent, tool, effect, state, seq, arguments, arguments_hash, ctx, \
         request, request_hash, definition_hash, owner, epoch, actor, sends, reason, resend_until, lease_until, created_at, \
         updated_at) SELECT v.id, v.session, v.call_id, v.agent, v.tool, v.effect, v.state, 1 + v.sends, v.arguments, \
         v.arguments_hash, v.ctx, v.request, v.request_hash, v.definition_hash, v.owner, v.epoch, v.actor, v.sends, v.why",
    );
    for since in [", v.resend_ms + ", ", v.lease_ms + ", ", ", ", "] {
        query.push(since);
        push_now(&mut query, now);
    }
    query.push(format!(
        " FROM v WHERE {condition} ORDER BY v.session, v.call_id ON CONFLICT (session, call_id) DO NOTHING"
    ));
    query
}

/// Which of these have a row of their own. An id is proposed once, so its row is the one that was just written.
async fn present(connection: &mut Connection, calls: &[Asking<'_>]) -> Result<HashSet<String>, StoreError> {
    let mut query = QueryBuilder::<Driver>::new("SELECT id FROM ledger WHERE id IN (");
    let mut list = query.separated(", ");
    for Asking { call, .. } in calls {
        list.push_bind(&call.id);
    }
    query.push(")");
    let ids: Vec<String> = query.build_query_scalar().fetch_all(&mut *connection).await?;
    Ok(ids.into_iter().collect())
}

async fn existing(connection: &mut Connection, call: &NewCall) -> Result<LedgerRow, StoreError> {
    let sql = sqlx::AssertSqlSafe(format!("SELECT {LEDGER_COLUMNS} FROM ledger WHERE session = $1 AND call_id = $2"));
    let row = sqlx::query(sql)
        .bind(storable(&call.session))
        .bind(storable(&call.call_id))
        .fetch_one(&mut *connection)
        .await?;
    row_of(&row)
}

async fn ask(
    connection: &mut Connection,
    call: &NewCall,
    kind: ApprovalKind,
    why: String,
    now: i64,
) -> Result<Approval, StoreError> {
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
    .execute(&mut *connection)
    .await?;
    for webhook in &call.notices {
        let sql = "INSERT INTO approval_notices (approval_id, webhook, tries, next_at) VALUES ($1, $2, 0, $3)";
        sqlx::query(sql).bind(&approval.id).bind(webhook).bind(now).execute(&mut *connection).await?;
    }
    Ok(approval)
}
