//! The migrations, compiled into the program.

use std::borrow::Cow;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr};

const SQLITE: [(i64, &str, &str); 3] = [
    (1, "catalog", include_str!("../../../migrations/sqlite/0001_catalog.sql")),
    (2, "calls", include_str!("../../../migrations/sqlite/0002_calls.sql")),
    (3, "mcp_servers", include_str!("../../../migrations/sqlite/0003_mcp_servers.sql")),
];

/// The migrations of the SQLite schema, oldest first.
pub(crate) fn sqlite() -> Migrator {
    let migration = |(version, name, sql): (i64, &'static str, &'static str)| {
        let sql = AssertSqlSafe(sql).into_sql_str();
        Migration::new(version, Cow::Borrowed(name), MigrationType::Simple, sql, false)
    };
    Migrator::with_migrations(SQLITE.into_iter().map(migration).collect())
}
