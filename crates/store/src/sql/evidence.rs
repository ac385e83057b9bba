//! The statements of [`Evidence`].

use async_trait::async_trait;

use super::Database;
use crate::error::StoreError;
use crate::evidence::{Evidence, MAX_EVIDENCE};
use crate::text::storable;

#[async_trait]
impl Evidence for Database {
    async fn record_evidence(&self, session: &str, agent: &str, kind: &str, ids: &[String]) -> Result<(), StoreError> {
        let session = storable(session);
        let mut tx = self.write().await?;
        let now = self.clock.now_ms();
        for id in ids {
            sqlx::query(
                "INSERT INTO evidence (session, kind, evidence_id, agent, seen_at) VALUES ($1, $2, $3, $4, $5) \
                 ON CONFLICT (session, kind, evidence_id) DO UPDATE SET agent = excluded.agent, \
                 seen_at = excluded.seen_at",
            )
            .bind(&*session)
            .bind(kind)
            .bind(storable(id))
            .bind(agent)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        }
        sqlx::query(
            "DELETE FROM evidence WHERE session = $1 AND (kind, evidence_id) NOT IN \
             (SELECT kind, evidence_id FROM evidence WHERE session = $1 ORDER BY seen_at DESC, kind, evidence_id LIMIT $2)",
        )
        .bind(&*session)
        .bind(MAX_EVIDENCE)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }

    async fn evidence(&self, session: &str) -> Result<Vec<(String, String, String)>, StoreError> {
        let sql = "SELECT kind, evidence_id, agent FROM evidence WHERE session = $1 \
                   ORDER BY seen_at DESC, kind, evidence_id";
        Ok(sqlx::query_as(sql).bind(storable(session)).fetch_all(self.readers()).await?)
    }
}
