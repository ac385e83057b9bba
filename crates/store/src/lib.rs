//! Rows: tools and their versions, agents, MCP servers, tokens, traces and cited ids, in one SQLite file.
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

mod agents;
mod clock;
mod error;
mod evidence;
mod mcp_servers;
mod migrations;
mod pool;
mod revision;
mod tokens;
mod tools;
mod traces;

pub use agents::AgentRow;
pub use clock::{Clock, OsRandomness, Randomness, SystemClock, time_ordered_id};
pub use error::{STORE_CODES, StoreError};
pub use evidence::MAX_EVIDENCE;
pub use mcp_servers::McpServerRow;
pub use pool::{Location, Store};
pub use revision::{Expect, Page, Revision, WriteKind, Written};
pub use tokens::{NewToken, Role, TokenRow, token_hash};
pub use tools::{KEPT_VERSIONS, ToolRow, VersionRow};
pub use traces::{Retention, TraceFilter, TraceRow};
