//! The tokens in memory, so that a request costs no query.

use std::collections::{BTreeSet, HashMap};
use std::sync::PoisonError;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;
use toolcrib_store::{NewToken, Revision, Store, StoreError, TokenRow, token_hash};

/// The good tokens of a store.
pub struct TokenBook {
    store: Store,
    by_hash: ArcSwap<HashMap<String, TokenRow>>,
    known: Mutex<Revision>,
    unreadable: std::sync::Mutex<BTreeSet<String>>,
}

impl TokenBook {
    pub(crate) async fn open(store: Store) -> Result<Self, StoreError> {
        let book = Self {
            store,
            by_hash: ArcSwap::from_pointee(HashMap::new()),
            known: Mutex::new(Revision::default()),
            unreadable: std::sync::Mutex::default(),
        };
        book.refresh().await?;
        Ok(book)
    }

    /// Takes over what changed in the rows.
    pub(crate) async fn refresh(&self) -> Result<(), StoreError> {
        let mut known = self.known.lock().await;
        let revision = self.store.revision().await?;
        let rows = self.store.tokens_changed(*known).await?;
        if rows.is_empty() {
            *known = revision;
            return Ok(());
        }
        let mut next = HashMap::clone(&self.by_hash.load());
        for row in rows {
            let row = match row {
                Ok(row) => row,
                Err(error) => {
                    // It is good for nothing, so it is left out; the others are not held up by it.
                    tracing::warn!(error = %error, "a token was left out");
                    self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).insert(error.to_string());
                    continue;
                }
            };
            *known = (*known).max(row.revision);
            if row.revoked_at.is_some() {
                next.remove(&row.hash);
            } else {
                next.insert(row.hash.clone(), row);
            }
        }
        self.by_hash.store(std::sync::Arc::new(next));
        Ok(())
    }

    /// The row of a token that is good now. The book is searched by the token's hash, so the time it
    /// takes tells nothing of the tokens there are.
    pub(crate) fn find(&self, token: &str) -> Option<TokenRow> {
        let row = self.by_hash.load().get(&token_hash(token)).cloned()?;
        let now = self.store.clock().now_ms();
        row.expires_at.is_none_or(|end| now < end).then_some(row)
    }

    /// Rows of tokens that could not be read, in words.
    pub(crate) fn unreadable(&self) -> Vec<String> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The tokens that were not revoked, oldest first; those that expired are among them.
    pub(crate) fn list(&self) -> Vec<TokenRow> {
        let mut rows: Vec<TokenRow> = self.by_hash.load().values().cloned().collect();
        rows.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        rows
    }

    /// Whether the token with this id is good now.
    pub(crate) fn is_good(&self, id: &str) -> bool {
        let now = self.store.clock().now_ms();
        let good = |row: &TokenRow| row.id == id && row.expires_at.is_none_or(|end| now < end);
        self.by_hash.load().values().any(good)
    }

    /// Whether there is no token that was not revoked.
    pub fn is_empty(&self) -> bool {
        self.by_hash.load().is_empty()
    }

    /// Makes a token. It is returned once and not kept.
    ///
    /// # Errors
    /// The store's.
    pub async fn create(&self, new: &NewToken) -> Result<(TokenRow, String), StoreError> {
        let made = self.store.create_token(new).await?;
        self.refresh().await?;
        Ok(made)
    }

    /// Revokes a token. `Ok(false)` when there is none.
    ///
    /// # Errors
    /// The store's.
    pub async fn revoke(&self, id: &str) -> Result<bool, StoreError> {
        let revoked = self.store.revoke_token(id).await?;
        self.refresh().await?;
        Ok(revoked)
    }
}
