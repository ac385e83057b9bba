//! The rows in Postgres: its connections, and what it does in its own way.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use sqlx::{Postgres, Row as _, Transaction, TypeInfo as _, ValueRef as _};
use tokio::task::JoinHandle;

use crate::changes::{Change, Changes};
use crate::clock::{Clock, Randomness};
use crate::copy::CopyTransaction;
use crate::effect::SqlValue;
use crate::error::StoreError;
use crate::lent::{Lender, Lent};
use crate::migrations;
use crate::revision::Revision;
use crate::store::Rows;

// The statements stand once and are compiled for each database.
#[path = "sql/agents.rs"]
mod agents;
#[path = "sql/approvals.rs"]
mod approvals;
#[path = "sql/copy.rs"]
mod copy;
#[path = "sql/effect.rs"]
mod effect;
#[path = "sql/evidence.rs"]
mod evidence;
#[path = "sql/ledger.rs"]
mod ledger;
#[path = "sql/ledger_proposals.rs"]
mod ledger_proposals;
#[path = "sql/ledger_steps.rs"]
mod ledger_steps;
#[path = "sql/mcp_servers.rs"]
mod mcp_servers;
#[path = "sql/packs.rs"]
mod packs;
#[path = "sql/revision.rs"]
mod revision;
#[path = "sql/skills.rs"]
mod skills;
#[path = "sql/tokens.rs"]
mod tokens;
#[path = "sql/tools.rs"]
mod tools;
#[path = "sql/traces.rs"]
mod traces;
#[path = "sql/turns.rs"]
mod turns;

/// How long a connection is waited for before a request is refused.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECTIONS: u32 = 10;
/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 300;
/// The channel of NOTIFY, whose payload is the word of a [`Change`].
const CHANNEL: &str = "toolcrib";
/// How long a broken connection that listens is left alone.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

type Driver = Postgres;
type Row = sqlx::postgres::PgRow;
type Tx = Transaction<'static, Postgres>;
type Connection = sqlx::PgConnection;

/// Transactions of steps at the same time: proposals in one, moves in the other, each mostly of one statement.
const LANES: usize = 2;

/// How a transaction begins that writes.
const BEGIN: &str = "BEGIN";

/// A Postgres database, which several replicas may share.
pub(crate) struct Database {
    pool: PgPool,
    steps: Lender<Postgres>,
    clock: Arc<dyn Clock>,
    randomness: Arc<dyn Randomness>,
    changes: Changes,
    listening: JoinHandle<()>,
}

impl Drop for Database {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Database {
    pub(crate) async fn open(
        url: &str,
        clock: Arc<dyn Clock>,
        randomness: Arc<dyn Randomness>,
    ) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url)?
            .application_name("toolcrib")
            .statement_cache_capacity(STATEMENTS)
            .options([("client_min_messages", "warning")]);
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_with(options.clone())
            .await?;
        migrations::postgres().run(&pool).await?;
        // Shorter than a step is waited for: what is given up is not written later.
        let steps = Lender::keeping(options.clone().options([("statement_timeout", "8000")]));
        let changes = Changes::default();
        let listening = tokio::spawn(listen(options, changes.clone()));
        Ok(Self { pool, steps, clock, randomness, changes, listening })
    }

    fn readers(&self) -> &PgPool {
        &self.pool
    }

    async fn write(&self) -> Result<Tx, StoreError> {
        Ok(self.pool.begin().await?)
    }

    /// A connection for a transaction of steps of the ledger.
    async fn lend_for_steps(&self) -> Result<(Lent<Postgres>, ()), StoreError> {
        let lent = tokio::time::timeout(ACQUIRE_TIMEOUT, self.steps.lend()).await.map_err(|_| StoreError::Busy)?;
        Ok((lent?, ()))
    }

    /// Tells other replicas, when the transaction commits.
    async fn notify(&self, connection: &mut Connection, change: Change) -> Result<(), StoreError> {
        sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(change.as_str()).execute(connection).await?;
        Ok(())
    }

    /// The time by which leases and approvals end, the same for all replicas.
    async fn now(&self, connection: &mut Connection) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("SELECT now_ms()").fetch_one(connection).await?)
    }

    /// The same outside a transaction.
    async fn time(&self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("SELECT now_ms()").fetch_one(self.readers()).await?)
    }

    /// Begins a transaction that writes to the catalog. It is alone from its start, as on SQLite: what it
    /// reads of the catalog holds until it commits.
    async fn write_catalog(&self) -> Result<Tx, StoreError> {
        let mut tx = self.write().await?;
        sqlx::query("SELECT revision FROM catalog WHERE id = 1 FOR UPDATE").execute(&mut *tx).await?;
        Ok(tx)
    }

    /// Commits, and tells who waits for such a change here and in other replicas.
    async fn commit(&self, mut tx: Tx, change: Change) -> Result<(), StoreError> {
        self.notify(&mut tx, change).await?;
        tx.commit().await?;
        self.changes.tell(change);
        Ok(())
    }
}

