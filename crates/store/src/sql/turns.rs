//! The statements of [`Turns`].

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, Connection as _, QueryBuilder, Row as _};

use super::ledger::push_agents;
use super::{BEGIN, Connection, Database, Driver, Row};
use crate::changes::Change;
use crate::error::StoreError;
use crate::revision::Page;
use crate::text::storable;
use crate::turns::{
    Begun, NewTurn, SessionKey, Told, TurnEnd, TurnFilter, TurnLease, TurnMove, TurnMoved, TurnRow, TurnState, Turns,
    UnbegunCall,
};

const COLUMNS: &str = "id, agent, session, parent, state, seq, input, checkpoint, outcome, record, cancelled, owner, epoch, \
     created_at, updated_at";

fn turn_of(row: &Row) -> Result<TurnRow, StoreError> {
    let (id, state): (String, String) = (row.try_get("id")?, row.try_get("state")?);
    let cancelled: i64 = row.try_get("cancelled")?;
    Ok(TurnRow {
        state: TurnState::named(&state).ok_or_else(|| no_state(&id, &state))?,
        seq: row.try_get("seq")?,
        agent: row.try_get("agent")?,
        session: row.try_get("session")?,
        parent: row.try_get("parent")?,
        input: row.try_get("input")?,
        checkpoint: row.try_get("checkpoint")?,
        outcome: row.try_get("outcome")?,
        record: row.try_get("record")?,
        cancelled: cancelled != 0,
        owner: row.try_get("owner")?,
        epoch: row.try_get("epoch")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        id,
    })
}

fn no_state(id: &str, word: &str) -> StoreError {
    StoreError::BadRow { table: "turns", column: "state", key: id.to_owned(), reason: format!("{word:?} is no state") }
}

/// Why a queued turn `t` is not first: an earlier turn of its session is not done.
const BEHIND: &str = "EXISTS (SELECT 1 FROM turns e WHERE e.agent = t.agent AND e.session = t.session \
     AND (e.state IN ('running', 'parked') OR (e.state = 'queued' AND (e.seq < t.seq OR (e.seq = t.seq AND e.id < t.id)))))";

/// What the index over running and parked turns is asked by.
const HELD: &str = "state IN ('running', 'parked')";

/// A move that was made, and whether others have something to do because of it.
struct Made {
    moved: TurnMoved,
    loud: bool,
}

impl Database {
    /// Makes a move that is one statement, and so its own transaction: each further one is a round trip. None when it
    /// takes more.
    async fn move_alone(&self, connection: &mut Connection, one: &TurnMove) -> Result<Option<Made>, StoreError> {
        let made = match one {
            TurnMove::Begin { turn, owner: Some(owner), lease_ms } => {
                let now = self.now(connection).await?;
                let began = begin_running(connection, turn, owner, *lease_ms, now).await?;
                began.map(|row| Made { moved: TurnMoved::Begun(Box::new(Begun::New(row))), loud: false })
            }
            TurnMove::Begin { owner: None, .. } | TurnMove::Park { .. } => None,
            TurnMove::Checkpoint { .. } | TurnMove::End { .. } => {
                let now = self.now(connection).await?;
                Some(make(connection, one, now).await?)
            }
        };
        // It is written; whoever misses this looks by themselves a moment later.
        if made.as_ref().is_some_and(|made| made.loud) {
            self.notify(connection, Change::Turn).await?;
        }
        Ok(made)
    }
}

#[async_trait]
impl Turns for Database {
    async fn move_turns(&self, moves: &[TurnMove]) -> Result<Vec<TurnMoved>, StoreError> {
        // A connection that is kept for this: a pool would ask it twice whether it lives.
        let (mut connection, _turn) = self.lend_for_steps().await?;
        if let [one] = moves
            && let Some(Made { moved, loud }) = self.move_alone(&mut connection, one).await?
        {
            self.steps.keep(connection).await;
            if loud {
                self.changes.tell(Change::Turn);
            }
            return Ok(vec![moved]);
        }
        let mut tx = connection.begin_with(BEGIN).await?;
        let now = self.now(&mut tx).await?;
        let mut all = Vec::with_capacity(moves.len());
        let mut anybody = false;
        for one in moves {
            let Made { moved, loud } = make(&mut tx, one, now).await?;
            anybody |= loud;
            all.push(moved);
        }
        if anybody {
            self.notify(&mut tx, Change::Turn).await?;
        }
        tx.commit().await?;
        self.steps.keep(connection).await;
        if anybody {
            self.changes.tell(Change::Turn);
        }
        Ok(all)
    }

