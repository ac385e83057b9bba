//! Copying a whole database into another, of the same kind or not.

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use crate::effect::SqlValue;
use crate::error::StoreError;
use crate::store::Store;

/// Rows that are read and written at once.
const PAGE: i64 = 500;

/// A table: its columns with whether each is a whole number, and how many of them, from the first, are its key.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, bool)],
    pub(crate) key: usize,
}

const TEXT: bool = false;
const NUMBER: bool = true;

/// Every table, in the order of writing. A column that a migration adds belongs here too; a test compares.
pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "tools",
        key: 1,
        columns: &[
            ("name", TEXT),
            ("definition", TEXT),
            ("version", NUMBER),
            ("revision", NUMBER),
            ("created_at", NUMBER),
            ("updated_at", NUMBER),
        ],
    },
    Table {
        name: "tool_versions",
        key: 2,
        columns: &[("name", TEXT), ("version", NUMBER), ("definition", TEXT), ("actor", TEXT), ("created_at", NUMBER)],
    },
    Table {
        name: "skills",
        key: 2,
        columns: &[
            ("scope", TEXT),
            ("name", TEXT),
            ("document", TEXT),
            ("version", NUMBER),
            ("revision", NUMBER),
            ("actor", TEXT),
            ("created_at", NUMBER),
            ("updated_at", NUMBER),
        ],
    },
    Table {
        name: "skill_versions",
        key: 3,
        columns: &[
            ("scope", TEXT),
            ("name", TEXT),
            ("version", NUMBER),
            ("document", TEXT),
            ("actor", TEXT),
            ("created_at", NUMBER),
        ],
    },
    Table {
        name: "agents",
        key: 1,
        columns: &[
            ("id", TEXT),
            ("profile", TEXT),
            ("revision", NUMBER),
            ("created_at", NUMBER),
            ("updated_at", NUMBER),
        ],
    },
    Table {
        name: "tokens",
        key: 1,
        columns: &[
            ("id", TEXT),
            ("name", TEXT),
            ("role", TEXT),
            ("agents", TEXT),
            ("hash", TEXT),
            ("revision", NUMBER),
            ("created_at", NUMBER),
            ("expires_at", NUMBER),
            ("revoked_at", NUMBER),
        ],
    },
    Table {
        name: "mcp_servers",
        key: 1,
        columns: &[
            ("name", TEXT),
            ("server", TEXT),
            ("state", TEXT),
            ("revision", NUMBER),
            ("created_at", NUMBER),
            ("updated_at", NUMBER),
        ],
    },
    Table {
        name: "traces",
        key: 1,
        columns: &[
            ("id", TEXT),
            ("session", TEXT),
            ("agent", TEXT),
            ("tool", TEXT),
            ("call_id", TEXT),
            ("status", TEXT),
            ("blocked", TEXT),
            ("started_at", NUMBER),
            ("duration_ms", NUMBER),
            ("document", TEXT),
        ],
    },
    Table {
        name: "evidence",
        key: 3,
        columns: &[("session", TEXT), ("kind", TEXT), ("evidence_id", TEXT), ("agent", TEXT), ("seen_at", NUMBER)],
    },
    Table {
        name: "ledger",
        key: 1,
        columns: &[
            ("id", TEXT),
            ("session", TEXT),
            ("call_id", TEXT),
            ("agent", TEXT),
            ("tool", TEXT),
            ("effect", TEXT),
            ("state", TEXT),
            ("seq", NUMBER),
            ("arguments", TEXT),
            ("arguments_hash", TEXT),
            ("ctx", TEXT),
            ("request", TEXT),
            ("request_hash", TEXT),
            ("definition_hash", TEXT),
            ("resend_until", NUMBER),
            ("owner", TEXT),
            ("epoch", NUMBER),
            ("lease_until", NUMBER),
            ("sends", NUMBER),
            ("outcome", TEXT),
            ("actor", TEXT),
            ("reason", TEXT),
            ("created_at", NUMBER),
            ("updated_at", NUMBER),
        ],
    },
    Table {
        name: "ledger_events",
        key: 2,
        columns: &[
            ("ledger_id", TEXT),
            ("seq", NUMBER),
            ("from_state", TEXT),
            ("to_state", TEXT),
            ("epoch", NUMBER),
            ("actor", TEXT),
            ("reason", TEXT),
            ("at", NUMBER),
        ],
    },
    Table {
        name: "approvals",
        key: 1,
        columns: &[
            ("id", TEXT),
            ("ledger_id", TEXT),
            ("kind", TEXT),
            ("state", TEXT),
            ("session", TEXT),
            ("agent", TEXT),
            ("tool", TEXT),
            ("arguments_hash", TEXT),
            ("request_hash", TEXT),
            ("why", TEXT),
            ("created_at", NUMBER),
            ("expires_at", NUMBER),
            ("decided_at", NUMBER),
            ("decided_by", TEXT),
            ("reason", TEXT),
            ("answer", TEXT),
        ],
    },
    Table {
        name: "approval_notices",
        key: 2,
        columns: &[("approval_id", TEXT), ("webhook", TEXT), ("tries", NUMBER), ("next_at", NUMBER)],
    },
    Table {
        name: "turns",
        key: 1,
        columns: &[
            ("id", TEXT),
            ("agent", TEXT),
            ("session", TEXT),
            ("parent", TEXT),
            ("state", TEXT),
            ("seq", NUMBER),
            ("input", TEXT),
            ("checkpoint", TEXT),
            ("outcome", TEXT),
            ("record", TEXT),
            ("messages", TEXT),
            ("place", NUMBER),
            ("cancelled", NUMBER),
            ("owner", TEXT),
            ("epoch", NUMBER),
            ("lease_until", NUMBER),
            ("created_at", NUMBER),
            ("updated_at", NUMBER),
        ],
    },
    Table { name: "turn_waits", key: 2, columns: &[("turn_id", TEXT), ("ledger_id", TEXT)] },
];