#[async_trait]
impl Rows for Database {
    async fn revision(&self) -> Result<Revision, StoreError> {
        let sql = "SELECT revision FROM catalog WHERE id = 1";
        Ok(Revision(sqlx::query_scalar(sql).fetch_one(self.readers()).await?))
    }

    async fn check_integrity(&self) -> Result<(), StoreError> {
        self.revision().await.map(drop)
    }

    async fn limit_pages(&self, _pages: i64) -> Result<(), StoreError> {
        Err(StoreError::Refused { reason: "a Postgres database has no such bound".to_owned() })
    }

    async fn begin_copy(&self) -> Result<CopyTransaction, StoreError> {
        let mut tx = self.write().await?;
        sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").execute(&mut *tx).await?;
        Ok(CopyTransaction(Box::new(copy::Tables(tx))))
    }

    fn lanes(&self) -> usize {
        LANES
    }

    fn effect_limit(&self) -> Option<Duration> {
        None
    }

    fn changes(&self) -> &Changes {
        &self.changes
    }

    async fn close(&self) {
        self.listening.abort();
        self.steps.close().await;
        self.pool.close().await;
    }
}

/// Tells what other replicas say. A connection that broke is made again; what was said meanwhile is found by
/// those who look now and then.
async fn listen(options: PgConnectOptions, changes: Changes) {
    loop {
        if let Err(error) = listen_once(options.clone(), &changes).await {
            tracing::warn!(error = %error, "store.changes.listen failed; changes are found by looking");
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

async fn listen_once(options: PgConnectOptions, changes: &Changes) -> Result<(), sqlx::Error> {
    let pool = PgPoolOptions::new().max_connections(1).connect_with(options).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(CHANNEL).await?;
    while let Some(notification) = listener.try_recv().await? {
        if let Some(change) = Change::named(notification.payload()) {
            changes.tell(change);
        }
    }
    Ok(())
}

/// The time of a statement: the database's, whatever this machine says.
fn push_now(query: &mut sqlx::QueryBuilder<Postgres>, _now: i64) {
    query.push("(SELECT now_ms())");
}

/// Rows that another replica is about to move are left to it.
const SKIP_LOCKED: &str = "FOR UPDATE SKIP LOCKED";

/// A column of any type that has a counterpart.
fn sql_value(row: &Row, place: usize) -> Result<SqlValue, StoreError> {
    let value = row.try_get_raw(place)?;
    if value.is_null() {
        return Ok(SqlValue::Null);
    }
    Ok(match value.type_info().name() {
        "BOOL" => SqlValue::Integer(row.try_get::<bool, _>(place)?.into()),
        "INT2" => SqlValue::Integer(row.try_get::<i16, _>(place)?.into()),
        "INT4" => SqlValue::Integer(row.try_get::<i32, _>(place)?.into()),
        "INT8" => SqlValue::Integer(row.try_get(place)?),
        "FLOAT4" => SqlValue::Real(row.try_get::<f32, _>(place)?.into()),
        "FLOAT8" => SqlValue::Real(row.try_get(place)?),
        "BYTEA" => SqlValue::Blob(row.try_get(place)?),
        "TEXT" | "VARCHAR" | "CHAR" | "NAME" => SqlValue::Text(row.try_get(place)?),
        other => {
            let reason = format!("a column of the type {other} can't be read; cast it, such as column::text");
            return Err(StoreError::Refused { reason });
        }
    })
}

/// A text column.
fn text_of(row: &Row, column: &str) -> Result<Option<String>, sqlx::Error> {
    row.try_get(column)
}