    async fn take_turn(&self, id: &str, epoch: i64, owner: &str, lease_ms: i64) -> Result<Option<TurnRow>, StoreError> {
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        let sql = AssertSqlSafe(format!(
            "UPDATE turns AS t SET state = 'running', owner = $1, epoch = epoch + 1, lease_until = $2, updated_at = $3 \
             WHERE id = $4 AND epoch = $5 AND (state = 'parked' OR (state = 'running' AND lease_until < $3) \
             OR (state = 'queued' AND NOT {BEHIND})) RETURNING {COLUMNS}"
        ));
        let taken = sqlx::query(sql)
            .bind(owner)
            .bind(now + lease_ms)
            .bind(now)
            .bind(id)
            .bind(epoch)
            .fetch_optional(&mut *tx)
            .await;
        let row = match taken {
            // Another turn of the session was taken up in the same moment.
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => return Ok(None),
            other => other?,
        };
        let Some(row) = row.as_ref().map(turn_of).transpose()? else { return Ok(None) };
        sqlx::query("DELETE FROM turn_waits WHERE turn_id = $1").bind(id).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(Some(row))
    }

    async fn renew_turns(&self, owner: &str, ids: &[String], lease_ms: i64) -> Result<Vec<String>, StoreError> {
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        let mut cancelled = Vec::new();
        for id in ids {
            let sql = "UPDATE turns SET lease_until = $1 WHERE id = $2 AND owner = $3 AND state = 'running' \
                       RETURNING cancelled";
            let row: Option<i64> =
                sqlx::query_scalar(sql).bind(now + lease_ms).bind(id).bind(owner).fetch_optional(&mut *tx).await?;
            if row == Some(1) {
                cancelled.push(id.clone());
            }
        }
        tx.commit().await?;
        Ok(cancelled)
    }

    async fn cancel_children(&self, parent: &str) -> Result<Vec<String>, StoreError> {
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        let sql = "UPDATE turns SET cancelled = 1, state = CASE WHEN state = 'queued' THEN 'cancelled' ELSE state END, \
                   updated_at = $1 WHERE parent = $2 AND state IN ('queued', 'running', 'parked') RETURNING id";
        let children = sqlx::query_scalar(sql).bind(now).bind(parent).fetch_all(&mut *tx).await?;
        self.commit(tx, Change::Turn).await?;
        Ok(children)
    }

    async fn cancel_turn(&self, id: &str, outcome: &str) -> Result<Option<TurnRow>, StoreError> {
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        let sql = AssertSqlSafe(format!(
            "UPDATE turns SET cancelled = 1, \
             outcome = CASE WHEN state = 'queued' THEN $1 ELSE outcome END, \
             state = CASE WHEN state = 'queued' THEN 'cancelled' ELSE state END, updated_at = $2 \
             WHERE id = $3 AND state IN ('queued', 'running', 'parked') RETURNING {COLUMNS}"
        ));
        let moved = sqlx::query(sql).bind(storable(outcome)).bind(now).bind(id).fetch_optional(&mut *tx).await?;
        let row = match moved {
            Some(row) => Some(turn_of(&row)?),
            None => {
                let sql = AssertSqlSafe(format!("SELECT {COLUMNS} FROM turns WHERE id = $1"));
                sqlx::query(sql).bind(id).fetch_optional(&mut *tx).await?.as_ref().map(turn_of).transpose()?
            }
        };
        self.commit(tx, Change::Turn).await?;
        Ok(row)
    }

    async fn turns_to_take(&self, most: i64, of: Option<&SessionKey>) -> Result<Vec<TurnRow>, StoreError> {
        let now = self.time().await?;
        let of_session = of.map_or("", |_| "AND t.agent = $3 AND t.session = $4");
        // Each kind for itself, so that each goes by its own index, however many turns have ended.
        let sql = AssertSqlSafe(format!(
            "SELECT * FROM (SELECT {COLUMNS} FROM turns t WHERE {HELD} AND state = 'running' AND lease_until < $1 {of_session} LIMIT $2) \
             AS overdue \
             UNION ALL SELECT * FROM (SELECT {COLUMNS} FROM turns t WHERE state = 'queued' AND NOT {BEHIND} {of_session} \
             LIMIT $2) AS queued \
             UNION ALL SELECT * FROM (SELECT {COLUMNS} FROM turns t WHERE {HELD} AND state = 'parked' AND (cancelled = 1 OR NOT EXISTS \
             (SELECT 1 FROM turn_waits w JOIN ledger l ON l.id = w.ledger_id WHERE w.turn_id = t.id \
             AND l.state IN ('proposed', 'awaiting', 'ready', 'claimed', 'sent'))) {of_session} LIMIT $2) AS parked"
        ));
        let mut query = sqlx::query(sql).bind(now).bind(most);
        if let Some(of) = of {
            query = query.bind(&of.agent).bind(storable(&of.session));
        }
        query.fetch_all(self.readers()).await?.iter().map(turn_of).collect()
    }

