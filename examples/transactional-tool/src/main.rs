//! `transactional-tool ADDRESS DATABASE`: Toolcrib's API with one tool of its own, which books seats in the same database
//! that holds the ledger. The booking and the end of the call are one commit, so a seat is booked exactly once, however
//! often the process is killed.

mod book_seat;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use toolcrib_api::{ApiState, Audience, People, Server, ServerSettings, router};
use toolcrib_definition::NoSecrets;
use toolcrib_egress::{Client, DnsResolver, Guard, Limits, Policy, TcpDialler, TrustRoots};
use toolcrib_executor::{Executor, ExecutorSettings, HttpDispatch, LedgerSettings};
use toolcrib_mcp_ingest::McpClient;
use toolcrib_registry::{Agent, Registry};
use toolcrib_store::{Expect, Location, NewToken, OsRandomness, Role, Store, SystemClock};
use toolcrib_turn::Engine;

use book_seat::BookSeat;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    #[cfg(feature = "failpoints")]
    let _scenario = fail::FailScenario::setup();
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().context("the first argument is an address")?.parse()?;
    let location: Location =
        arguments.next().context("the second argument is a database")?.parse().map_err(anyhow::Error::msg)?;

    let store = Store::open(&location, Arc::new(SystemClock), Arc::new(OsRandomness)).await?;
    let registry = Registry::builder(store).transactional_tool(BookSeat).open().await?;
    let agent = "clerk".parse().map_err(anyhow::Error::msg)?;
    registry.put_agent(&agent, &Agent::default(), Expect::Anything).await?;

    let limits = Limits::default();
    let policy = Arc::new(Policy::default());
    let guard = Guard::new(policy, Arc::new(DnsResolver::system()), Arc::new(TcpDialler), limits.connect);
    let client = Client::new(guard, limits, &TrustRoots::default())?;
    let dispatch = Arc::new(HttpDispatch::new(client.clone()));
    // A call whose process is gone is taken over after this time.
    let ledger = LedgerSettings { lease: Duration::from_secs(1), ..LedgerSettings::default() };
    let settings = ExecutorSettings { ledger, ..ExecutorSettings::default() };
    let executor = Executor::new(registry, dispatch, Arc::new(NoSecrets), settings);

    let shutdown = CancellationToken::new();
    let keeper = tokio::spawn(executor.clone().keep_ledger(shutdown.clone()));
    let state = ApiState::new(
        Engine::without_models(executor).await?,
        McpClient::new(client),
        Arc::new(|_: &str| None),
        shutdown.clone(),
        People::default(),
    )
    .await?;
    let new = NewToken { name: "clerk".to_owned(), role: Role::Operator, agents: None, expires_at: None };
    let (_, token) = state.tokens().create(&new).await?;
    state.set_ready(true);
    let server = Server::bind(address, None, router(state, Audience::Loopback), ServerSettings::default()).await?;
    println!("http://{} {token}", server.local_addr()?);
    server.run(shutdown).await;
    keeper.await?;
    Ok(())
}
