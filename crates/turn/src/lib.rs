//! Turns: one message to an agent, to its answer, with the tool loop between.
//!
//! The way of a turn is in `run.rs` and reads like the contract: prompt, model, checkpoint, calls, checkpoint, again, until
//! an answer, a halt, a limit or a park. A turn is a row before anything that its model says is acted on, and whoever starts
//! next takes up those that a crash left. Models are behind [`ModelProvider`]; [`Providers`] adds retries, models that stand in
//! for others, and a breaker for each provider.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use toolcrib_definition::NoSecrets;
//! use toolcrib_egress::{Client, DnsResolver, Guard, Limits, Policy, TcpDialler, TrustRoots};
//! use toolcrib_executor::{Executor, ExecutorSettings, HttpDispatch};
//! use toolcrib_registry::{Agent, Registry};
//! use toolcrib_skills::SkillBook;
//! use toolcrib_store::{Location, OsRandomness, Store, SystemClock};
//! use toolcrib_turn::{
//!     Engine, ModelError, ModelEvent, ModelProvider, ModelRequest, ModelStream, NewMessage, Providers, TurnSettings, Usage,
//! };
//!
//! /// A model that says what it was told.
//! struct Echo;
//!
//! #[async_trait::async_trait]
//! impl ModelProvider for Echo {
//!     async fn ask(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
//!         let said = ModelEvent::Text(format!("{:?}", request.messages.last()));
//!         let end = ModelEvent::End { calls: Vec::new(), usage: Usage::default(), cut: false };
//!         Ok(Box::pin(futures_util::stream::iter([Ok(said), Ok(end)])))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open(&Location::Memory, Arc::new(SystemClock), Arc::new(OsRandomness)).await?;
//! let registry = Registry::builder(store.clone()).open().await?;
//! let guard = Guard::new(
//!     Arc::new(Policy::default()),
//!     Arc::new(DnsResolver::system()),
//!     Arc::new(TcpDialler),
//!     Duration::from_secs(10),
//! );
//! let http = Arc::new(HttpDispatch::new(Client::new(guard, Limits::default(), &TrustRoots::system())?));
//! let executor = Executor::new(registry, http, Arc::new(NoSecrets), ExecutorSettings::default());
//!
//! let mut providers = Providers::default();
//! providers.add_custom("echo", Arc::new(Echo));
//! let skills = SkillBook::open(store).await?;
//! let engine = Engine::new(executor, skills, Arc::new(providers), TurnSettings::default());
//!
//! let agent = Arc::new(Agent::from_json(&serde_json::json!({"provider": "echo", "model": "any"}))?);
//! let message = NewMessage { text: "hello".to_owned(), ..NewMessage::default() };
//! let mut turn = engine.begin("support", &agent, message).await?;
//! let outcome = turn.outcome().await.ok_or("the turn is gone")?;
//! assert!(outcome.text.unwrap_or_default().contains("hello"));
//! # Ok(())
//! # }
//! ```

mod begin;
mod calls;
mod checkpoint;
mod engine;
mod event;
mod finish;
mod frame_guard;
mod genai_errors;
mod genai_provider;
mod genai_wire;
mod handle;
mod input;
mod keeper;
mod key_mask;
mod live;
mod message;
mod model;
mod outcome;
mod pack;
mod prompt;
mod provider_settings;
mod provider_thread;
mod providers;
mod request;
mod run;
mod subagents;
mod system_calls;
mod system_tools;

pub use checkpoint::{ActiveSkill, Cited};
pub use engine::{Engine, TurnSettings};
pub use event::TurnEvent;
pub use handle::{TurnHandle, recorded};
pub use input::{NewMessage, session_or_chat};
pub use message::{CallResult, Message, ModelCall};
pub use model::{ModelError, ModelEvent, ModelProvider, ModelRequest, ModelStream, ToolOffer, Usage};
pub use outcome::{TURN_CODES, TurnOutcome, TurnStatus};
pub use pack::Pack;
pub use prompt::PromptTokens;
pub use provider_settings::{ProviderSettings, SecretLookup, WireFormat};
pub use providers::Providers;