    async fn unbegun_calls(&self, session: &str, call_ids: &[String]) -> Result<Vec<UnbegunCall>, StoreError> {
        let now = self.time().await?;
        let mut query = QueryBuilder::<Driver>::new(
            "SELECT id, call_id FROM ledger WHERE (state = 'awaiting' OR (state = 'ready' AND lease_until <= ",
        );
        query.push_bind(now).push(")) AND session = ").push_bind(storable(session)).push(" AND call_id IN (");
        let mut list = query.separated(", ");
        // SQL wants at least one value.
        list.push("''");
        for id in call_ids {
            list.push_bind(id.clone());
        }
        query.push(")");
        let rows: Vec<(String, String)> = query.build_query_as().fetch_all(self.readers()).await?;
        Ok(rows.into_iter().map(|(id, call_id)| UnbegunCall { id, call_id }).collect())
    }

    async fn approvals_of_turn(&self, id: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT a.id FROM turn_waits w JOIN approvals a ON a.ledger_id = w.ledger_id \
                   WHERE w.turn_id = $1 AND a.state = 'open' ORDER BY a.id";
        Ok(sqlx::query_scalar(sql).bind(id).fetch_all(self.readers()).await?)
    }

    async fn turn_end(&self, id: &str) -> Result<Option<(TurnState, Option<String>)>, StoreError> {
        let sql = "SELECT state, outcome FROM turns WHERE id = $1";
        let row: Option<(String, Option<String>)> = sqlx::query_as(sql).bind(id).fetch_optional(self.readers()).await?;
        let Some((state, outcome)) = row else { return Ok(None) };
        let state = TurnState::named(&state).ok_or_else(|| no_state(id, &state))?;
        Ok(Some((state, outcome)))
    }

    async fn turn(&self, id: &str) -> Result<Option<TurnRow>, StoreError> {
        let sql = AssertSqlSafe(format!("SELECT {COLUMNS} FROM turns WHERE id = $1"));
        sqlx::query(sql).bind(id).fetch_optional(self.readers()).await?.as_ref().map(turn_of).transpose()
    }

    async fn turns(&self, filter: &TurnFilter, after: Option<&str>, most: i64) -> Result<Page<TurnRow>, StoreError> {
        let columns = COLUMNS.replace("checkpoint, ", "NULL AS checkpoint, ").replace("record, ", "NULL AS record, ");
        let mut query = QueryBuilder::<Driver>::new(format!("SELECT {columns} FROM turns WHERE 1 = 1"));
        for (column, value) in [("agent", filter.agent.as_deref()), ("session", filter.session.as_deref())] {
            if let Some(value) = value {
                query.push(format!(" AND {column} = ")).push_bind(value.to_owned());
            }
        }
        if let Some(state) = filter.state {
            query.push(" AND state = ").push_bind(state.as_str());
        }
        if matches!(filter.state, Some(TurnState::Running | TurnState::Parked)) {
            query.push(" AND ").push(HELD);
        }
        push_agents(&mut query, filter.agents.as_deref());
        if let Some(after) = after {
            query.push(" AND id < ").push_bind(after.to_owned());
        }
        query.push(" ORDER BY id DESC LIMIT ").push_bind(most + 1);
        let rows = query.build().fetch_all(self.readers()).await?;
        let mut items = rows.iter().map(turn_of).collect::<Result<Vec<_>, _>>()?;
        let more = items.len() as i64 > most;
        items.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        let next = items.last().filter(|_| more).map(|row| row.id.clone());
        Ok(Page { items, next })
    }

