//! `toolcrib serve`: the API until a signal.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolcrib_api::{Audience, Server, router};
use toolcrib_skills::read_root;
use toolcrib_store::{Location, NewToken, Role};
use toolcrib_studio::ConfigurationValue;

use crate::compose::{self, Parts};
use crate::config::{Config, Loaded};
use crate::config_reference::flatten;
use crate::output::cell;
use crate::secrets::ConfiguredSecrets;
use crate::{signals, tls};

/// A server that is bound and not yet running.
pub(crate) struct Bound {
    pub(crate) address: SocketAddr,
    pub(crate) scheme: &'static str,
    /// The first admin token, when this is the first start.
    pub(crate) first_token: Option<String>,
    parts: Parts,
    server: Server,
    shutdown: CancellationToken,
    drain: Duration,
    poll: Duration,
    secrets_dir: Option<PathBuf>,
}

/// Builds everything and binds the address. `origin` says where a value of the configuration came from.
pub(crate) async fn bind(
    config: &Config,
    origin: impl Fn(&str) -> String,
    location: &Location,
    address: SocketAddr,
) -> anyhow::Result<Bound> {
    let shutdown = CancellationToken::new();
    let parts = compose::build(config, location, shutdown.clone()).await?;
    seed_skills(config, &parts).await?;
    let tls = match (&config.server.tls_cert, &config.server.tls_key) {
        (Some(cert), Some(key)) => Some(tls::server_config(cert, key)?),
        _ => None,
    };
    let audience = if address.ip().is_loopback() { Audience::Loopback } else { Audience::Network };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let by_https = |url: &String| url.starts_with("https://");
    let value = |(key, value): (String, Value)| ConfigurationValue { value: cell(&value), origin: origin(&key), key };
    let settings = toolcrib_studio::Settings {
        https: tls.is_some() || config.server.public_url.as_ref().is_some_and(by_https),
        configuration: flatten(config).into_iter().map(value).collect(),
    };
    let api = router(parts.state.clone(), audience);
    let router = api.clone().merge(toolcrib_studio::router(api, settings));
    let server = Server::bind(address, tls, router, config.server_settings())
        .await
        .with_context(|| format!("{address} can't be listened on; is another server running there?"))?;
    let first_token = if parts.state.tokens().is_empty() {
        let admin = NewToken { name: "first admin".to_owned(), role: Role::Admin, agents: None, expires_at: None };
        Some(parts.state.tokens().create(&admin).await?.1)
    } else {
        None
    };
    Ok(Bound {
        address: server.local_addr()?,
        scheme,
        first_token,
        parts,
        server,
        shutdown,
        drain: Duration::from_secs(config.server.drain),
        poll: Duration::from_millis(config.store.poll),
        secrets_dir: config.secrets.dir.clone(),
    })
}

/// Takes over what the disk roots hold, where nobody wrote something else. A skill that can't be read hides no other.
async fn seed_skills(config: &Config, parts: &Parts) -> anyhow::Result<()> {
    for root in &config.skills.roots.0 {
        let (skills, errors) = read_root(Path::new(root));
        for error in errors {
            tracing::warn!(error = %error, "skills.root.read failed");
        }
        let changed = parts.engine.skills().seed(&skills, &format!("disk:{root}")).await?;
        tracing::info!(root, skills = skills.len(), changed, "skills of a disk root taken over");
    }
    Ok(())
}

impl Bound {
    /// What ends the server.
    pub(crate) fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Serves until shutdown, then lets everything end: requests, calls, traces, the database.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let Bound { parts, server, shutdown, drain, poll, secrets_dir, .. } = self;
        let Parts { store, executor, engine, state } = parts;
        let mut tasks = JoinSet::new();
        tasks.spawn(state.clone().follow_changes(poll));
        tasks.spawn(state.clone().follow_mcp_servers());
        tasks.spawn(state.clone().send_notices());
        tasks.spawn(executor.clone().keep_ledger(shutdown.clone()));
        tasks.spawn(engine.clone().keep());
        let reloaded = executor.clone();
        tasks.spawn(async move {
            let watching = signals::on_hangup(move || match ConfiguredSecrets::read(secrets_dir.as_deref()) {
                Ok(secrets) => {
                    tracing::info!(secrets = secrets.len(), "secrets read again");
                    reloaded.replace_secrets(Arc::new(secrets));
                }
                Err(error) => tracing::error!(error = %format!("{error:#}"), "the old secrets stay in use"),
            });
            if let Err(error) = watching.await {
                tracing::error!(error = %error, "SIGHUP can't be watched");
            }
        });
        let mut serving = tokio::spawn(server.run(shutdown.clone()));
        state.set_ready(true);
        let ended = tokio::select! {
            ended = &mut serving => ended?,
            task = tasks.join_next() => {
                // Nothing ends before shutdown but by a fault, and half a server is worse than none.
                let surprise = !shutdown.is_cancelled();
                shutdown.cancel();
                let ended = serving.await?;
                if surprise {
                    anyhow::bail!("a background task ended by itself: {task:?}");
                }
                ended
            }
        };
        state.set_ready(false);
        let began = tokio::time::Instant::now();
        let turns = engine.drain(drain).await;
        if !turns {
            tracing::warn!("some turns had not ended; whoever starts next takes them up");
        }
        let drained = executor.drain(drain.saturating_sub(began.elapsed())).await;
        tasks.shutdown().await;
        store.close().await;
        if !(ended && drained) {
            tracing::warn!("some calls had not ended when the time to drain was over; their traces are incomplete");
        }
        Ok(())
    }
}

/// Serves with the configuration until a signal.
pub(crate) async fn run(loaded: &Loaded) -> anyhow::Result<()> {
    let config = &loaded.config;
    let bound = bind(config, |key| loaded.origin(key), &config.location(), config.bind_address()?).await?;
    println!("toolcrib listens on {0}://{1}; the Studio is at {0}://{1}/studio", bound.scheme, bound.address);
    if let Some(token) = &bound.first_token {
        println!("\nThe first admin token, shown this once:\n\n  {token}\n");
    }
    let shutdown = bound.shutdown();
    tokio::spawn(async move {
        if let Err(error) = signals::watch(shutdown.clone()).await {
            tracing::error!(error = %error, "signals can't be watched, so the server ends");
            shutdown.cancel();
        }
    });
    bound.run().await
}
