//! Steps of many calls in one transaction, many rows a statement.
//!
//! In a transaction each statement says how many rows it took, not which: on SQLite that answer costs a message a row. Almost
//! always it took all; when it did not, the steps are taken one at a time, and then the number says it.

use std::collections::HashSet;

use sqlx::{Connection as _, QueryBuilder};

use super::ledger_proposals::Asking;
use super::{BEGIN, Connection, Database, Driver, LANES, push_now};
use crate::changes::Change;
use crate::error::StoreError;
use crate::ledger::{LedgerState, Settlement, Step, Stepped, Taken};
use crate::proposal::{Connected, Lease, NewCall, Proposal};
use crate::text::storable;

impl Database {
    /// None when not all of several steps could be taken; then none was.
    pub(super) async fn steps_together(&self, steps: &[Step]) -> Result<Option<Taken>, StoreError> {
        let (mut connection, _turn) = self.lend_for_steps().await?;
        let taken = match LANES {
            1 => self.take_in_transaction(&mut connection, steps).await?,
            _ => match self.take_in_statement(&mut connection, steps).await? {
                Some(taken) => Some(taken),
                None => self.take_in_transaction(&mut connection, steps).await?,
            },
        };
        self.steps.keep(connection).await;
        let settles = taken.is_some() && steps.iter().any(|step| matches!(step, Step::Settle(_)));
        let asks = |stepped: &Result<Stepped, _>| matches!(stepped, Ok(Stepped::Proposed(Proposal::Awaiting(_))));
        if settles || taken.iter().flatten().any(asks) {
            self.changes.tell(Change::Settled);
        }
        Ok(taken)
    }

    async fn take_in_transaction(
        &self,
        connection: &mut Connection,
        steps: &[Step],
    ) -> Result<Option<Taken>, StoreError> {
        let mut tx = connection.begin_with(BEGIN).await?;
        let taken = self.take_on(&mut tx, steps).await?;
        match taken {
            Some(_) => tx.commit().await?,
            None => tx.rollback().await?,
        }
        Ok(taken)
    }

    /// Takes steps that one statement can take, which is a transaction by itself: two round trips less. None when they are
    /// of both kinds, or ask for more than that; then none was taken.
    async fn take_in_statement(
        &self,
        connection: &mut Connection,
        steps: &[Step],
    ) -> Result<Option<Taken>, StoreError> {
        let (proposals, moves) = sorted(steps);
        if moves.is_empty() {
            let asking: Vec<_> = proposals.iter().map(|(_, call, connected)| Asking::new(call, connected)).collect();
            let Some(made) = self.propose_unasked(connection, &asking).await? else { return Ok(None) };
            let mut taken = vec![Ok(Stepped::Moved(false)); steps.len()];
            for ((place, ..), proposal) in proposals.into_iter().zip(made) {
                taken[place] = proposal.map(Stepped::Proposed);
            }
            return Ok(Some(taken));
        }
        let ids: HashSet<&str> = moves.iter().map(|(_, moving)| moving.lease.id.as_str()).collect();
        let loud = moves.iter().any(|(_, moving)| moving.announce);
        if !proposals.is_empty() || loud || ids.len() < moves.len() {
            return Ok(None);
        }
        let mut query = query_of(&moves, self.clock.now_ms());
        query.push(" RETURNING ledger.id");
        let moved: Vec<String> = query.build_query_scalar().fetch_all(connection).await?;
        let moved: HashSet<String> = moved.into_iter().collect();
        Ok(Some(moves.iter().map(|(_, moving)| Ok(Stepped::Moved(moved.contains(&moving.lease.id)))).collect()))
    }

    async fn take_on(&self, connection: &mut Connection, steps: &[Step]) -> Result<Option<Taken>, StoreError> {
        // The clock of this machine, for databases that have none of their own.
        let now = self.clock.now_ms();
        let mut taken = vec![Ok(Stepped::Moved(false)); steps.len()];
        let (proposals, moves) = sorted(steps);
        let mut loud = moves.iter().any(|(_, moving)| moving.announce);
        if !moves.is_empty() {
            let Some(moved) = all_or_single(make(connection, &moves, now).await?, moves.len()) else { return Ok(None) };
            for (place, _) in &moves {
                taken[*place] = Ok(Stepped::Moved(moved));
            }
        }
        if !proposals.is_empty() {
            // Read late: by now most connections stand.
            let asking: Vec<_> = proposals.iter().map(|(_, call, connected)| Asking::new(call, connected)).collect();
            for ((place, ..), proposal) in proposals.iter().zip(self.propose(connection, &asking).await?) {
                loud |= matches!(proposal, Proposal::Awaiting(_));
                taken[*place] = Ok(Stepped::Proposed(proposal));
            }
        }
        if loud {
            self.notify(connection, Change::Settled).await?;
        }
        Ok(Some(taken))
    }
}

