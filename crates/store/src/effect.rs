//! The transaction of a transactional call: what the tool writes and the end of the call commit together.

use async_trait::async_trait;

use crate::error::StoreError;

/// A value in a statement or a row.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlValue {
    /// Nothing.
    Null,
    /// A whole number. Booleans are 0 and 1.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        SqlValue::Text(text.to_owned())
    }
}

impl From<String> for SqlValue {
    fn from(text: String) -> Self {
        SqlValue::Text(text)
    }
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        SqlValue::Integer(number)
    }
}

impl From<f64> for SqlValue {
    fn from(number: f64) -> Self {
        SqlValue::Real(number)
    }
}

impl<T: Into<SqlValue>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(SqlValue::Null, Into::into)
    }
}

/// A row: its columns by name, in their order.
pub type SqlRow = Vec<(String, SqlValue)>;

/// Words that begin or end a transaction. A tool that could use them could lose its call.
const CONTROL: [&str; 10] =
    ["begin", "commit", "end", "rollback", "savepoint", "release", "abort", "start", "prepare", "set"];

/// An open transaction of the store's own database. Statements have `$1`, `$2`, … for their values. It commits
/// when the tool has returned its result, together with the end of the call, and is undone when the tool fails.
pub struct EffectTransaction(Box<dyn OpenTransaction>);

/// What both databases do with it.
#[async_trait]
pub(crate) trait OpenTransaction: Send {
    async fn execute(&mut self, sql: &str, values: &[SqlValue]) -> Result<u64, StoreError>;
    async fn fetch(&mut self, sql: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError>;
    async fn succeed(self: Box<Self>, outcome: &str) -> Result<(), StoreError>;
    async fn fail(self: Box<Self>, outcome: &str, reason: &str) -> Result<(), StoreError>;
    async fn undo(self: Box<Self>);
}

impl std::fmt::Debug for EffectTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EffectTransaction").finish_non_exhaustive()
    }
}

impl EffectTransaction {
    pub(crate) fn new(open: Box<dyn OpenTransaction>) -> Self {
        Self(open)
    }

    /// Runs one statement, and tells how many rows it changed.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a statement that begins or ends transactions, and what the database says.
    pub async fn execute(&mut self, sql: &str, values: &[SqlValue]) -> Result<u64, StoreError> {
        refuse_control(sql)?;
        self.0.execute(sql, values).await
    }

    /// Runs one query, and returns its rows.
    ///
    /// # Errors
    /// As [`EffectTransaction::execute`], and for a column of a type that [`SqlValue`] has not: cast it.
    pub async fn fetch(&mut self, sql: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        refuse_control(sql)?;
        self.0.fetch(sql, values).await
    }

    /// Commits the effects and the end of the call together. `outcome` is recorded, as JSON text.
    ///
    /// # Errors
    /// [`StoreError`] when it can't be committed. Unless the connection broke, nothing of it is kept.
    pub async fn succeed(self, outcome: &str) -> Result<(), StoreError> {
        self.0.succeed(outcome).await
    }

    /// Undoes what was done, and commits that the call failed, so that nobody tries it again. `outcome` is recorded, as
    /// JSON text.
    ///
    /// # Errors
    /// [`StoreError`] when it can't be committed. What was done is undone all the same.
    pub async fn fail(self, outcome: &str, reason: &str) -> Result<(), StoreError> {
        self.0.fail(outcome, reason).await
    }

    /// Undoes what was done. So does dropping it.
    pub async fn undo(self) {
        self.0.undo().await;
    }
}

fn refuse_control(sql: &str) -> Result<(), StoreError> {
    let word: String = sql.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    if sql.trim_end().trim_end_matches(';').contains(';') {
        let reason = "a tool runs one statement at a time; a text with a semicolon is a value".to_owned();
        return Err(StoreError::Refused { reason });
    }
    if word.is_empty() || CONTROL.contains(&word.to_ascii_lowercase().as_str()) {
        let reason = format!("a tool's statement can't begin with {word:?}: its transaction is not its own to end");
        return Err(StoreError::Refused { reason });
    }
    Ok(())
}
