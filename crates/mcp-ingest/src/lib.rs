//! MCP servers and their tools.
//!
//! [`McpClient`] speaks with MCP servers over the egress guard: the current era (2026-07-28) first, then
//! the legacy handshake (2025-11-25 and before), then the older HTTP with SSE. Sessions are shared by
//! concurrent calls and made again once when a server forgot them.
//!
//! An [`McpServer`] is a row. [`plan`] compares what it lists with the rows of its tools: each becomes a
//! data tool like any other, under the same allowlists, policy, secrets and traces.
//!
//! ```
//! use serde_json::json;
//! use toolcrib_mcp_ingest::{Change, McpServer, plan};
//!
//! let server = McpServer::from_value(&json!({ "name": "files", "url": "https://files.example.com/mcp" }))?;
//! let listed = [json!({ "name": "moveFile", "description": "Move a file", "inputSchema": { "type": "object" } })];
//! let plan = plan(&server, &listed, &[], &|_| false);
//! let (definition, report) = &plan.writes[0];
//! assert_eq!(definition.name.as_str(), "files__move_file");
//! assert_eq!(report.change, Change::Added);
//! # Ok::<(), toolcrib_definition::Problems>(())
//! ```

mod client;
mod discover;
mod endpoint;
mod error;
mod events;
mod exchange;
mod follow;
mod handler;
mod legacy_sse;
mod message;
mod oauth;
mod param_headers;
mod plan;
mod server;
mod servers_json;
mod session;

pub use client::{McpClient, McpRequest, McpResult};
pub use discover::MAX_TOOLS;
pub use endpoint::{Endpoint, Transport};
pub use error::{MCP_CODES, McpError, McpFailure};
pub use exchange::{Mode, ProgressListener};
pub use handler::{ClientHandler, NoCapabilities};
pub use oauth::{Authorizer, ClientIdentity, OAuth, UserAgent};
pub use param_headers::{
    check_annotations, decode as decode_param_header, encode as encode_param_header, headers_of as param_headers,
};
pub use plan::{Change, Plan, ToolReport, keep_decisions, plan};
pub use server::{MAX_SERVER_NAME, McpServer, TransportName, is_server_name};
pub use servers_json::{RefusedServer, ServersImport, read_servers, write_servers};
