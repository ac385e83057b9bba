//! The handle to the rows, whichever database holds them.

use std::ops::Deref;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};

use crate::agents::Agents;
use crate::approvals::Approvals;
use crate::changes::Changes;
use crate::clock::{Clock, Randomness};
use crate::copy::CopyTransaction;
use crate::error::StoreError;
use crate::evidence::Evidence;
use crate::ledger::{Ledger, Settlement, Step, Stepped};
use crate::mcp_servers::McpServers;
use crate::packs::Packs;
use crate::proposal::{Connected, Lease, NewCall, Proposal};
use crate::revision::Revision;
use crate::skills::Skills;
use crate::steps::{Queued, Steps};
use crate::tokens::Tokens;
use crate::tools::Tools;
use crate::traces::Traces;
use crate::turn_moves::TurnMoves;
use crate::turns::Turns;
use crate::{postgres, sqlite};

/// Where the database is.
#[derive(Debug, Clone)]
pub enum Location {
    /// A SQLite file, made when it is not there.
    File(PathBuf),
    /// SQLite in memory, gone with the store: for tests and for trying things.
    Memory,
    /// A Postgres database, as a URL `postgres://user:password@host/database`. Several replicas may share it.
    Postgres(SecretString),
}

impl Location {
    /// What may be shown of it: never a password.
    pub fn shown(&self) -> String {
        match self {
            Location::File(path) => path.display().to_string(),
            Location::Memory => "memory".to_owned(),
            Location::Postgres(url) => match url::Url::parse(url.expose_secret()) {
                Ok(url) => format!("postgres://{}{}", url.host_str().unwrap_or_default(), url.path()),
                Err(_) => "postgres".to_owned(),
            },
        }
    }
}

impl FromStr for Location {
    type Err = String;

    /// Reads `sqlite:FILE` or `postgres://…`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path {
                "" => Err("sqlite: names no file; write sqlite:toolcrib.db".to_owned()),
                path => Ok(Location::File(path.into())),
            };
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return match url::Url::parse(text) {
                Ok(_) => Ok(Location::Postgres(text.to_owned().into())),
                Err(error) => Err(format!("the database URL can't be read: {error}")),
            };
        }
        Err("a database is sqlite:FILE or postgres://user:password@host/database".to_owned())
    }
}

/// What both databases do: one trait an aggregate, and the database as a whole.
#[async_trait]
pub trait Rows:
    Tools + Skills + Agents + Packs + Tokens + McpServers + Turns + Traces + Evidence + Ledger + Approvals
{
    /// The revision of the catalog.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be read.
    async fn revision(&self) -> Result<Revision, StoreError>;

    /// Whether the database is whole, by its own check. On SQLite it reads the whole file; a Postgres
    /// server checks itself, so there it says only that it answers.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it is not, or another when it can't be read.
    async fn check_integrity(&self) -> Result<(), StoreError>;

    /// Lets a SQLite file grow to this many pages (of 4 KiB by default) and no further; a write beyond is
    /// refused as on a full disk. It holds until the database is opened anew.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be used, or has no such bound.
    async fn limit_pages(&self, pages: i64) -> Result<(), StoreError>;

    /// Begins to copy the database, or to copy into it: what is read is all of one moment.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be used.
    async fn begin_copy(&self) -> Result<CopyTransaction, StoreError>;

    /// How many transactions of steps are worth having at the same time: with two, proposals are in one and moves in the
    /// other.
    fn lanes(&self) -> usize;

    /// How long a transactional call may take, when it holds up all other writes.
    fn effect_limit(&self) -> Option<Duration>;

    /// What is written here, and by other processes as far as the database tells of them.
    fn changes(&self) -> &Changes;

    /// Closes all connections. A SQLite file takes its write-ahead log in.
    async fn close(&self);
}

