//! Whole tables, read and written in pages.

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, QueryBuilder, Row as _};

use super::{Driver, Row, Tx};
use crate::copy::{Table, TableTransaction};
use crate::effect::SqlValue;
use crate::error::StoreError;

pub(super) struct Tables(pub(super) Tx);

fn value_of(row: &Row, table: &Table, place: usize) -> Result<SqlValue, StoreError> {
    let (column, is_number) = table.columns[place];
    let value = if is_number {
        row.try_get::<Option<i64>, _>(place).map(|number| number.map_or(SqlValue::Null, SqlValue::Integer))
    } else {
        row.try_get::<Option<String>, _>(place).map(|text| text.map_or(SqlValue::Null, SqlValue::Text))
    };
    value.map_err(|error| StoreError::BadRow {
        table: table.name,
        column,
        key: row.try_get::<String, _>(0).unwrap_or_else(|_| "unreadable".to_owned()),
        reason: error.to_string(),
    })
}

fn number(value: &SqlValue) -> Option<i64> {
    match value {
        SqlValue::Integer(number) => Some(*number),
        _ => None,
    }
}

fn text(value: &SqlValue) -> Option<&str> {
    match value {
        SqlValue::Text(text) => Some(text),
        _ => None,
    }
}

#[async_trait]
impl TableTransaction for Tables {
    async fn page(
        &mut self,
        table: &Table,
        after: Option<&[SqlValue]>,
        most: i64,
    ) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
        let key = names[..table.key].join(", ");
        let mut query = QueryBuilder::<Driver>::new(format!("SELECT {} FROM {}", names.join(", "), table.name));
        if let Some(after) = after {
            query.push(format!(" WHERE ({key}) > ("));
            let mut list = query.separated(", ");
            for (value, (_, is_number)) in after.iter().zip(table.columns) {
                if *is_number {
                    list.push_bind(number(value));
                } else {
                    list.push_bind(text(value).map(str::to_owned));
                }
            }
            query.push(")");
        }
        query.push(format!(" ORDER BY {key} LIMIT ")).push_bind(most);
        let rows = query.build().fetch_all(&mut *self.0).await?;
        let read = |row: &Row| (0..table.columns.len()).map(|place| value_of(row, table, place)).collect();
        rows.iter().map(read).collect()
    }

    async fn insert(&mut self, table: &Table, rows: &[Vec<SqlValue>]) -> Result<(), StoreError> {
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
        let mut query = QueryBuilder::<Driver>::new(format!("INSERT INTO {} ({}) ", table.name, names.join(", ")));
        query.push_values(rows, |mut values, row| {
            for (value, (_, is_number)) in row.iter().zip(table.columns) {
                if *is_number {
                    values.push_bind(number(value));
                } else {
                    values.push_bind(text(value));
                }
            }
        });
        query.build().persistent(false).execute(&mut *self.0).await?;
        Ok(())
    }

    async fn execute(&mut self, sql: &'static str) -> Result<u64, StoreError> {
        Ok(sqlx::query(AssertSqlSafe(sql)).execute(&mut *self.0).await?.rows_affected())
    }

    async fn revision(&mut self) -> Result<i64, StoreError> {
        let sql = "SELECT revision FROM catalog WHERE id = 1";
        Ok(sqlx::query_scalar(sql).fetch_one(&mut *self.0).await?)
    }

    async fn set_revision(&mut self, revision: i64) -> Result<(), StoreError> {
        sqlx::query("UPDATE catalog SET revision = $1 WHERE id = 1").bind(revision).execute(&mut *self.0).await?;
        Ok(())
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        Ok(self.0.commit().await?)
    }
}
