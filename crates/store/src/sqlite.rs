//! The rows in SQLite: its connections, and what it does in its own way.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Row as _, Sqlite, Transaction, TypeInfo as _, ValueRef as _};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

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

/// How long a write waits for another process before it is refused.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a transactional call may hold the right to write: less than others wait for it.
const EFFECT_LIMIT: Duration = Duration::from_secs(4);
/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 300;
const READERS: u32 = 4;

type Driver = Sqlite;
type Row = sqlx::sqlite::SqliteRow;
type Connection = sqlx::SqliteConnection;

/// Transactions of steps at the same time: one, as there is one writer.
const LANES: usize = 1;

/// How a transaction begins that writes: with the right to write, which it waits for.
const BEGIN: &str = "BEGIN IMMEDIATE";

/// A transaction that writes, while it is its turn. It is rolled back when it is dropped.
struct Tx {
    transaction: Transaction<'static, Sqlite>,
    _turn: Turn,
}

impl Tx {
    async fn commit(self) -> Result<(), sqlx::Error> {
        self.transaction.commit().await
    }

    async fn rollback(self) -> Result<(), sqlx::Error> {
        self.transaction.rollback().await
    }
}

impl Deref for Tx {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.transaction
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.transaction
    }
}

/// The right of one of this process's connections to write: SQLite itself would let the others wait in long naps.
type Turn = OwnedMutexGuard<()>;

/// A SQLite file, or one in memory.
///
/// SQLite takes one writer at a time, so there is one connection for writing, one for the steps of the ledger, which take
/// turns with it, and a few for reading. A
/// commit is on the disk before it is acknowledged (`synchronous = FULL`).
pub(crate) struct Database {
    writer: SqlitePool,
    steps: Lender<Sqlite>,
    turns: Arc<Mutex<()>>,
    readers: SqlitePool,
    clock: Arc<dyn Clock>,
    randomness: Arc<dyn Randomness>,
    changes: Changes,
}

impl Database {
    pub(crate) async fn open_file(
        path: &Path,
        clock: Arc<dyn Clock>,
        randomness: Arc<dyn Randomness>,
    ) -> Result<Self, StoreError> {
        let options = options().filename(path);
        let writer = open_writer(options.clone()).await?;
        let readers = SqlitePoolOptions::new().max_connections(READERS).acquire_timeout(BUSY_TIMEOUT);
        let readers = readers.connect_with(options.clone().pragma("query_only", "on")).await?;
        let steps = Lender::keeping(options);
        Ok(Self { writer, steps, turns: Arc::default(), readers, clock, randomness, changes: Changes::default() })
    }

    pub(crate) async fn open_memory(
        clock: Arc<dyn Clock>,
        randomness: Arc<dyn Randomness>,
    ) -> Result<Self, StoreError> {
        let name = format!("file:toolcrib-{}?mode=memory&cache=shared", randomness.hex());
        let writer = open_writer(options().in_memory(true).shared_cache(true).filename(name)).await?;
        // Others of a shared memory cache would meet table locks; they share the one connection.
        let (readers, steps) = (writer.clone(), Lender::Pool(writer.clone()));
        Ok(Self { writer, steps, turns: Arc::default(), readers, clock, randomness, changes: Changes::default() })
    }

    fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// Begins a transaction that holds the right to write from its start.
    async fn write(&self) -> Result<Tx, StoreError> {
        let turn = self.turn().await?;
        let transaction = match self.writer.begin_with(BEGIN).await {
            // A full disk makes SQLite itself roll back, and then the library counts one transaction too
            // many on that connection for ever. Another connection has a clean count.
            Err(sqlx::Error::InvalidSavePointStatement) => {
                self.writer.acquire().await?.close().await?;
                self.writer.begin_with(BEGIN).await?
            }
            other => other?,
        };
        Ok(Tx { transaction, _turn: turn })
    }

    async fn turn(&self) -> Result<Turn, StoreError> {
        tokio::time::timeout(BUSY_TIMEOUT, Arc::clone(&self.turns).lock_owned()).await.map_err(|_| StoreError::Busy)
    }

    /// The connection for a transaction of steps of the ledger.
    async fn lend_for_steps(&self) -> Result<(Lent<Sqlite>, Turn), StoreError> {
        let turn = self.turn().await?;
        Ok((self.steps.lend().await?, turn))
    }

    /// Nobody else is told: other processes look by themselves.
    #[expect(clippy::unused_async, reason = "the other database's is async")]
    async fn notify(&self, _connection: &mut Connection, _change: Change) -> Result<(), StoreError> {
        Ok(())
    }

