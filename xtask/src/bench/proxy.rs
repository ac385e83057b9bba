//! One call through `POST …/calls` against the same upstream through a bare hyper reverse proxy, in
//! turn, on the same cores.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client as PoolClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolcrib_api::{ApiState, Audience, People, Server, ServerSettings, router};
use toolcrib_definition::{Definition, NoSecrets};
use toolcrib_egress::{Client, DnsResolver, Guard, Limits, Policy, TcpDialler, TrustRoots};
use toolcrib_executor::{Dispatch, Executor, ExecutorSettings, HttpDispatch, ProtocolDispatch};
use toolcrib_mcp_ingest::McpClient;
use toolcrib_registry::{Agent, Registry};
use toolcrib_store::{Expect, Location, NewToken, OsRandomness, Role, Store, SystemClock};
use toolcrib_turn::Engine;

use super::{Effort, load, ms};

const CONNECTIONS: usize = 32;

pub async fn run(effort: Effort) -> anyhow::Result<()> {
    let upstream = upstream().await?;
    let pool: PoolClient<HttpConnector, Full<Bytes>> = PoolClient::builder(TokioExecutor::new()).build_http();
    let proxy = serve(move |request| forward(pool.clone(), upstream, request)).await?;
    let folder = tempfile::tempdir()?;
    let (toolcrib, token, executor) = start(&Location::File(folder.path().join("bench.db")), upstream).await?;

    let through_proxy = move || Ok(Request::get("/x").header("host", "bench").body(Full::default())?);
    let body = Bytes::from(json!({ "tool": "fetch", "arguments": { "query": "red kettle", "limit": 3 } }).to_string());
    let through_toolcrib = move || {
        let request = Request::post("/v1/agents/bench/calls")
            .header("host", "localhost")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        Ok(request.body(Full::new(body.clone()))?)
    };
    let warm = effort.round / 4;
    load::run(proxy, CONNECTIONS, warm, through_proxy).await?;
    load::run(toolcrib, CONNECTIONS, warm, through_toolcrib.clone()).await?;
    let mut ratios = Vec::new();
    for _ in 0..effort.rounds {
        let theirs = load::run(proxy, CONNECTIONS, effort.round, through_proxy).await?;
        let ours = load::run(toolcrib, CONNECTIONS, effort.round, through_toolcrib.clone()).await?;
        let (rate, p99) = (ours.rate / theirs.rate, ours.p99.as_secs_f64() / theirs.p99.as_secs_f64());
        println!(
            "proxy: {:.0} requests a second and p99 {:.2} ms; calls: {:.0} and {:.2} ms; ratios {rate:.2} and {p99:.2}",
            theirs.rate,
            ms(theirs.p99),
            ours.rate,
            ms(ours.p99),
        );
        ratios.push((rate, p99));
    }
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (rate, _) = ratios[ratios.len() / 2];
    ratios.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (_, p99) = ratios[ratios.len() / 2];
    executor.recorder().flush(std::time::Duration::from_secs(30)).await;
    println!(
        "calls against a bare proxy at {CONNECTIONS} connections: median {rate:.2} of its requests a second, {p99:.2} times \
         its p99; traces lost: {}",
        executor.metrics().traces_lost()
    );
    Ok(())
}

/// An upstream that answers 1 KiB.
pub async fn upstream() -> anyhow::Result<SocketAddr> {
    serve(|_| async { Ok(Response::new(Full::new(Bytes::from(vec![b'x'; 1024])))) }).await
}

/// The same after a time.
pub async fn slow_upstream(time: std::time::Duration) -> anyhow::Result<SocketAddr> {
    serve(move |_| async move {
        tokio::time::sleep(time).await;
        Ok(Response::new(Full::new(Bytes::from(vec![b'x'; 1024]))))
    })
    .await
}

/// A small server on loopback.
async fn serve<F, R>(handler: F) -> anyhow::Result<SocketAddr>
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
    R: Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let handler = handler.clone();
            let _ = stream.set_nodelay(true);
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(handler)));
        }
    });
    Ok(address)
}

async fn forward(
    pool: PoolClient<HttpConnector, Full<Bytes>>,
    upstream: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = async {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let body = request.into_body().collect().await?.to_bytes();
        let onward = Request::get(format!("http://{upstream}{path}")).body(Full::new(body))?;
        let response = pool.request(onward).await?;
        let (head, body) = response.into_parts();
        anyhow::Ok(Response::from_parts(head, Full::new(body.collect().await?.to_bytes())))
    };
    Ok(answer.await.unwrap_or_else(|_| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = http::StatusCode::BAD_GATEWAY;
        response
    }))
}

/// Toolcrib with one tool that calls the upstream, and a token for it.
pub async fn start(location: &Location, upstream: SocketAddr) -> anyhow::Result<(SocketAddr, String, Executor)> {
    start_with(location, upstream, |dispatch| Arc::new(dispatch)).await
}

/// The same with another way to make calls.
pub async fn start_with(
    location: &Location,
    upstream: SocketAddr,
    dispatch: impl FnOnce(ProtocolDispatch) -> Arc<dyn Dispatch>,
) -> anyhow::Result<(SocketAddr, String, Executor)> {
    let store = Store::open(location, Arc::new(SystemClock), Arc::new(OsRandomness)).await?;
    let registry = Registry::builder(store).open().await?;
    let tool = Definition::from_value(&json!({
        "name": "fetch",
        "description": "Fetch one KiB",
        "parameters": { "type": "object", "properties": {
            "query": { "type": "string", "maxLength": 200 }, "limit": { "type": "integer", "minimum": 1 },
        }, "required": ["query"] },
        "request": { "method": Method::GET.as_str(), "url": format!("http://{upstream}/x"), "query": { "q": "{{query}}" } },
    }))?;
    registry.put_tool(&tool, Expect::Anything, "bench").await?;
    registry.put_agent(&"bench".parse().map_err(anyhow::Error::msg)?, &Agent::default(), Expect::Anything).await?;
    let policy = Policy { allow_http: true, allow_private: true, ..Policy::default() };
    let limits = Limits::default();
    let guard = Guard::new(Arc::new(policy), Arc::new(DnsResolver::system()), Arc::new(TcpDialler), limits.connect);
    let client = Client::new(guard, limits, &TrustRoots::default())?;
    let mcp = McpClient::new(client.clone());
    let http = dispatch(ProtocolDispatch::new(HttpDispatch::new(client), mcp.clone()));
    let executor = Executor::new(registry, http, Arc::new(NoSecrets), ExecutorSettings::default());
    let state = ApiState::new(
        Engine::without_models(executor.clone()).await?,
        mcp,
        Arc::new(|_: &str| None),
        CancellationToken::new(),
        People::default(),
    )
    .await?;
    let new = NewToken { name: "bench".to_owned(), role: Role::Admin, agents: None, expires_at: None };
    let (_, token) = state.tokens().create(&new).await?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::bind(address, None, router(state, Audience::Loopback), ServerSettings::default()).await?;
    let address = server.local_addr()?;
    tokio::spawn(server.run(CancellationToken::new()));
    Ok((address, token, executor))
}
