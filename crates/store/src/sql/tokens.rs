//! The statements of [`Tokens`].

use async_trait::async_trait;
use serde_json::Value;

use super::Database;
use super::revision::{next_revision, read_row};
use crate::changes::Change;
use crate::error::StoreError;
use crate::revision::Revision;
use crate::tokens::{NewToken, Role, TokenRow, Tokens, token_hash};

type TokenColumns = (String, String, String, Option<String>, String, i64, i64, Option<i64>, Option<i64>);

#[async_trait]
impl Tokens for Database {
    async fn create_token(&self, new: &NewToken) -> Result<(TokenRow, String), StoreError> {
        let id = self.randomness.hex()[..12].to_owned();
        let token = format!("tcr_{}{}", self.randomness.hex(), self.randomness.hex());
        let mut tx = self.write_catalog().await?;
        let row = TokenRow {
            id,
            name: new.name.clone(),
            role: new.role,
            agents: new.agents.clone(),
            hash: token_hash(&token),
            revision: next_revision(&mut tx).await?,
            created_at: self.clock.now_ms(),
            expires_at: new.expires_at,
            revoked_at: None,
        };
        sqlx::query(
            "INSERT INTO tokens (id, name, role, agents, hash, revision, created_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(&row.id)
        .bind(&row.name)
        .bind(row.role.as_str())
        .bind(row.agents.as_ref().map(|agents| Value::from(agents.clone()).to_string()))
        .bind(&row.hash)
        .bind(row.revision.0)
        .bind(row.created_at)
        .bind(row.expires_at)
        .execute(&mut *tx)
        .await?;
        self.commit(tx, Change::Catalog).await?;
        Ok((row, token))
    }

    async fn revoke_token(&self, id: &str) -> Result<bool, StoreError> {
        let mut tx = self.write_catalog().await?;
        let revision = next_revision(&mut tx).await?;
        let done = sqlx::query("UPDATE tokens SET revoked_at = $1, revision = $2 WHERE id = $3 AND revoked_at IS NULL")
            .bind(self.clock.now_ms())
            .bind(revision.0)
            .bind(id)
            .execute(&mut *tx)
            .await?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        self.commit(tx, Change::Catalog).await?;
        Ok(true)
    }

    async fn tokens_changed(&self, since: Revision) -> Result<Vec<Result<TokenRow, StoreError>>, StoreError> {
        let sql = "SELECT id, name, role, agents, hash, revision, created_at, expires_at, revoked_at FROM tokens \
                   WHERE revision > $1 ORDER BY revision";
        let rows = sqlx::query(sql).bind(since.0).fetch_all(self.readers()).await?;
        Ok(rows.iter().map(|row| read_row::<TokenColumns>(row, "tokens").and_then(read)).collect())
    }
}

fn read(columns: TokenColumns) -> Result<TokenRow, StoreError> {
    let (id, name, role, agents, hash, revision, created_at, expires_at, revoked_at) = columns;
    let bad = |column, reason: &str| StoreError::BadRow {
        table: "tokens",
        column,
        key: id.clone(),
        reason: reason.to_owned(),
    };
    let role = Role::named(&role).ok_or_else(|| bad("role", "no such role"))?;
    let agents = agents
        .map(|text| serde_json::from_str::<Vec<String>>(&text).map_err(|error| bad("agents", &error.to_string())))
        .transpose()?;
    let revision = Revision(revision);
    Ok(TokenRow { id, name, role, agents, hash, revision, created_at, expires_at, revoked_at })
}
