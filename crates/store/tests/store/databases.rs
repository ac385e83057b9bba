//! A database for each test: SQLite always, Postgres where there is one.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use secrecy::ExposeSecret;
use sqlx::Connection;
use tempfile::TempDir;
use tokio::sync::Mutex;
use toolcrib_store::{Clock, Location, OsRandomness, Store};

/// A clock that stands still until it is set.
pub struct Stopped(pub AtomicI64);

impl Clock for Stopped {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// An open database, whose folder or schema is the test's own.
pub struct Opened {
    pub store: Store,
    pub clock: Arc<Stopped>,
    pub location: Location,
    pub folder: TempDir,
    /// A connection beside the store's, to a Postgres whose clock is the test's.
    beside: Option<Mutex<sqlx::PgConnection>>,
}

impl Opened {
    pub async fn at(location: Location, folder: TempDir) -> Self {
        let clock = Arc::new(Stopped(AtomicI64::new(1_000_000)));
        let store = Store::open(&location, Arc::<Stopped>::clone(&clock), Arc::new(OsRandomness)).await.unwrap();
        let beside = match &location {
            Location::Postgres(url) => {
                let mut beside = sqlx::PgConnection::connect(url.expose_secret()).await.unwrap();
                let sql = "CREATE TABLE test_clock AS SELECT 1000000::BIGINT AS now;
                     CREATE OR REPLACE FUNCTION now_ms() RETURNS BIGINT LANGUAGE sql VOLATILE AS
                     'SELECT now FROM test_clock'";
                sqlx::raw_sql(sql).execute(&mut beside).await.unwrap();
                Some(Mutex::new(beside))
            }
            _ => None,
        };
        Self { store, clock, location, folder, beside }
    }

    /// Sets the database's clock, in ms since 1970.
    pub async fn set_clock(&self, now: i64) {
        self.clock.0.store(now, Ordering::SeqCst);
        if let Some(beside) = &self.beside {
            let set = sqlx::query("UPDATE test_clock SET now = $1").bind(now);
            set.execute(&mut *beside.lock().await).await.unwrap();
        }
    }

    /// Every column of a SQLite file, as table.column.
    pub async fn columns(&self) -> Vec<String> {
        let path = self.folder.path().join("test.db");
        let mut other = sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
        let sql =
            "SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'";
        sqlx::query_scalar(sql).fetch_all(&mut other).await.unwrap()
    }

    /// Empties tables.
    pub async fn empty(&self, tables: &[&str]) {
        let sql: Vec<String> = tables.iter().map(|table| format!("DELETE FROM {table}")).collect();
        let sql = sqlx::AssertSqlSafe(sql.join("; "));
        match (&self.location, &self.beside) {
            (_, Some(beside)) => drop(sqlx::raw_sql(sql).execute(&mut *beside.lock().await).await.unwrap()),
            (Location::File(path), None) => {
                let mut other = sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut other).await.unwrap();
            }
            _ => {}
        }
    }
}

/// How many histories a model is tried with: `TOOLCRIB_HISTORIES`, else a few.
#[expect(clippy::disallowed_methods, reason = "the environment says how long the test may take")]
pub fn histories() -> u32 {
    std::env::var("TOOLCRIB_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

/// A new SQLite file.
pub async fn sqlite() -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::File(folder.path().join("test.db"));
    Opened::at(location, folder).await
}

/// A new schema in the Postgres of `TOOLCRIB_TEST_POSTGRES`; none when there is no such server. In CI there has to be one.
#[expect(clippy::disallowed_methods, reason = "the environment says where the test's Postgres is")]
pub async fn postgres() -> Option<Opened> {
    let Ok(url) = std::env::var("TOOLCRIB_TEST_POSTGRES") else {
        assert!(std::env::var("CI").is_err(), "TOOLCRIB_TEST_POSTGRES is not set, and CI skips no test");
        eprintln!("SKIPPED on Postgres: set TOOLCRIB_TEST_POSTGRES to what `tests/postgres start FOLDER` prints");
        return None;
    };
    let schema = format!("test_{}", toolcrib_store::Randomness::hex(&OsRandomness));
    let mut admin = sqlx::PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&mut admin).await.unwrap();
    let location = Location::Postgres(format!("{url}?options=-csearch_path%3D{schema}").into());
    Some(Opened::at(location, tempfile::tempdir().unwrap()).await)
}

/// Runs one test on every database there is.
macro_rules! on_every_database {
    ($($(#[$meta:meta])* async fn $name:ident($opened:ident: Opened) $body:block)*) => {
        $(mod $name {
            use super::*;

            async fn check($opened: $crate::databases::Opened) $body

            #[tokio::test]
            async fn on_sqlite() {
                check($crate::databases::sqlite().await).await;
            }

            #[tokio::test]
            async fn on_postgres() {
                if let Some(opened) = $crate::databases::postgres().await {
                    check(opened).await;
                }
            }
        })*
    };
}
pub(crate) use on_every_database;
