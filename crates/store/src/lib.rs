//! Rows: tools and skills with their versions, agents, MCP servers, tokens, turns, traces and cited ids, in one SQLite file or
//! in a Postgres database that several replicas share.
//!
//! Every write is one transaction. A write to the catalog raises its revision in the same
//! transaction and stamps the rows it touched, so another process reads only what changed.
//!
//! ```
//! use std::sync::Arc;
//! use toolcrib_definition::Definition;
//! use toolcrib_store::{Expect, Location, OsRandomness, Store, SystemClock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("toolcrib.db");
//! let store = Store::open(&Location::File(path), Arc::new(SystemClock), Arc::new(OsRandomness)).await?;
//! let tool = Definition::from_json(
//!     br#"{"name": "ping", "description": "Ping", "request": {"url": "https://api.example.com"}}"#,
//! )?;
//! let written = store.put_tool(&tool, Expect::Anything, "docs").await?;
//! assert_eq!(store.tool("ping").await?.unwrap().revision, written.revision);
//! # Ok(())
//! # }
//! ```

#![expect(clippy::duplicate_mod, reason = "the statements stand once and are compiled for each database")]

mod agents;
mod approvals;
mod changes;
mod clock;
mod copy;
mod effect;
mod error;
mod evidence;
mod ledger;
mod lent;
mod mcp_servers;
mod migrations;
mod packs;
mod postgres;
mod proposal;
mod revision;
mod skills;
mod sqlite;
mod steps;
mod store;
mod text;
mod tokens;
mod tools;
mod traces;
mod turn_moves;
mod turns;

pub use agents::{AgentRow, Agents};
pub use approvals::{Approval, ApprovalFilter, ApprovalKind, ApprovalState, Approvals, Decided, Decision, Notice};
pub use changes::{Change, ChangeListener, Changes};
pub use clock::{Clock, OsRandomness, Randomness, SystemClock, time_ordered_id};
pub use copy::{CopiedTable, CopyError, CopyTransaction, copied_columns};
pub use effect::{EffectTransaction, SqlRow, SqlValue};
pub use error::{STORE_CODES, StoreError};
pub use evidence::{Evidence, MAX_EVIDENCE};
pub use ledger::{
    Ledger, LedgerEvent, LedgerFilter, LedgerRow, LedgerState, Moved, Overdue, Settlement, Step, Stepped, Taken,
    Verdict,
};
pub use mcp_servers::{McpServerRow, McpServers};
pub use packs::{PackApplied, PackChange, PackPart, PackRows, Packs};
pub use proposal::{Ask, Connected, Lease, NewCall, Proposal};
pub use revision::{Expect, Page, Revision, WriteKind, Written};
pub use skills::{SHARED, SkillRow, SkillVersionRow, SkillWrite, Skills};
pub use store::{Location, QueuedProposal, Rows, Store};
pub use tokens::{NewToken, Role, TokenRow, Tokens, token_hash};
pub use tools::{KEPT_VERSIONS, ToolRow, Tools, VersionRow};
pub use traces::{CallCount, Retention, ToolUse, TraceFilter, TraceRow, Traces};
pub use turns::{
    Begun, NewTurn, SessionKey, Told, TurnEnd, TurnFilter, TurnLease, TurnMove, TurnMoved, TurnRow, TurnState, Turns,
    UnbegunCall,
};
