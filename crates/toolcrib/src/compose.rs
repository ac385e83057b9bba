//! Putting the crates together, in the order of their arrows.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolcrib_api::ApiState;
use toolcrib_egress::{Client, DnsResolver, Guard, Limits, TcpDialler};
use toolcrib_executor::{Executor, ExecutorSettings, HttpDispatch, ProtocolDispatch};
use toolcrib_mcp_ingest::McpClient;
use toolcrib_registry::Registry;
use toolcrib_skills::SkillBook;
use toolcrib_store::{Location, OsRandomness, Store, SystemClock};
use toolcrib_turn::{Engine, SecretLookup};

use crate::config::Config;
use crate::secrets::{ConfiguredSecrets, manifest_environment};

/// The running parts.
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) executor: Executor,
    pub(crate) engine: Engine,
    pub(crate) state: ApiState,
}

/// Builds store, registry, egress, executor, turns and API from a configuration.
pub(crate) async fn build(config: &Config, location: &Location, shutdown: CancellationToken) -> anyhow::Result<Parts> {
    let store = Store::open(location, Arc::new(SystemClock), Arc::new(OsRandomness)).await?;
    let registry = Registry::builder(store.clone()).ask_question().open().await?;
    let client = egress(config, config.limits())?;
    let secrets = ConfiguredSecrets::read(config.secrets.dir.as_deref())?;
    tracing::debug!(secrets = secrets.len(), tools = registry.snapshot().tool_count(), "composed");
    let settings = ExecutorSettings { ledger: config.ledger_settings(), recorder: config.recorder_settings() };
    let (mcp, outgoing) = (McpClient::new(client.clone()), client.clone());
    let dispatch = ProtocolDispatch::new(HttpDispatch::new(client), mcp.clone());
    let executor = Executor::new(registry, Arc::new(dispatch), Arc::new(secrets), settings);
    let keys = executor.clone();
    let providers =
        config.build_providers(&(Arc::new(move |name: &str| keys.secrets().secret(name)) as SecretLookup))?;
    let skills = SkillBook::open(store.clone()).await?;
    let engine = Engine::new(executor.clone(), skills, Arc::new(providers), config.turn_settings());
    let environment = manifest_environment(config.manifest.env.0.clone());
    let state = ApiState::new(engine.clone(), mcp, environment, shutdown, config.people(outgoing)).await?;
    Ok(Parts { store, executor, engine, state })
}

/// The way out, under the policy of a configuration.
pub(crate) fn egress(config: &Config, limits: Limits) -> anyhow::Result<Client> {
    let guard =
        Guard::new(Arc::new(config.policy()?), Arc::new(DnsResolver::system()), Arc::new(TcpDialler), limits.connect);
    Ok(Client::new(guard, limits, &config.trust_roots()?)?)
}