    /// The time by which leases and approvals end: that of the one machine that has the file.
    async fn now(&self, _connection: &mut Connection) -> Result<i64, StoreError> {
        Ok(self.clock.now_ms())
    }

    /// The same outside a transaction.
    async fn time(&self) -> Result<i64, StoreError> {
        Ok(self.clock.now_ms())
    }

    /// Begins a transaction that writes to the catalog. It is alone from its start.
    async fn write_catalog(&self) -> Result<Tx, StoreError> {
        self.write().await
    }

    /// Commits, and tells who waits for such a change. Other processes look by themselves.
    async fn commit(&self, tx: Tx, change: Change) -> Result<(), StoreError> {
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
        let found: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check").fetch_all(self.readers()).await?;
        if found == ["ok"] { Ok(()) } else { Err(StoreError::Corrupt) }
    }

    async fn limit_pages(&self, pages: i64) -> Result<(), StoreError> {
        let limit = || sqlx::query_scalar::<_, i64>(AssertSqlSafe(format!("PRAGMA max_page_count = {pages}")));
        limit().fetch_one(&self.writer).await?;
        let (mut connection, _turn) = self.lend_for_steps().await?;
        limit().fetch_one(&mut *connection).await?;
        self.steps.keep(connection).await;
        Ok(())
    }

    async fn begin_copy(&self) -> Result<CopyTransaction, StoreError> {
        Ok(CopyTransaction(Box::new(copy::Tables(self.write().await?))))
    }

    fn lanes(&self) -> usize {
        LANES
    }

    fn effect_limit(&self) -> Option<Duration> {
        Some(EFFECT_LIMIT)
    }

    fn changes(&self) -> &Changes {
        &self.changes
    }

    async fn close(&self) {
        self.steps.close().await;
        self.readers.close().await;
        self.writer.close().await;
    }
}

fn options() -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .create_if_missing(true)
        .foreign_keys(true)
        .statement_cache_capacity(STATEMENTS)
        .busy_timeout(BUSY_TIMEOUT)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("temp_store", "memory")
}

/// How long a process waits before it tries again to set up a file that another is setting up.
const SET_UP_PAUSE: Duration = Duration::from_millis(20);

async fn open_writer(options: SqliteConnectOptions) -> Result<SqlitePool, StoreError> {
    let writer = connect_writer(options).await?;
    // A database that is up to date is only read. Two processes may migrate one at once: who fails does what is left alone.
    if migrations::sqlite().run(&writer).await.is_err() {
        let mut alone = writer.begin_with(BEGIN).await?;
        migrations::sqlite().run(&mut *alone).await?;
        alone.commit().await?;
    }
    Ok(writer)
}

/// The one connection that writes. It brings a new file into WAL mode, and for that SQLite does not wait: it says busy at once
/// while another process does the same.
async fn connect_writer(options: SqliteConnectOptions) -> Result<SqlitePool, StoreError> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        let single = SqlitePoolOptions::new().max_connections(1).acquire_timeout(BUSY_TIMEOUT);
        let single = single.min_connections(1).idle_timeout(None).max_lifetime(None);
        match single.connect_with(options.clone()).await.map_err(StoreError::from) {
            Err(StoreError::Busy) if Instant::now() < deadline => tokio::time::sleep(SET_UP_PAUSE).await,
            other => return other,
        }
    }
}

/// The time of a statement: this machine's, which has the file.
fn push_now(query: &mut sqlx::QueryBuilder<Sqlite>, now: i64) {
    query.push_bind(now);
}

/// SQLite has one writer, so there is nothing to skip.
const SKIP_LOCKED: &str = "";

/// A column of any type.
fn sql_value(row: &Row, place: usize) -> Result<SqlValue, StoreError> {
    let value = row.try_get_raw(place)?;
    if value.is_null() {
        return Ok(SqlValue::Null);
    }
    Ok(match value.type_info().name() {
        "TEXT" => SqlValue::Text(row.try_get_unchecked(place)?),
        "REAL" => SqlValue::Real(row.try_get_unchecked(place)?),
        "BLOB" => SqlValue::Blob(row.try_get_unchecked(place)?),
        _ => SqlValue::Integer(row.try_get_unchecked(place)?),
    })
}

/// A text column. SQLite keeps any value in any column: what is no text is taken over as well as it can be,
/// so that it is reported as a row that does not validate and hides no other.
fn text_of(row: &Row, column: &str) -> Result<Option<String>, sqlx::Error> {
    match row.try_get::<Option<String>, _>(column) {
        Ok(text) => Ok(text),
        Err(_) => {
            let bytes = row.try_get_unchecked::<Vec<u8>, _>(column).unwrap_or_default();
            Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
        }
    }
}