    async fn session_messages(
        &self,
        agent: &str,
        session: &str,
        most: i64,
        most_bytes: usize,
    ) -> Result<Vec<Told>, StoreError> {
        let sql = "SELECT id, place, messages, updated_at FROM turns \
                   WHERE agent = $1 AND session = $2 AND place IS NOT NULL AND messages IS NOT NULL \
                   ORDER BY seq DESC, place DESC LIMIT $3";
        let mut rows = sqlx::query(sql).bind(agent).bind(storable(session)).bind(most).fetch(self.readers());
        let (mut told, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.try_next().await? {
            let messages: String = row.try_get("messages")?;
            bytes += messages.len();
            if bytes > most_bytes && !told.is_empty() {
                break;
            }
            let (id, place, ended_at) = (row.try_get("id")?, row.try_get("place")?, row.try_get("updated_at")?);
            told.push(Told { id, place, messages, ended_at });
        }
        told.reverse();
        Ok(told)
    }

    async fn purge_turns(&self, age_ms: i64) -> Result<u64, StoreError> {
        let mut tx = self.write().await?;
        let now = self.now(&mut tx).await?;
        let before = now.saturating_sub(age_ms);
        // An id begins with the time of its turn.
        let oldest = format!("{:012x}", before.max(0));
        let sql = "DELETE FROM turns WHERE id IN (SELECT id FROM turns WHERE id < $1 \
                   AND state IN ('completed', 'failed', 'cancelled') AND updated_at < $2 ORDER BY id LIMIT 500)";
        let done = sqlx::query(sql).bind(oldest).bind(before).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(done.rows_affected())
    }
}

async fn make(connection: &mut Connection, one: &TurnMove, now: i64) -> Result<Made, StoreError> {
    Ok(match one {
        TurnMove::Begin { turn, owner, lease_ms } => {
            let running = match owner {
                Some(owner) => begin_running(connection, turn, owner, *lease_ms, now).await?,
                None => None,
            };
            let begun = match running {
                Some(row) => Begun::New(row),
                None => queue(connection, turn, now).await?,
            };
            let loud = matches!(&begun, Begun::New(row) if row.state == TurnState::Queued);
            Made { moved: TurnMoved::Begun(Box::new(begun)), loud }
        }
        TurnMove::Checkpoint { lease, checkpoint } => {
            Made { moved: TurnMoved::Held(write_down(connection, lease, checkpoint, now).await?), loud: false }
        }
        TurnMove::Park { lease, checkpoint, calls } => {
            Made { moved: TurnMoved::Held(park(connection, lease, checkpoint, calls, now).await?), loud: true }
        }
        TurnMove::End { lease, end: how } => {
            let ended = end(connection, lease, how, now).await?;
            // Nobody is told who has nothing to do.
            Made { moved: TurnMoved::Held(ended.is_some()), loud: ended == Some(Awaited(true)) }
        }
    })
}

/// Begins a turn, unless another of its session is not done or it is there already.
async fn begin_running(
    connection: &mut Connection,
    turn: &NewTurn,
    owner: &str,
    lease_ms: i64,
    now: i64,
) -> Result<Option<TurnRow>, StoreError> {
    // Two first turns of a session that meet: the index lets one of them run.
    let sql = "INSERT INTO turns (id, agent, session, parent, state, seq, input, owner, epoch, lease_until, created_at, updated_at) \
         SELECT $1, $2, $3, $4, 'running', \
         (SELECT COALESCE(MAX(e.seq), 0) + 1 FROM turns e WHERE e.agent = $2 AND e.session = $3), \
         $5, $6, 1, $7, $8, $8 WHERE NOT EXISTS \
         (SELECT 1 FROM turns e WHERE e.agent = $2 AND e.session = $3 AND e.state IN ('running', 'parked')) \
         AND NOT EXISTS (SELECT 1 FROM turns e WHERE e.agent = $2 AND e.session = $3 AND e.state = 'queued') \
         ON CONFLICT DO NOTHING RETURNING seq";
    let (session, input) = (storable(&turn.session), storable(&turn.input));
    // All rows, since on SQLite a statement of its own is on the disk when its last row was read.
    let seq: Vec<i64> = sqlx::query_scalar(sql)
        .bind(&turn.id)
        .bind(&turn.agent)
        .bind(&session)
        .bind(&turn.parent)
        .bind(&input)
        .bind(owner)
        .bind(now + lease_ms)
        .bind(now)
        .fetch_all(&mut *connection)
        .await?;
    Ok(seq.first().map(|&seq| turn.begun_by(owner, seq, now)))
}

/// Queues a turn, or finds the one of this id.
async fn queue(connection: &mut Connection, turn: &NewTurn, now: i64) -> Result<Begun, StoreError> {
    let (session, input) = (storable(&turn.session), storable(&turn.input));
    let queued = sqlx::query(
        "INSERT INTO turns (id, agent, session, parent, state, seq, input, epoch, created_at, updated_at) \
         SELECT $1, $2, $3, $4, 'queued', \
         (SELECT COALESCE(MAX(e.seq), 0) + 1 FROM turns e WHERE e.agent = $2 AND e.session = $3), \
         $5, 0, $6, $6 WHERE NOT EXISTS (SELECT 1 FROM turns e WHERE e.id = $1) ON CONFLICT (id) DO NOTHING",
    )
    .bind(&turn.id)
    .bind(&turn.agent)
    .bind(&session)
    .bind(&turn.parent)
    .bind(&input)
    .bind(now)
    .execute(&mut *connection)
    .await?;
    let sql = AssertSqlSafe(format!("SELECT {COLUMNS} FROM turns WHERE id = $1"));
    let row = turn_of(&sqlx::query(sql).bind(&turn.id).fetch_one(&mut *connection).await?)?;
    Ok(if queued.rows_affected() == 1 { Begun::New(row) } else { Begun::Known(row) })
}

async fn write_down(tx: &mut Connection, lease: &TurnLease, checkpoint: &str, now: i64) -> Result<bool, StoreError> {
    let sql = "UPDATE turns SET checkpoint = $1, updated_at = $2 \
               WHERE id = $3 AND owner = $4 AND epoch = $5 AND state = 'running'";
    let done = sqlx::query(sql)
        .bind(storable(checkpoint))
        .bind(now)
        .bind(&lease.id)
        .bind(&lease.owner)
        .bind(lease.epoch)
        .execute(&mut *tx)
        .await?;
    Ok(done.rows_affected() == 1)
}

async fn park(
    tx: &mut Connection,
    lease: &TurnLease,
    checkpoint: &str,
    calls: &[String],
    now: i64,
) -> Result<bool, StoreError> {
    let sql = "UPDATE turns SET state = 'parked', checkpoint = $1, owner = NULL, lease_until = NULL, \
               updated_at = $2 WHERE id = $3 AND owner = $4 AND epoch = $5 AND state = 'running'";
    let done = sqlx::query(sql)
        .bind(storable(checkpoint))
        .bind(now)
        .bind(&lease.id)
        .bind(&lease.owner)
        .bind(lease.epoch)
        .execute(&mut *tx)
        .await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    for call in calls {
        sqlx::query("INSERT INTO turn_waits (turn_id, ledger_id) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(&lease.id)
            .bind(call)
            .execute(&mut *tx)
            .await?;
    }
    Ok(true)
}

/// Whether a turn of the same session is queued behind one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Awaited(bool);

/// Ends a turn; none when it is not the owner's any more.
async fn end(tx: &mut Connection, lease: &TurnLease, end: &TurnEnd, now: i64) -> Result<Option<Awaited>, StoreError> {
    // One turn of a session is at its end at a time, so the places are whole; and they are in the order of the seqs.
    let sql = "UPDATE turns SET state = $1, outcome = $2, messages = $3, record = $4, checkpoint = NULL, \
               place = COALESCE((SELECT e.place FROM turns e WHERE e.agent = turns.agent AND e.session = turns.session \
                        AND e.seq <= turns.seq AND e.place IS NOT NULL ORDER BY e.seq DESC, e.place DESC LIMIT 1), 0) + 1, \
               owner = NULL, lease_until = NULL, updated_at = $5 \
               WHERE id = $6 AND owner = $7 AND epoch = $8 AND state = 'running' RETURNING \
               (SELECT COUNT(*) FROM turns q WHERE q.agent = turns.agent AND q.session = turns.session \
               AND q.state = 'queued')";
    let queued: Vec<i64> = sqlx::query_scalar(sql)
        .bind(end.state.as_str())
        .bind(storable(&end.outcome))
        .bind(end.messages.as_deref().map(storable))
        .bind(storable(&end.record))
        .bind(now)
        .bind(&lease.id)
        .bind(&lease.owner)
        .bind(lease.epoch)
        .fetch_all(&mut *tx)
        .await?;
    Ok(queued.first().map(|&queued| Awaited(queued > 0)))
}
