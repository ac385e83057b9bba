//! The rows in SQLite: its connections, and what it does in its own way.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Row as _, Sqlite, Transaction, TypeInfo as _, ValueRef as _};

use crate::changes::{Change, Changes};
use crate::clock::{Clock, Randomness};
use crate::copy::CopyTransaction;
use crate::effect::SqlValue;
use crate::error::StoreError;
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
#[path = "sql/ledger_steps.rs"]
mod ledger_steps;
#[path = "sql/mcp_servers.rs"]
mod mcp_servers;
#[path = "sql/revision.rs"]
mod revision;
#[path = "sql/tokens.rs"]
mod tokens;
#[path = "sql/tools.rs"]
mod tools;
#[path = "sql/traces.rs"]
mod traces;

/// How long a write waits for another process before it is refused.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a transactional call may hold the right to write: less than others wait for it.
const EFFECT_LIMIT: Duration = Duration::from_secs(4);
/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 300;
const READERS: u32 = 4;

type Driver = Sqlite;
type Row = sqlx::sqlite::SqliteRow;
type Tx = Transaction<'static, Sqlite>;

/// A SQLite file, or one in memory.
///
/// SQLite takes one writer at a time, so there is one connection for writing and a few for reading. A
/// commit is on the disk before it is acknowledged (`synchronous = FULL`).
pub(crate) struct Database {
    writer: SqlitePool,
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
        let readers = readers.connect_with(options.pragma("query_only", "on")).await?;
        Ok(Self { writer, readers, clock, randomness, changes: Changes::default() })
    }

    pub(crate) async fn open_memory(
        clock: Arc<dyn Clock>,
        randomness: Arc<dyn Randomness>,
    ) -> Result<Self, StoreError> {
        let name = format!("file:toolcrib-{}?mode=memory&cache=shared", randomness.hex());
        let writer = open_writer(options().in_memory(true).shared_cache(true).filename(name)).await?;
        // Readers of a shared memory cache would meet table locks; they share the one connection.
        Ok(Self { readers: writer.clone(), writer, clock, randomness, changes: Changes::default() })
    }

    fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// Begins a transaction that holds the right to write from its start.
    async fn write(&self) -> Result<Tx, StoreError> {
        match self.writer.begin_with("BEGIN IMMEDIATE").await {
            // A full disk makes SQLite itself roll back, and then the library counts one transaction too
            // many on that connection for ever. Another connection has a clean count.
            Err(sqlx::Error::InvalidSavePointStatement) => {
                self.writer.acquire().await?.close().await?;
                Ok(self.writer.begin_with("BEGIN IMMEDIATE").await?)
            }
            other => Ok(other?),
        }
    }

    /// Begins a transaction of steps of the ledger.
    async fn write_steps(&self) -> Result<Tx, StoreError> {
        self.write().await
    }

    /// The time by which leases and approvals end: that of the one machine that has the file.
    async fn now(&self, _tx: &mut Tx) -> Result<i64, StoreError> {
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
        let sql = AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&self.writer).await?;
        Ok(())
    }

    async fn begin_copy(&self) -> Result<CopyTransaction, StoreError> {
        Ok(CopyTransaction(Box::new(copy::Tables(self.write().await?))))
    }

    fn step_writers(&self) -> usize {
        1
    }

    fn effect_limit(&self) -> Option<Duration> {
        Some(EFFECT_LIMIT)
    }

    fn changes(&self) -> &Changes {
        &self.changes
    }

    async fn close(&self) {
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

async fn open_writer(options: SqliteConnectOptions) -> Result<SqlitePool, StoreError> {
    let single = SqlitePoolOptions::new().max_connections(1).acquire_timeout(BUSY_TIMEOUT);
    let writer = single.min_connections(1).idle_timeout(None).max_lifetime(None).connect_with(options).await?;
    migrations::sqlite().run(&writer).await?;
    Ok(writer)
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