/// Every column that is copied, as `table.column`: a migration that adds one adds it here too.
pub fn copied_columns() -> Vec<String> {
    let of =
        |table: &Table| table.columns.iter().map(|(column, _)| format!("{}.{column}", table.name)).collect::<Vec<_>>();
    TABLES.iter().flat_map(of).collect()
}

/// A transaction over whole tables. It is undone when it is dropped.
#[async_trait]
pub(crate) trait TableTransaction: Send {
    async fn page(
        &mut self,
        table: &Table,
        after: Option<&[SqlValue]>,
        most: i64,
    ) -> Result<Vec<Vec<SqlValue>>, StoreError>;
    async fn insert(&mut self, table: &Table, rows: &[Vec<SqlValue>]) -> Result<(), StoreError>;
    async fn execute(&mut self, sql: &'static str) -> Result<u64, StoreError>;
    async fn revision(&mut self) -> Result<i64, StoreError>;
    async fn set_revision(&mut self, revision: i64) -> Result<(), StoreError>;
    async fn commit(self: Box<Self>) -> Result<(), StoreError>;
}

/// A transaction over whole tables, which a [`crate::Rows`] began.
pub struct CopyTransaction(pub(crate) Box<dyn TableTransaction>);

/// What was copied of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedTable {
    /// Its name.
    pub table: &'static str,
    /// How many rows.
    pub rows: u64,
    /// The sum of the SHA-256 of all rows, cut to 128 bits; the same on both sides.
    pub checksum: String,
}

/// Why a database was not copied. Nothing of it is kept then.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CopyError {
    /// A database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The target holds rows already.
    #[error("the target is not empty: there are rows in {table}; name an empty database")]
    NotEmpty {
        /// The first table with rows.
        table: &'static str,
    },
    /// What arrived is not what was sent.
    #[error("{table} came out differently: {sent} rows were sent and {arrived} arrived, or their checksums differ")]
    Different {
        /// The table.
        table: &'static str,
        /// Rows that were read.
        sent: u64,
        /// Rows that are there now.
        arrived: u64,
    },
}

#[derive(Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    hash: u128,
}

impl Sum {
    /// The order of rows is the database's own, so the sum does not depend on it.
    fn add(&mut self, row: &[SqlValue]) {
        let mut hasher = Sha256::new();
        for value in row {
            match value {
                SqlValue::Null => hasher.update([0]),
                SqlValue::Integer(number) => {
                    hasher.update([1]);
                    hasher.update(number.to_le_bytes());
                }
                SqlValue::Real(number) => {
                    hasher.update([2]);
                    hasher.update(number.to_le_bytes());
                }
                SqlValue::Text(text) => {
                    hasher.update([3]);
                    hasher.update((text.len() as u64).to_le_bytes());
                    hasher.update(text);
                }
                SqlValue::Blob(bytes) => {
                    hasher.update([4]);
                    hasher.update((bytes.len() as u64).to_le_bytes());
                    hasher.update(bytes);
                }
            }
        }
        let mut first = [0; 16];
        first.copy_from_slice(&hasher.finalize()[..16]);
        self.rows += 1;
        self.hash = self.hash.wrapping_add(u128::from_le_bytes(first));
    }
}

impl Store {
    /// Copies everything into an empty database, in one transaction, and compares counts and checksums before it commits.
    /// The source can't be written meanwhile.
    ///
    /// # Errors
    /// [`CopyError`]; then the target is as empty as before.
    pub async fn copy_to(&self, target: &Store) -> Result<Vec<CopiedTable>, CopyError> {
        let (CopyTransaction(mut from), CopyTransaction(mut to)) =
            (self.begin_copy().await?, target.begin_copy().await?);
        for table in TABLES {
            if !to.page(table, None, 1).await?.is_empty() {
                return Err(CopyError::NotEmpty { table: table.name });
            }
        }
        let revision = from.revision().await?;
        to.set_revision(revision).await?;
        let mut copied = Vec::with_capacity(TABLES.len());
        for table in TABLES {
            let mut sent = Sum::default();
            let mut after: Option<Vec<SqlValue>> = None;
            loop {
                let rows = from.page(table, after.as_deref(), PAGE).await?;
                let Some(last) = rows.last() else { break };
                after = Some(last[..table.key].to_vec());
                rows.iter().for_each(|row| sent.add(row));
                to.insert(table, &rows).await?;
            }
            if table.name == "ledger" {
                // The triggers took the copied rows for new ones; their real events come next.
                to.execute("DELETE FROM ledger_events").await?;
            }
            copied.push((table, sent));
        }
        let mut report = Vec::with_capacity(TABLES.len());
        for (table, sent) in copied {
            let arrived = sum_of(&mut *to, table).await?;
            if arrived != sent {
                return Err(CopyError::Different { table: table.name, sent: sent.rows, arrived: arrived.rows });
            }
            report.push(CopiedTable { table: table.name, rows: sent.rows, checksum: format!("{:032x}", sent.hash) });
        }
        to.commit().await?;
        Ok(report)
    }
}

async fn sum_of(tables: &mut dyn TableTransaction, table: &Table) -> Result<Sum, StoreError> {
    let mut sum = Sum::default();
    let mut after: Option<Vec<SqlValue>> = None;
    loop {
        let rows = tables.page(table, after.as_deref(), PAGE).await?;
        let Some(last) = rows.last() else { return Ok(sum) };
        after = Some(last[..table.key].to_vec());
        rows.iter().for_each(|row| sum.add(row));
    }
}
