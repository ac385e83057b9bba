//! The only way out.
//!
//! An HTTP client that judges the address it dials. By default a call goes to `https` on a public
//! address and nowhere else: not to this machine, not to a private network, never to a cloud's
//! metadata service, whatever a name resolves to and however the URL is spelled. Answers are
//! bounded in time and size.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use toolcrib_egress::{Client, DnsResolver, Guard, Limits, Outbound, Policy, TcpDialler, TrustRoots};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = Arc::new(Policy::default());
//! let resolver = Arc::new(DnsResolver::system());
//! let guard = Guard::new(Arc::clone(&policy), resolver, Arc::new(TcpDialler), Duration::from_secs(10));
//! let client = Client::new(guard, Limits::default(), &TrustRoots::system())?;
//!
//! assert!(policy.check_url("https://10.0.0.5/admin").is_err());
//! let target = policy.check_url("https://api.example.com/items")?;
//! # let _ = (client, target);
//! # Ok(())
//! # }
//! ```

mod address;
mod barrier;
mod blocked;
mod body;
mod client;
mod counted;
mod dial;
mod error;
mod guard;
mod in_flight;
mod limits;
mod policy;
mod resolve;
mod streamed;
mod target;
mod tls;

pub use address::{AddressClass, classify};
pub use barrier::{Barrier, NoBarrier, Withheld};
pub use blocked::{BLOCK_CODES, BlockReason, Blocked};
pub use body::Completeness;
pub use client::{Client, Dedicated, Inbound, Outbound, SendFailure, Sent, Timings};
pub use dial::{Dial, Stream, TcpDialler};
pub use error::{EGRESS_CODES, EgressError, Phase};
pub use guard::Guard;
pub use limits::Limits;
pub use policy::{BUILTIN_DENIED_HOSTS, HostPattern, InvalidHostPattern, MixedAnswers, Policy};
pub use resolve::{DnsResolver, Resolve, ResolveError};
pub use streamed::Streamed;
pub use target::{Target, TargetHost};
pub use tls::{TrustError, TrustRoots};
