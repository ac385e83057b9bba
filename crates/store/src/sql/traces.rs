//! The statements of [`Traces`].

use async_trait::async_trait;
use sqlx::{QueryBuilder, Row as _};

use super::{Database, Driver};
use crate::error::StoreError;
use crate::revision::Page;
use crate::text::storable;
use crate::traces::{CallCount, Retention, ToolUse, TraceFilter, TraceRow, Traces};

/// Rows of one INSERT.
const ROWS_A_STATEMENT: usize = 64;

#[async_trait]
impl Traces for Database {
    async fn insert_traces(&self, traces: &[TraceRow]) -> Result<(), StoreError> {
        let mut tx = self.write().await?;
        // Many rows a statement: each statement is a round trip to the thread of the database.
        for rows in traces.chunks(ROWS_A_STATEMENT) {
            let mut insert = QueryBuilder::<Driver>::new(
                "INSERT INTO traces \
                 (id, session, agent, tool, call_id, status, blocked, started_at, duration_ms, document) ",
            );
            insert.push_values(rows, |mut values, trace| {
                values
                    .push_bind(&trace.id)
                    .push_bind(storable(&trace.session))
                    .push_bind(&trace.agent)
                    .push_bind(storable(&trace.tool))
                    .push_bind(storable(&trace.call_id))
                    .push_bind(&trace.status)
                    .push_bind(&trace.blocked)
                    .push_bind(trace.started_at)
                    .push_bind(trace.duration_ms)
                    .push_bind(&trace.document);
            });
            // A batch whose commit had no clear end is written again, and may be there already.
            insert.push(" ON CONFLICT (id) DO NOTHING");
            // The last part of a batch has any length, and is not worth a prepared statement.
            insert.build().persistent(rows.len() == ROWS_A_STATEMENT).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    async fn trace(&self, id: &str) -> Result<Option<TraceRow>, StoreError> {
        let sql = "SELECT id, session, agent, tool, call_id, status, blocked, started_at, duration_ms, document \
                   FROM traces WHERE id = $1";
        Ok(sqlx::query_as(sql).bind(id).fetch_optional(self.readers()).await?)
    }

    async fn blocked_calls(&self, since: i64) -> Result<Vec<(String, String, i64)>, StoreError> {
        let sql = "SELECT tool, blocked, COUNT(*) FROM traces WHERE blocked IS NOT NULL AND started_at >= $1 \
                   GROUP BY tool, blocked ORDER BY tool, blocked";
        Ok(sqlx::query_as(sql).bind(since).fetch_all(self.readers()).await?)
    }

    async fn count_calls(&self, from: i64, until: i64) -> Result<CallCount, StoreError> {
        // The index holds all of it, so that no row is read and nothing is sorted.
        let sql = "SELECT COUNT(*) AS calls, COUNT(*) FILTER (WHERE status = 'error') AS errors, \
                   COUNT(blocked) AS blocked FROM traces WHERE started_at >= $1 AND started_at < $2";
        Ok(sqlx::query_as(sql).bind(from).bind(until).fetch_one(self.readers()).await?)
    }

    async fn tool_use(&self, tools: &[String], since: i64) -> Result<Vec<ToolUse>, StoreError> {
        let sql = "SELECT $1 AS tool, \
                   (SELECT MAX(started_at) FROM traces WHERE tool = $1) AS last_call, \
                   (SELECT COUNT(*) FROM traces WHERE tool = $1 AND started_at >= $2) AS calls, \
                   (SELECT COUNT(*) FROM traces WHERE tool = $1 AND started_at >= $2 AND status = 'error') AS errors";
        let mut uses = Vec::with_capacity(tools.len());
        for tool in tools {
            let row = sqlx::query(sql).bind(storable(tool).into_owned()).bind(since).fetch_one(self.readers()).await?;
            let last_call: Option<i64> = row.try_get("last_call")?;
            if let Some(last_call) = last_call {
                let (calls, errors) = (row.try_get("calls")?, row.try_get("errors")?);
                uses.push(ToolUse { tool: tool.clone(), last_call, calls, errors });
            }
        }
        Ok(uses)
    }

    async fn traces(&self, filter: &TraceFilter, after: Option<&str>, most: u32) -> Result<Page<TraceRow>, StoreError> {
        let mut query = QueryBuilder::<Driver>::new(
            "SELECT id, session, agent, tool, call_id, status, blocked, started_at, duration_ms, '' AS document \
             FROM traces WHERE 1 = 1",
        );
        let equals = [
            (" AND session = ", &filter.session),
            (" AND agent = ", &filter.agent),
            (" AND tool = ", &filter.tool),
            (" AND status = ", &filter.status),
        ];
        for (clause, value) in equals {
            if let Some(value) = value {
                query.push(clause).push_bind(storable(value));
            }
        }
        if let Some(agents) = &filter.agents {
            query.push(" AND agent IN (");
            let mut list = query.separated(", ");
            // An empty list matches nothing; SQL wants at least one value.
            list.push("''");
            agents.iter().for_each(|agent| {
                list.push_bind(agent);
            });
            query.push(")");
        }
        if filter.blocked {
            query.push(" AND blocked IS NOT NULL");
        }
        if let Some(since) = filter.since {
            query.push(" AND started_at >= ").push_bind(since);
        }
        let cursor = after.and_then(|text| text.split_once('.'));
        if let Some((started_at, id)) = cursor.and_then(|(at, id)| Some((at.parse::<i64>().ok()?, id))) {
            query.push(" AND (started_at, id) < (").push_bind(started_at).push(", ").push_bind(id).push(")");
        }
        query.push(" ORDER BY started_at DESC, id DESC LIMIT ").push_bind(i64::from(most) + 1);
        let mut items: Vec<TraceRow> = query.build_query_as().fetch_all(self.readers()).await?;
        let more = items.len() > most as usize;
        items.truncate(most as usize);
        let next = items.last().filter(|_| more).map(|last| format!("{}.{}", last.started_at, last.id));
        Ok(Page { items, next })
    }

    async fn purge_traces(&self, retention: Retention) -> Result<u64, StoreError> {
        const AT_ONCE: i64 = 5_000;
        let age = i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX);
        let oldest = self.clock.now_ms().saturating_sub(age);
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM traces").fetch_one(self.readers()).await?;
        let kept = i64::try_from(retention.count).unwrap_or(i64::MAX);
        let too_many = count.saturating_sub(kept).clamp(0, AT_ONCE);
        let mut tx = self.write().await?;
        let by_age = sqlx::query(
            "DELETE FROM traces WHERE id IN (SELECT id FROM traces WHERE started_at < $1 ORDER BY started_at LIMIT $2)",
        )
        .bind(oldest)
        .bind(AT_ONCE)
        .execute(&mut *tx)
        .await?;
        let too_many = (too_many - i64::try_from(by_age.rows_affected()).unwrap_or(0)).max(0);
        let by_count =
            sqlx::query("DELETE FROM traces WHERE id IN (SELECT id FROM traces ORDER BY started_at, id LIMIT $1)")
                .bind(too_many)
                .execute(&mut *tx)
                .await?;
        tx.commit().await?;
        Ok(by_age.rows_affected() + by_count.rows_affected())
    }
}
