//! The connection on which the steps of the ledger are taken.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{ConnectOptions, Connection, Database, Pool};
use tokio::sync::Mutex;

/// Where it comes from. A pool asks a connection whether it lives when it is lent, and again when it is given back: as many
/// round trips as a whole step. One that is used without a pause is better kept.
pub(crate) enum Lender<DB: Database> {
    /// It is kept from one transaction to the next, and made anew when one failed.
    Kept { options: Box<<DB::Connection as Connection>::Options>, idle: Mutex<Option<DB::Connection>> },
    /// A pool's, for a database that has but one connection.
    Pool(Pool<DB>),
}

impl<DB: Database> Lender<DB> {
    pub(crate) fn keeping(options: <DB::Connection as Connection>::Options) -> Self {
        Self::Kept { options: Box::new(options), idle: Mutex::new(None) }
    }

    /// Lends it for one transaction. What was kept may be dead by now: [`Lent::is_kept`].
    pub(crate) async fn lend(&self) -> Result<Lent<DB>, sqlx::Error> {
        match self {
            Self::Kept { idle, .. } => match idle.lock().await.take() {
                Some(connection) => Ok(Lent::Kept(connection)),
                None => self.lend_new().await,
            },
            Self::Pool(_) => self.lend_new().await,
        }
    }

    /// Lends one that surely lives.
    pub(crate) async fn lend_new(&self) -> Result<Lent<DB>, sqlx::Error> {
        match self {
            Self::Kept { options, .. } => Ok(Lent::New(options.connect().await?)),
            Self::Pool(pool) => Ok(Lent::Pooled(pool.acquire().await?)),
        }
    }

    /// Takes it back when its transaction ended well. Without this it is closed.
    pub(crate) async fn keep(&self, lent: Lent<DB>) {
        if let (Self::Kept { idle, .. }, Lent::Kept(connection) | Lent::New(connection)) = (self, lent) {
            *idle.lock().await = Some(connection);
        }
    }

    /// Closes what is kept.
    pub(crate) async fn close(&self) {
        if let Self::Kept { idle, .. } = self
            && let Some(connection) = idle.lock().await.take()
        {
            // It is gone in any case.
            let _ = connection.close().await;
        }
    }
}

/// A connection for one transaction.
pub(crate) enum Lent<DB: Database> {
    Kept(DB::Connection),
    New(DB::Connection),
    Pooled(PoolConnection<DB>),
}

impl<DB: Database> Lent<DB> {
    /// Whether it was idle for a time, and may be dead.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }
}

impl<DB: Database> Deref for Lent<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Kept(connection) | Self::New(connection) => connection,
            Self::Pooled(connection) => connection,
        }
    }
}

impl<DB: Database> DerefMut for Lent<DB> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Kept(connection) | Self::New(connection) => connection,
            Self::Pooled(connection) => connection,
        }
    }
}
