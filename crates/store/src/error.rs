//! What can go wrong with the rows.

use sqlx::migrate::MigrateError;
use sqlx::postgres::PgDatabaseError;

/// A read or write that failed; nothing of a failed write is kept.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Somebody else wrote first.
    #[error("{what} was changed by somebody else: it is at revision {actual}, not {expected}; read it again")]
    StaleRevision {
        /// What was to be written.
        what: String,
        /// What the writer knew, in words.
        expected: String,
        /// The revision there is.
        actual: i64,
    },
    /// The row that was to be changed is not there.
    #[error("{what} is not there any more; write it without a precondition to make it")]
    Missing {
        /// What was to be written.
        what: String,
    },
    /// The disk is full.
    #[error("the disk is full; make room and try again. Nothing of this write was kept")]
    Full,
    /// Another process holds the database, or all connections are in use, for longer than we wait.
    #[error("the database is busy, or locked by another process; try again. Nothing of a write was kept")]
    Busy,
    /// The database is damaged.
    #[error("the database is damaged; restore it from a backup")]
    Corrupt,
    /// The database can't be opened or read.
    #[error("the database can't be used; the log says why")]
    Unavailable {
        /// What the database says.
        reason: String,
    },
    /// The database does not take a row or a statement, now or later.
    #[error("the database refuses the write; the log says why")]
    Refused {
        /// What the database says.
        reason: String,
    },
    /// A row can't be read.
    #[error("the row {key:?} of {table} can't be read: {column}: {reason}")]
    BadRow {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The key of the row.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The database was written by a newer version, or a migration failed.
    #[error("the database can't be migrated: {reason}")]
    Migration {
        /// Why.
        reason: String,
    },
}

/// The codes of [`StoreError`] with what they mean, for the reference.
pub const STORE_CODES: &[(&str, &str)] = &[
    ("store.stale_revision", "Somebody else wrote first; read the new state, then write again."),
    ("store.full", "The disk is full. Nothing of the write was kept."),
    (
        "store.busy",
        "Another process holds the database, or all its connections are in use. Nothing of the write was kept.",
    ),
    ("store.corrupt", "The database is damaged."),
    ("store.unavailable", "The database can't be opened or read."),
    ("store.refused", "The database does not take a row or a statement; the log says why."),
    ("store.bad_row", "A stored row can't be read; doctor names it."),
    ("store.migration", "The database is newer than this program, or a migration failed."),
];

impl StoreError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::StaleRevision { .. } | StoreError::Missing { .. } => "store.stale_revision",
            StoreError::Full => "store.full",
            StoreError::Busy => "store.busy",
            StoreError::Corrupt => "store.corrupt",
            StoreError::Unavailable { .. } => "store.unavailable",
            StoreError::Refused { .. } => "store.refused",
            StoreError::BadRow { .. } => "store.bad_row",
            StoreError::Migration { .. } => "store.migration",
        }
    }

    /// What the database itself says, for the log: it may name files and statements.
    pub fn reason(&self) -> Option<&str> {
        match self {
            StoreError::Unavailable { reason } | StoreError::Refused { reason } => Some(reason),
            _ => None,
        }
    }

    /// Whether the same write may succeed a moment later.
    pub fn retryable(&self) -> bool {
        match self {
            StoreError::Full | StoreError::Busy | StoreError::Unavailable { .. } => true,
            StoreError::StaleRevision { .. }
            | StoreError::Missing { .. }
            | StoreError::Corrupt
            | StoreError::Refused { .. }
            | StoreError::BadRow { .. }
            | StoreError::Migration { .. } => false,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let refused = |error: &sqlx::Error| StoreError::Refused { reason: error.to_string() };
        let unavailable = |error: &sqlx::Error| StoreError::Unavailable { reason: error.to_string() };
        let database = error.as_database_error();
        let code = database.and_then(|error| error.code()).unwrap_or_default();
        if database.is_some_and(|error| error.try_downcast_ref::<PgDatabaseError>().is_some()) {
            // SQLSTATE, by its classes (PostgreSQL, appendix A).
            return match &*code {
                "53100" => StoreError::Full,
                // A deadlock, a serialization failure, a lock that is held, too many connections.
                "40001" | "40P01" | "55P03" | "53300" => StoreError::Busy,
                "XX001" | "XX002" => StoreError::Corrupt,
                // This server is no longer the one to write to.
                "25006" => unavailable(&error),
                code if ["22", "23", "25", "42", "54"].iter().any(|class| code.starts_with(class)) => refused(&error),
                _ => unavailable(&error),
            };
        }
        // The primary result code of SQLite is the low byte of the extended one.
        match code.parse::<u32>().ok().map(|code| code & 0xff) {
            Some(5 | 6) => StoreError::Busy,
            Some(11 | 26) => StoreError::Corrupt,
            Some(13) => StoreError::Full,
            // A statement, a size, a constraint or a type that will not be any better a moment later.
            Some(1 | 18 | 19 | 20 | 25) => refused(&error),
            _ if matches!(error, sqlx::Error::PoolTimedOut) => StoreError::Busy,
            _ => unavailable(&error),
        }
    }
}

impl From<MigrateError> for StoreError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
            MigrateError::VersionMissing(version) => StoreError::Migration {
                reason: format!("it holds migration {version}, which this program does not know; use a newer one"),
            },
            other => StoreError::Migration { reason: other.to_string() },
        }
    }
}
