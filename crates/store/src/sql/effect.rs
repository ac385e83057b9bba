//! The transaction of a transactional call.

use async_trait::async_trait;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Column as _, Row as _};

use super::{Driver, Tx, sql_value};
use crate::changes::{Change, Changes};
use crate::effect::{OpenTransaction, SqlRow, SqlValue};
use crate::error::StoreError;
use crate::text::storable;

pub(super) struct Open {
    pub(super) tx: Tx,
    pub(super) id: String,
    pub(super) changes: Changes,
}

fn query_of<'q>(sql: &str, values: &'q [SqlValue]) -> Query<'q, Driver, <Driver as sqlx::Database>::Arguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql.to_owned()));
    for value in values {
        query = match value {
            SqlValue::Null => query.bind(None::<String>),
            SqlValue::Integer(number) => query.bind(*number),
            SqlValue::Real(number) => query.bind(*number),
            SqlValue::Text(text) => query.bind(text.as_str()),
            SqlValue::Blob(bytes) => query.bind(bytes.as_slice()),
        };
    }
    query
}

#[async_trait]
impl OpenTransaction for Open {
    async fn execute(&mut self, sql: &str, values: &[SqlValue]) -> Result<u64, StoreError> {
        Ok(query_of(sql, values).execute(&mut *self.tx).await?.rows_affected())
    }

    async fn fetch(&mut self, sql: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        let rows = query_of(sql, values).fetch_all(&mut *self.tx).await?;
        let row_of = |row: &super::Row| {
            let columns = row.columns().iter().enumerate();
            columns.map(|(place, column)| Ok((column.name().to_owned(), sql_value(row, place)?))).collect()
        };
        rows.iter().map(row_of).collect()
    }

    async fn succeed(mut self: Box<Self>, outcome: &str) -> Result<(), StoreError> {
        let sql = "UPDATE ledger SET state = 'succeeded', seq = seq + 1, outcome = $1, reason = NULL \
                   WHERE id = $2 AND state = 'ready'";
        let moved = sqlx::query(sql).bind(outcome).bind(&self.id).execute(&mut *self.tx).await?;
        if moved.rows_affected() != 1 {
            let reason = "the tool changed its own call in the ledger".to_owned();
            return Err(StoreError::Refused { reason });
        }
        self.tx.commit().await?;
        self.changes.tell(Change::Settled);
        Ok(())
    }

    async fn fail(mut self: Box<Self>, outcome: &str, reason: &str) -> Result<(), StoreError> {
        sqlx::query("ROLLBACK TO SAVEPOINT effect").execute(&mut *self.tx).await?;
        let sql = "UPDATE ledger SET state = 'failed', seq = seq + 1, outcome = $1, reason = $2 \
                   WHERE id = $3 AND state = 'ready'";
        sqlx::query(sql).bind(outcome).bind(storable(reason)).bind(&self.id).execute(&mut *self.tx).await?;
        self.tx.commit().await?;
        self.changes.tell(Change::Settled);
        Ok(())
    }

    async fn undo(self: Box<Self>) {
        // A connection that can't roll back is closed, and so rolled back.
        let _ = self.tx.rollback().await;
    }
}
