//! The live catalog: which tools there are, who may use them, and how to find one.
//!
//! Code tools stand above data tools. Readers take an immutable snapshot; a write changes the rows,
//! then the snapshot by exactly those rows, and swaps it. Nothing is ever rebuilt.
//!
//! ```
//! use std::sync::Arc;
//! use toolcrib_registry::{CallContext, CodeTool, CodeToolError, Registry};
//! use toolcrib_store::{Location, OsRandomness, Store, SystemClock};
//!
//! /// What the tool takes; the doc comments are what the model reads.
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Roll {
//!     /// How many sides the die has
//!     sides: u32,
//! }
//!
//! struct Dice;
//!
//! #[async_trait::async_trait]
//! impl CodeTool for Dice {
//!     type Arguments = Roll;
//!     const NAME: &'static str = "roll_dice";
//!     const DESCRIPTION: &'static str = "Roll one die";
//!
//!     async fn call(&self, roll: Roll, _: &CallContext) -> Result<serde_json::Value, CodeToolError> {
//!         Ok(serde_json::json!({ "rolled": roll.sides }))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open(&Location::Memory, Arc::new(SystemClock), Arc::new(OsRandomness)).await?;
//! let registry = Registry::builder(store).code_tool(Dice).open().await?;
//! assert!(registry.snapshot().tool("roll_dice").is_some());
//! # Ok(())
//! # }
//! ```

mod agent;
mod ask_question;
mod code_tool;
mod entry;
mod error;
mod registry;
mod schema_of;
mod search;
mod snapshot;
mod tool_client;
mod words;

pub use agent::{Agent, AgentBuilder, AgentId, Limits, ModelChoice, Reach, SkillsEager};
pub use code_tool::{CallContext, CodeTool, CodeToolError, RegisteredCodeTool, TransactionalTool};
pub use entry::{Entry, Origin};
pub use error::{REGISTRY_CODES, RegistryError};
pub use registry::{Imported, Registry, RegistryBuilder, SYSTEM_TOOLS};
pub use search::Hit;
pub use snapshot::{BrokenRow, Snapshot};
pub use tool_client::{Ask, AskError, LogLevel, NoClient, ToolClient};
