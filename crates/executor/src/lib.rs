//! One call and one batch, from the arguments a model gave to the outcome it reads.
//!
//! The way of a call is in `pipeline.rs` and reads like the contract: resolve, allowed, arguments,
//! approval, ledger, render, egress, send, extract, evidence, halt, trace, outcome. How a call is made is
//! behind [`Dispatch`]; [`HttpDispatch`] makes it over the guarded client.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use toolcrib_definition::{Ctx, NoSecrets};
//! use toolcrib_egress::{Client, DnsResolver, Guard, Limits, Policy, TcpDialler, TrustRoots};
//! use toolcrib_executor::{CallRequest, Executor, ExecutorSettings, HttpDispatch, Status};
//! use toolcrib_registry::Registry;
//! use toolcrib_store::{Location, OsRandomness, Store, SystemClock};
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
//! let http = Arc::new(HttpDispatch::new(client));
//! let executor = Executor::new(registry, http, Arc::new(NoSecrets), ExecutorSettings::default());
//!
//! let request = CallRequest::new("no_such_tool", serde_json::json!({}));
//! let outcome = executor.call("support", &Default::default(), Ctx::default(), request).await;
//! assert_eq!(outcome.status, Status::Error);
//! # Ok(())
//! # }
//! ```

mod approval;
mod batch;
mod breaker;
mod claim;
mod code;
mod data_call;
mod decisions;
mod dispatch;
mod events;
mod executor;
mod failpoint;
mod fingerprint;
mod http;
mod keeper;
mod ledgered;
mod mcp;
mod metrics;
mod outcome;
mod pipeline;
mod preview;
mod recorded;
mod recorder;
mod retry;
mod trace;
mod wait;

pub use approval::may_be_ledgered;
pub use batch::{Batch, BatchObserver, Unobserved};
pub use breaker::{BreakerReport, BreakerState, Breakers};
pub use decisions::{DecisionError, LedgerCall, Say, SayOfDoubt, UnfitAnswer};
pub use dispatch::{Dispatch, DispatchFailure, Dispatched, FailureKind, PreparedCall, UpstreamAnswer};
pub use events::{Event, EventKind, Events};
pub use executor::{CallRequest, Executor, ExecutorSettings, LedgerSettings};
pub use http::HttpDispatch;
pub use keeper::TRY_AGENT;
pub use mcp::ProtocolDispatch;
pub use metrics::Metrics;
pub use outcome::{CALL_CODES, HaltOutcome, Outcome, Status};
pub use preview::{Preview, PreviewError, PreviewHeader};
pub use recorder::{Recorder, RecorderSettings};
