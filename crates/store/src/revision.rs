//! What all aggregates share: revisions, expectations, pages.

use crate::error::StoreError;

/// The number of a write to the catalog; it only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub i64);

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a writer believes about the row it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing: the last writer wins.
    Anything,
    /// There is no such row.
    Absent,
    /// There is such a row, at any revision.
    Present,
    /// The row is at this revision.
    Revision(Revision),
}

impl Expect {
    /// Holds the belief against the revision that is there.
    pub(crate) fn check(self, actual: Option<Revision>, what: impl Fn() -> String) -> Result<(), StoreError> {
        let expected = match self {
            Expect::Anything => return Ok(()),
            Expect::Present if actual.is_some() => return Ok(()),
            Expect::Present => return Err(StoreError::Missing { what: what() }),
            Expect::Absent => None,
            Expect::Revision(revision) => Some(revision),
        };
        if expected == actual {
            return Ok(());
        }
        match actual {
            None => Err(StoreError::Missing { what: what() }),
            Some(actual) => Err(StoreError::StaleRevision {
                what: what(),
                expected: expected.map_or_else(|| "a new one".to_owned(), |revision| format!("at {revision}")),
                actual: actual.0,
            }),
        }
    }
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// There is a new row.
    Created,
    /// The row changed.
    Updated,
    /// The row said the same already; its revision stays.
    Unchanged,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// What it did.
    pub kind: WriteKind,
    /// The revision of the row now.
    pub revision: Revision,
}

/// A part of a long list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Give this to get the next part; none at the end.
    pub next: Option<String>,
}
