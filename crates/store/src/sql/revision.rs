//! The catalog's revision, and rows read one by one.

use sqlx::{FromRow, Row as _};

use super::{Row, Tx};
use crate::error::StoreError;
use crate::revision::Revision;

/// Reads a row of any shape, each for itself: one that can't be read is an error of its own and hides no
/// other.
pub(super) fn read_row<T: for<'r> FromRow<'r, Row>>(row: &Row, table: &'static str) -> Result<T, StoreError> {
    T::from_row(row).map_err(|error| StoreError::BadRow {
        table,
        column: "row",
        key: row.try_get::<String, _>(0).unwrap_or_else(|_| "unreadable".to_owned()),
        reason: error.to_string(),
    })
}

/// Raises the catalog's revision inside a transaction.
pub(super) async fn next_revision(tx: &mut Tx) -> Result<Revision, StoreError> {
    let revision = sqlx::query_scalar("UPDATE catalog SET revision = revision + 1 WHERE id = 1 RETURNING revision")
        .fetch_one(&mut **tx)
        .await?;
    Ok(Revision(revision))
}
