//! The server of the suite's server scenarios.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use http::header::{AUTHORIZATION, HeaderValue};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolcrib_api::{ApiState, Audience, People, Server, ServerSettings, router};
use toolcrib_definition::{Definition, NoSecrets};
use toolcrib_egress::{Client, DnsResolver, Guard, Limits, Policy, TcpDialler, TrustRoots};
use toolcrib_executor::{Executor, ExecutorSettings, HttpDispatch, ProtocolDispatch};
use toolcrib_mcp_ingest::McpClient;
use toolcrib_registry::{Agent, Registry};
use toolcrib_store::{Expect, Location, NewToken, OsRandomness, Role, Store, SystemClock};
use toolcrib_turn::Engine;

use crate::{talking, upstream};

/// Serves the agent `conformance` at `/v1/agents/conformance/mcp`. The suite sends no token, so each
/// request is given one.
pub async fn run(address: SocketAddr) -> anyhow::Result<()> {
    let store = Store::open(&Location::Memory, Arc::new(SystemClock), Arc::new(OsRandomness)).await?;
    let registry = talking::add_to(Registry::builder(store)).open().await?;
    let upstream = upstream::serve().await?;
    let tools: Vec<Definition> = upstream::ANSWERS
        .iter()
        .map(|name| {
            Definition::from_value(&json!({
                "name": format!("test_{name}"), "description": format!("Answers with {}", name.replace('_', " ")),
                "request": { "url": format!("http://{upstream}/{name}") },
                "response": { "extract": "mcp_content" },
            }))
        })
        .collect::<Result<_, _>>()?;
    registry.put_tools(&tools, "conformance").await?;
    let agent = "conformance".parse().map_err(anyhow::Error::msg)?;
    registry.put_agent(&agent, &Agent::default(), Expect::Anything).await?;

    let policy = Policy { allow_http: true, allow_private: true, ..Policy::default() };
    let limits = Limits::default();
    let guard = Guard::new(Arc::new(policy), Arc::new(DnsResolver::system()), Arc::new(TcpDialler), limits.connect);
    let client = Client::new(guard, limits, &TrustRoots::default())?;
    let mcp = McpClient::new(client.clone());
    let dispatch = Arc::new(ProtocolDispatch::new(HttpDispatch::new(client), mcp.clone()));
    let executor = Executor::new(Arc::clone(&registry), dispatch, Arc::new(NoSecrets), ExecutorSettings::default());
    talking::ChangeTools::fill(registry);
    let state = ApiState::new(
        Engine::without_models(executor).await?,
        mcp,
        Arc::new(|_: &str| None),
        CancellationToken::new(),
        People::default(),
    )
    .await?;
    let new = NewToken { name: "suite".to_owned(), role: Role::Caller, agents: None, expires_at: None };
    let (_, token) = state.tokens().create(&new).await?;
    let bearer = HeaderValue::from_str(&format!("Bearer {token}"))?;
    let with_token = from_fn(move |mut request: Request, next: Next| {
        request.headers_mut().entry(AUTHORIZATION).or_insert(bearer.clone());
        next.run(request)
    });
    let router = router(state, Audience::Loopback).layer(with_token);
    let server = Server::bind(address, None, router, ServerSettings::default()).await?;
    println!("http://{}/v1/agents/conformance/mcp", server.local_addr()?);
    server.run(CancellationToken::new()).await;
    Ok(())
}
