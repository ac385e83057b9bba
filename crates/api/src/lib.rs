//! The HTTP API: tools, skills, agents, calls, turns, traces, events, tokens, doctor, metrics.
//!
//! [`router`] gives all of it as an [`axum::Router`] over an [`ApiState`]; [`Server`] serves that
//! with header timeouts, bounds and a graceful end. Errors are problem JSON (RFC 9457) with stable
//! codes.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tokio_util::sync::CancellationToken;
//! use toolcrib_api::{ApiState, Audience, People, router};
//! use toolcrib_definition::NoSecrets;
//! use toolcrib_egress::{Client, DnsResolver, Guard, Limits, Policy, TcpDialler, TrustRoots};
//! use toolcrib_executor::{Executor, ExecutorSettings, HttpDispatch, ProtocolDispatch};
//! use toolcrib_mcp_ingest::McpClient;
//! use toolcrib_registry::Registry;
//! use toolcrib_store::{Location, OsRandomness, Store, SystemClock};
//! use toolcrib_turn::Engine;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open(&Location::Memory, Arc::new(SystemClock), Arc::new(OsRandomness)).await?;
//! let registry = Registry::builder(store).open().await?;
//! let guard = Guard::new(
//!     Arc::new(Policy::default()),
//!     Arc::new(DnsResolver::system()),
//!     Arc::new(TcpDialler),
//!     Duration::from_secs(10),
//! );
//! let client = Client::new(guard, Limits::default(), &TrustRoots::system())?;
//! let mcp = McpClient::new(client.clone());
//! let dispatch = Arc::new(ProtocolDispatch::new(HttpDispatch::new(client), mcp.clone()));
//! let executor = Executor::new(registry, dispatch, Arc::new(NoSecrets), ExecutorSettings::default());
//! let engine = Engine::without_models(executor).await?;
//! let state = ApiState::new(engine, mcp, Arc::new(|_: &str| None), CancellationToken::new(), People::default()).await?;
//! let app = router(state, Audience::Loopback);
//! # let _ = app;
//! # Ok(())
//! # }
//! ```

mod activity;
mod agent_reach;
mod agent_tools;
mod agents;
mod approval_links;
mod approval_page;
mod approvals;
mod auth;
mod body;
mod calls;
mod catalog_page;
mod docs_page;
mod doctor;
mod events;
mod extract;
mod forecast;
mod health;
mod ingestion;
mod ledger;
mod loopback;
mod manifest;
mod mcp;
mod mcp_follow;
mod mcp_ingest;
mod mcp_servers;
mod models;
mod notices;
mod openapi;
mod people;
mod problem;
mod responses;
mod revision;
mod router;
mod server;
mod skills;
mod state;
mod time;
mod token_book;
mod tokens;
mod tool_try;
mod tool_versions;
mod tools;
mod traces;
mod turn_stream;
mod turns;
mod whoami;

pub use auth::Principal;
pub use body::{MAX_BODY, MAX_MANIFEST};
pub use doctor::DOCTOR_CODES;
pub use people::{LINK_SECRET, People, Webhook, WebhookFormat, WebhookUrl};
pub use problem::API_CODES;
pub use router::{Audience, openapi_document, router};
pub use server::{Server, ServerSettings};
pub use state::{ApiState, ManifestEnvironment, Parts};
pub use token_book::TokenBook;