type Proposals<'a> = Vec<(usize, &'a NewCall, &'a Connected)>;
type Moves<'a> = Vec<(usize, Moving<'a>)>;

/// The steps by their kind, each with its place.
fn sorted(steps: &[Step]) -> (Proposals<'_>, Moves<'_>) {
    let mut proposals = Vec::new();
    let mut moves = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        match step {
            Step::Propose { call, connected } => proposals.push((place, &**call, connected)),
            Step::Send { lease, lease_ms } => moves.push((place, Moving::to_sent(lease, *lease_ms))),
            Step::Settle(settlement) => moves.push((place, Moving::to_end(settlement))),
        }
    }
    // Replicas that bring the same keys wait for each other in one order.
    proposals.sort_by_key(|(_, call, _)| (&call.session, &call.call_id));
    (proposals, moves)
}

/// Whether the rows were moved, when their number says so.
fn all_or_single(moved: u64, asked: usize) -> Option<bool> {
    match (moved, asked) {
        (0, 1) => Some(false),
        _ => (usize::try_from(moved) == Ok(asked)).then_some(true),
    }
}

/// A move of whoever has the lease of a call.
struct Moving<'a> {
    lease: &'a Lease,
    to: LedgerState,
    /// How long the lease then holds, in ms.
    lease_ms: i64,
    outcome: Option<&'a str>,
    reason: Option<&'a str>,
    announce: bool,
}

impl<'a> Moving<'a> {
    fn to_sent(lease: &'a Lease, lease_ms: i64) -> Self {
        Self { lease, to: LedgerState::Sent, lease_ms, outcome: None, reason: None, announce: false }
    }

    fn to_end(settlement: &'a Settlement) -> Self {
        Self {
            lease: &settlement.lease,
            to: settlement.state,
            lease_ms: 0,
            outcome: Some(&settlement.outcome),
            reason: settlement.reason.as_deref(),
            announce: settlement.announce || settlement.state == LedgerState::InDoubt,
        }
    }
}

/// Makes moves, and tells how many were possible.
async fn make(connection: &mut Connection, moves: &[(usize, Moving<'_>)], now: i64) -> Result<u64, StoreError> {
    Ok(query_of(moves, now).build().execute(connection).await?.rows_affected())
}

/// The moves that are possible: the first only while the lease holds, the ends also for whoever had it
/// last when nobody took it since, for a late answer is an answer. What was sent before, by this owner or another, is not
/// called failed because a later try did not get through.
fn query_of(moves: &[(usize, Moving<'_>)], now: i64) -> QueryBuilder<Driver> {
    let mut query = QueryBuilder::<Driver>::new(
        "UPDATE ledger SET state = CASE WHEN ledger.effect = 'at_most_once' AND v.column4 IN ('failed', 'cancelled') \
         AND ledger.sends > CASE ledger.state WHEN 'sent' THEN 1 WHEN 'in_doubt' THEN 1 ELSE 0 END \
         THEN 'in_doubt' ELSE v.column4 END, sends = ledger.sends + CASE v.column4 WHEN 'sent' THEN 1 ELSE 0 END, \
         seq = seq + 1, outcome = COALESCE(v.column6, ledger.outcome), reason = v.column7, actor = v.column2, updated_at = ",
    );
    push_now(&mut query, now);
    query.push(", lease_until = v.column5 + ");
    push_now(&mut query, now);
    query.push(" FROM (");
    query.push_values(moves, |mut values, (_, moving)| {
        values
            .push_bind(&moving.lease.id)
            .push_bind(&moving.lease.owner)
            .push_bind(moving.lease.epoch)
            .push_bind(moving.to.as_str())
            .push_bind(moving.lease_ms)
            .push_bind(moving.outcome)
            .push_bind(moving.reason.map(storable));
    });
    // `|| ''` keeps Postgres from walking all that are claimed or sent: planned while the table was empty, any index looked
    // as good as the one that fits.
    query.push(
        ") AS v WHERE ledger.id = v.column1 AND ledger.owner = v.column2 AND ledger.epoch = v.column3 \
         AND ((ledger.state || '' = 'claimed' AND v.column4 = 'sent' \
         AND (ledger.sends = 0 OR ledger.effect = 'idempotent' OR ledger.resend_until > ",
    );
    push_now(&mut query, now);
    query.push(") AND ledger.lease_until > ");
    push_now(&mut query, now);
    query.push(
        ") OR (ledger.state || '' IN ('sent', 'in_doubt') AND v.column4 IN ('succeeded', 'failed', 'in_doubt')) \
         OR (ledger.state = 'claimed' AND v.column4 IN ('failed', 'cancelled')) \
         OR (ledger.state = 'ready' AND (v.column4 IN ('failed', 'cancelled') \
         OR (ledger.sends > 0 AND v.column4 = 'succeeded'))))",
    );
    query
}
