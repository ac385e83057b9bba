//! API tokens. A token is shown once; the row keeps its SHA-256.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::StoreError;
use crate::pool::Store;
use crate::revision::{Revision, next_revision, read_row};

/// What the holder of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Everything, tokens included.
    Admin,
    /// Tools, agents, traces and calls.
    Operator,
    /// Calls and tool lists of agents.
    Caller,
    /// Reads everything but tokens, changes and calls nothing.
    Auditor,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 4] = [Role::Admin, Role::Operator, Role::Caller, Role::Auditor];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Operator => "operator",
            Role::Caller => "caller",
            Role::Auditor => "auditor",
        }
    }

    /// The role with this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// The id, which may be shown.
    pub id: String,
    /// The name of its holder.
    pub name: String,
    /// What the holder may do.
    pub role: Role,
    /// The agents it is good for; none means all.
    pub agents: Option<Vec<String>>,
    /// The SHA-256 of the token, in hexadecimal.
    pub hash: String,
    /// The revision of the last write.
    pub revision: Revision,
    /// When it was made, in ms since 1970.
    pub created_at: i64,
    /// From when it is no longer good, in ms since 1970.
    pub expires_at: Option<i64>,
    /// When it was revoked, in ms since 1970.
    pub revoked_at: Option<i64>,
}

/// A token to be made.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The name of its holder.
    pub name: String,
    /// What the holder may do.
    pub role: Role,
    /// The agents it is good for; none means all.
    pub agents: Option<Vec<String>>,
    /// From when it is no longer good, in ms since 1970.
    pub expires_at: Option<i64>,
}

type TokenColumns = (String, String, String, Option<String>, String, i64, i64, Option<i64>, Option<i64>);

/// The SHA-256 of a token, as stored. A token has 256 random bits, so no salt and no slow hash is needed.
pub fn token_hash(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Store {
    /// Makes a token and returns its row and the token itself, which is not stored.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    pub async fn create_token(&self, new: &NewToken) -> Result<(TokenRow, String), StoreError> {
        let id = self.randomness.hex()[..12].to_owned();
        let token = format!("tcr_{}{}", self.randomness.hex(), self.randomness.hex());
        let mut tx = self.write().await?;
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
        tx.commit().await?;
        Ok((row, token))
    }

    /// Revokes a token. `Ok(false)` when there is none, or it was revoked before.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, StoreError> {
        let mut tx = self.write().await?;
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
        tx.commit().await?;
        Ok(true)
    }

    /// The rows above a revision, revoked ones included, lowest revision first. A row whose role or
    /// agents can't be read is a [`StoreError::BadRow`] among them: one does not hide the others.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    pub async fn tokens_changed(&self, since: Revision) -> Result<Vec<Result<TokenRow, StoreError>>, StoreError> {
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
