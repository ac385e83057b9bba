//! API tokens. A token is shown once; the row keeps its SHA-256.

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use crate::error::StoreError;
use crate::revision::Revision;

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

/// The SHA-256 of a token, as stored. A token has 256 random bits, so no salt and no slow hash is needed.
pub fn token_hash(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Tokens.
#[async_trait]
pub trait Tokens: Send + Sync {
    /// Makes a token and returns its row and the token itself, which is not stored.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn create_token(&self, new: &NewToken) -> Result<(TokenRow, String), StoreError>;

    /// Revokes a token. `Ok(false)` when there is none, or it was revoked before.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    async fn revoke_token(&self, id: &str) -> Result<bool, StoreError>;

    /// The rows above a revision, revoked ones included, lowest revision first. A row whose role or
    /// agents can't be read is a [`StoreError::BadRow`] among them: one does not hide the others.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn tokens_changed(&self, since: Revision) -> Result<Vec<Result<TokenRow, StoreError>>, StoreError>;
}
