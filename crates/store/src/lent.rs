//! The connections on which the steps of the ledger are taken.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{ConnectOptions, Connection, Database, Pool};
use tokio::sync::Mutex;

/// How long a connection may be idle before it is asked whether it lives.
const TRUSTED: Duration = Duration::from_millis(100);

/// Connections, each with the moment since when it is idle.
type Idle<DB> = Vec<(<DB as Database>::Connection, Instant)>;

/// Where they come from. A pool asks a connection whether it lives when it is lent, and again when it is given back: as many
/// round trips as a whole step. One that is used without a pause is better kept.
pub(crate) enum Lender<DB: Database> {
    /// They are kept from one transaction to the next, and made anew when one failed. None when it is closed.
    Kept { options: Box<<DB::Connection as Connection>::Options>, idle: Mutex<Option<Idle<DB>>> },
    /// A pool's, for a database that has but one connection.
    Pool(Pool<DB>),
}

impl<DB: Database> Lender<DB> {
    pub(crate) fn keeping(options: <DB::Connection as Connection>::Options) -> Self {
        Self::Kept { options: Box::new(options), idle: Mutex::new(Some(Vec::new())) }
    }

    /// Lends one for a transaction.
    pub(crate) async fn lend(&self) -> Result<Lent<DB>, sqlx::Error> {
        match self {
            Self::Kept { options, idle } => {
                let kept = idle.lock().await.as_mut().ok_or(sqlx::Error::PoolClosed)?.pop();
                if let Some((mut connection, since)) = kept
                    && (since.elapsed() < TRUSTED || connection.ping().await.is_ok())
                {
                    return Ok(Lent::Kept(connection));
                }
                Ok(Lent::Kept(options.connect().await?))
            }
            Self::Pool(pool) => Ok(Lent::Pooled(pool.acquire().await?)),
        }
    }

    /// Takes one back whose transaction ended well. Without this it is closed.
    pub(crate) async fn keep(&self, lent: Lent<DB>) {
        if let (Self::Kept { idle, .. }, Lent::Kept(connection)) = (self, lent) {
            match idle.lock().await.as_mut() {
                Some(idle) => idle.push((connection, Instant::now())),
                None => drop(connection.close().await),
            }
        }
    }

    /// Closes those that are kept, and lends none any more.
    pub(crate) async fn close(&self) {
        if let Self::Kept { idle, .. } = self {
            for (connection, _) in idle.lock().await.take().into_iter().flatten() {
                // It is gone in any case.
                let _ = connection.close().await;
            }
        }
    }
}

/// A connection for one transaction.
pub(crate) enum Lent<DB: Database> {
    Kept(DB::Connection),
    Pooled(PoolConnection<DB>),
}

impl<DB: Database> Deref for Lent<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Kept(connection) => connection,
            Self::Pooled(connection) => connection,
        }
    }
}

impl<DB: Database> DerefMut for Lent<DB> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Kept(connection) => connection,
            Self::Pooled(connection) => connection,
        }
    }
}
