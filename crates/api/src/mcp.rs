//! The MCP server: an agent's tools for any client, in both eras of the protocol, on one address.
//!
//! A message is judged by its era: the current one (2026-07-28) says its version in every request, the
//! legacy ones (2025-11-25 and before) in a handshake. No session ids are handed out, since some clients
//! never recover from a lost one; so any replica answers any request.
//!
//! | file | what |
//! |---|---|
//! | `address.rs` | the HTTP addresses: who may, which era, 401 with its metadata |
//! | `rpc.rs` | JSON-RPC errors with their HTTP statuses |
//! | `legacy.rs`, `current.rs` | what each era asks of a request, and its methods |
//! | `tools.rs` | the list of tools, and results as MCP content |
//! | `calls.rs` | one tools/call, as one answer or as a stream |
//! | `client.rs` | progress, logs and questions of a running tool |
//! | `questions.rs` | questions that wait for a reply on another request |
//! | `request_state.rs` | what a client hands back with its answers, signed |
//! | `parts.rs` | what all requests of a process share |
//! | `subscriptions.rs` | streams that tell that the tools changed |

mod address;
mod approvals;
mod calls;
mod client;
mod current;
mod legacy;
mod parts;
mod questions;
mod request_state;
mod rpc;
mod subscriptions;
mod tools;

pub(crate) use self::address::*;
pub(crate) use self::parts::McpParts;
