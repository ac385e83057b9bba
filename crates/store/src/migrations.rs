//! The migrations, compiled into the program.

use std::borrow::Cow;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr};

/// Version, name, and the same step for each database.
macro_rules! migrations {
    ($folder:literal) => {
        [
            (1, "catalog", include_str!(concat!("../../../migrations/", $folder, "/0001_catalog.sql"))),
            (2, "calls", include_str!(concat!("../../../migrations/", $folder, "/0002_calls.sql"))),
            (3, "mcp_servers", include_str!(concat!("../../../migrations/", $folder, "/0003_mcp_servers.sql"))),
            (4, "ledger", include_str!(concat!("../../../migrations/", $folder, "/0004_ledger.sql"))),
            (5, "sent_at_once", include_str!(concat!("../../../migrations/", $folder, "/0005_sent_at_once.sql"))),
            (6, "skills", include_str!(concat!("../../../migrations/", $folder, "/0006_skills.sql"))),
            (7, "turns", include_str!(concat!("../../../migrations/", $folder, "/0007_turns.sql"))),
            (8, "turn_records", include_str!(concat!("../../../migrations/", $folder, "/0008_turn_records.sql"))),
            (9, "counted_traces", include_str!(concat!("../../../migrations/", $folder, "/0009_counted_traces.sql"))),
        ]
    };
}

/// The migrations of the SQLite schema, oldest first.
pub(crate) fn sqlite() -> Migrator {
    migrator(&migrations!("sqlite"))
}

/// The migrations of the Postgres schema, oldest first.
pub(crate) fn postgres() -> Migrator {
    migrator(&migrations!("postgres"))
}

fn migrator(steps: &[(i64, &'static str, &'static str)]) -> Migrator {
    let migration = |&(version, name, sql): &(i64, &'static str, &'static str)| {
        let sql = AssertSqlSafe(sql).into_sql_str();
        Migration::new(version, Cow::Borrowed(name), MigrationType::Simple, sql, false)
    };
    Migrator::with_migrations(steps.iter().map(migration).collect())
}