/// The rows. Cloning is cheap and shares the connections.
#[derive(Clone)]
pub struct Store {
    rows: Arc<dyn Rows>,
    steps: Steps,
    turn_moves: TurnMoves,
    clock: Arc<dyn Clock>,
    randomness: Arc<dyn Randomness>,
}

impl Deref for Store {
    type Target = dyn Rows;

    fn deref(&self) -> &Self::Target {
        &*self.rows
    }
}

impl Store {
    /// Opens the database and brings its schema up to date.
    ///
    /// # Errors
    /// [`StoreError`] when it can't be opened, is newer than this program, or is damaged.
    pub async fn open(
        location: &Location,
        clock: Arc<dyn Clock>,
        randomness: Arc<dyn Randomness>,
    ) -> Result<Self, StoreError> {
        let (stamps, random) = (Arc::clone(&clock), Arc::clone(&randomness));
        let rows: Arc<dyn Rows> = match location {
            Location::File(path) => Arc::new(sqlite::Database::open_file(path, stamps, random).await?),
            Location::Memory => Arc::new(sqlite::Database::open_memory(stamps, random).await?),
            Location::Postgres(url) => Arc::new(postgres::Database::open(url.expose_secret(), stamps, random).await?),
        };
        let (turn_moves, making_them) = TurnMoves::new(Arc::clone(&rows));
        let steps = Steps::spawn(Arc::clone(&rows), making_them)?;
        Ok(Self { rows, steps, turn_moves, clock, randomness })
    }

    /// Proposes a call. One that needs no person is the proposer's to run.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written. Unless it is a refusal, the call may be there all the
    /// same.
    pub async fn propose(&self, call: NewCall) -> Result<Proposal, StoreError> {
        self.queue_proposal(call, Connected::default()).await?.made().await
    }

    /// The same without waiting for it, so that the caller may connect meanwhile. When `connected` says so in time, the
    /// call is written down as sent at once.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the store is closed.
    pub async fn queue_proposal(&self, call: NewCall, connected: Connected) -> Result<QueuedProposal, StoreError> {
        Ok(QueuedProposal(self.steps.queue(Step::Propose { call: Box::new(call), connected }).await?))
    }

    /// The barrier: says that the first byte of the request is about to be sent, and has it on the disk when it
    /// returns. False when the lease is no longer the caller's; then nothing may be sent.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written. Then nothing may be sent, and nobody knows what the
    /// row says.
    pub async fn mark_sent(&self, lease: &Lease, lease_ms: i64) -> Result<bool, StoreError> {
        self.moved(Step::Send { lease: lease.clone(), lease_ms }).await
    }

    /// Records how a call ended. False when somebody else settled it, or it was claimed anew.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be written.
    pub async fn settle(&self, settlement: Settlement) -> Result<bool, StoreError> {
        self.moved(Step::Settle(Box::new(settlement))).await
    }

    async fn moved(&self, step: Step) -> Result<bool, StoreError> {
        match self.steps.take(step).await? {
            Stepped::Moved(moved) => Ok(moved),
            Stepped::Proposed(_) => Err(mixed_up()),
        }
    }

    pub(crate) fn turn_moves(&self) -> &TurnMoves {
        &self.turn_moves
    }

    /// The clock that stamps rows.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The randomness that ids are made of.
    pub fn randomness(&self) -> &Arc<dyn Randomness> {
        &self.randomness
    }
}

/// A proposal that will be written down, awaited or not.
pub struct QueuedProposal(Queued);

impl QueuedProposal {
    /// What became of it. It may be dropped and called again until it answered.
    ///
    /// # Errors
    /// As [`Store::propose`].
    pub async fn made(&mut self) -> Result<Proposal, StoreError> {
        match self.0.taken().await? {
            Stepped::Proposed(proposal) => Ok(proposal),
            Stepped::Moved(_) => Err(mixed_up()),
        }
    }
}

fn mixed_up() -> StoreError {
    StoreError::Unavailable { reason: "a step of the ledger got the answer of another".to_owned() }
}
