//! Opening the database, and the connections to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Sqlite, Transaction};

use crate::clock::{Clock, Randomness};
use crate::error::StoreError;
use crate::migrations;
use crate::revision::Revision;

/// How long a write waits for another process before it is refused.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const READERS: u32 = 4;

/// Where the database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A file, made when it is not there.
    File(PathBuf),
    /// Memory, gone with the store: for tests and for trying things.
    Memory,
}

/// The rows. Cloning is cheap and shares the connections.
#[derive(Clone)]
pub struct Store {
    writer: SqlitePool,
    readers: SqlitePool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) randomness: Arc<dyn Randomness>,
}

impl Store {
    /// Opens the database and brings its schema up to date.
    ///
    /// SQLite takes one writer at a time, so there is one connection for writing and a few for
    /// reading. A commit is on the disk before it is acknowledged (`synchronous = FULL`).
    ///
    /// # Errors
    /// [`StoreError`] when the file can't be opened, is newer than this program, or is damaged.
    pub async fn open(
        location: &Location,
        clock: Arc<dyn Clock>,
        randomness: Arc<dyn Randomness>,
    ) -> Result<Self, StoreError> {
        let base = SqliteConnectOptions::new()
            .create_if_missing(true)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .pragma("temp_store", "memory");
        let options = match location {
            Location::File(path) => base.filename(path),
            Location::Memory => {
                let name = format!("file:toolcrib-{}?mode=memory&cache=shared", randomness.hex());
                base.in_memory(true).shared_cache(true).filename(name)
            }
        };
        let single = SqlitePoolOptions::new().max_connections(1).acquire_timeout(BUSY_TIMEOUT);
        let writer =
            single.min_connections(1).idle_timeout(None).max_lifetime(None).connect_with(options.clone()).await?;
        migrations::sqlite().run(&writer).await?;
        let readers = match location {
            Location::File(_) => {
                let options = options.pragma("query_only", "on");
                let pool = SqlitePoolOptions::new().max_connections(READERS).acquire_timeout(BUSY_TIMEOUT);
                pool.connect_with(options).await?
            }
            // Readers of a shared memory cache would meet table locks; they share the one connection.
            Location::Memory => writer.clone(),
        };
        Ok(Self { writer, readers, clock, randomness })
    }

    /// The revision of the catalog.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    pub async fn revision(&self) -> Result<Revision, StoreError> {
        let sql = "SELECT revision FROM catalog WHERE id = 1";
        Ok(Revision(sqlx::query_scalar(sql).fetch_one(self.readers()).await?))
    }

    /// Whether the file is whole, by the database's own check. Reads the whole file.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it is not, or another when it can't be read.
    pub async fn check_integrity(&self) -> Result<(), StoreError> {
        let found: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check").fetch_all(self.readers()).await?;
        if found == ["ok"] { Ok(()) } else { Err(StoreError::Corrupt) }
    }

    /// Lets the file grow to this many pages (of 4 KiB by default) and no further; a write beyond is
    /// refused as on a full disk. It holds until the database is opened anew.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be used.
    pub async fn limit_pages(&self, pages: i64) -> Result<(), StoreError> {
        let sql = AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&self.writer).await?;
        Ok(())
    }

    /// Closes all connections, and with them folds the write-ahead log into the file.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    pub(crate) fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// Begins a transaction that holds the right to write from its start.
    pub(crate) async fn write(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
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

    /// The clock that stamps rows.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The randomness that ids are made of.
    pub fn randomness(&self) -> &Arc<dyn Randomness> {
        &self.randomness
    }
}
