//! The MCP endpoint beside the REST calls, the list of a thousand tools, and their ingestion.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as PoolClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use toolcrib_definition::Definition;

use toolcrib_store::Location;

use super::{Effort, load, ms, proxy};

const CONNECTIONS: usize = 16;
const TOOLS: usize = 1_000;
const VERSION: &str = "2026-07-28";

pub async fn run(effort: Effort) -> anyhow::Result<()> {
    let upstream = proxy::upstream().await?;
    let folder = tempfile::tempdir()?;
    let (address, token, executor) = proxy::start(&Location::File(folder.path().join("bench.db")), upstream).await?;

    let arguments = json!({ "query": "red kettle", "limit": 3 });
    let rest = json!({ "tool": "fetch", "arguments": arguments }).to_string();
    let call = message("tools/call", json!({ "name": "fetch", "arguments": arguments }));
    let through_rest = requests(&token, "/v1/agents/bench/calls", rest, None);
    let through_mcp = requests(&token, "/v1/agents/bench/mcp", call, Some(("tools/call", "fetch")));
    let warm = effort.round / 4;
    load::run(address, CONNECTIONS, warm, through_rest.clone()).await?;
    load::run(address, CONNECTIONS, warm, through_mcp.clone()).await?;
    let mut ratios = Vec::new();
    for _ in 0..effort.rounds {
        let rest = load::run(address, CONNECTIONS, effort.round, through_rest.clone()).await?;
        let mcp = load::run(address, CONNECTIONS, effort.round, through_mcp.clone()).await?;
        let ratio = mcp.rate / rest.rate;
        println!(
            "calls: {:.0} a second and p99 {:.2} ms; tools/call: {:.0} and {:.2} ms; ratio {ratio:.2}",
            rest.rate,
            ms(rest.p99),
            mcp.rate,
            ms(mcp.p99)
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    println!("tools/call against a REST call at {CONNECTIONS} connections: median {:.2}", ratios[ratios.len() / 2]);

    let tools = (0..TOOLS).map(|i| tool(i, upstream)).collect::<anyhow::Result<Vec<_>>>()?;
    executor.registry().put_tools(&tools, "bench").await?;
    let client: PoolClient<HttpConnector, Full<Bytes>> = PoolClient::builder(TokioExecutor::new()).build_http();
    let send = async |request: Request<Full<Bytes>>| -> anyhow::Result<Bytes> {
        let response = client.request(absolute(request, address)?).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    };
    let list = requests(&token, "/v1/agents/bench/mcp", message("tools/list", json!({})), Some(("tools/list", "")));
    let mut times = Vec::new();
    for _ in 0..21 {
        let started = Instant::now();
        let answer = send(list()?).await?;
        times.push(started.elapsed());
        let answer: Value = serde_json::from_slice(&answer)?;
        let listed = answer["result"]["tools"].as_array().map_or(0, Vec::len);
        anyhow::ensure!(listed > TOOLS * 9 / 10, "{listed} tools are listed");
    }
    let first = times.remove(0);
    times.sort();
    println!(
        "tools/list of {TOOLS} tools, over the wire: first {:.2} ms, then p50 {:.2} and at most {:.2} ms",
        ms(first),
        ms(times[times.len() / 2]),
        ms(times[times.len() - 1])
    );

    let other_folder = tempfile::tempdir()?;
    let (other, other_token, _executor) =
        proxy::start(&Location::File(other_folder.path().join("bench.db")), upstream).await?;
    // The bench has no secret sources; the token is good for a database that goes with its folder.
    let headers = json!({ "Authorization": format!("Bearer {token}") });
    let server = json!({ "url": format!("http://{address}/v1/agents/bench/mcp"), "headers": headers });
    let put = Request::put("/v1/mcp/servers/peer")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {other_token}"));
    let written = client.request(absolute(put.body(Full::new(Bytes::from(server.to_string())))?, other)?).await?;
    anyhow::ensure!(written.status().is_success(), "the server is written: {}", written.status());
    let ingest = requests(&other_token, "/v1/mcp/servers/peer/ingest", String::new(), None);
    let started = Instant::now();
    let response = client.request(absolute(ingest()?, other)?).await?;
    let took = started.elapsed();
    let answer: Value = serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?;
    anyhow::ensure!(answer["added"].as_u64() > Some(900), "ingested: {answer}");
    println!("ingesting {} tools: {:.0} ms", answer["added"], ms(took));
    Ok(())
}

fn tool(i: usize, upstream: SocketAddr) -> anyhow::Result<Definition> {
    Ok(Definition::from_value(&json!({
        "name": format!("tool_{i}"), "description": format!("Tool number {i} of the bench, which fetches one KiB"),
        "parameters": { "type": "object", "properties": {
            "query": { "type": "string", "description": "Words to look for" },
            "limit": { "type": "integer", "minimum": 1, "description": "How many at most" },
        }, "required": ["query"] },
        "request": {
            "url": format!("http://{upstream}/x"), "query": { "q": "{{query}}" },
        },
    }))?)
}

fn message(method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

/// The same request over and over.
fn requests(
    token: &str,
    path: &'static str,
    body: String,
    mcp: Option<(&'static str, &'static str)>,
) -> impl Fn() -> anyhow::Result<Request<Full<Bytes>>> + Clone + Send + 'static {
    let (token, body) = (token.to_owned(), Bytes::from(body));
    move || {
        let mut request = Request::post(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some((method, name)) = mcp {
            request = request.header("mcp-protocol-version", VERSION).header("mcp-method", method);
            if !name.is_empty() {
                request = request.header("mcp-name", name);
            }
        }
        Ok(request.body(Full::new(body.clone()))?)
    }
}

fn absolute(mut request: Request<Full<Bytes>>, address: SocketAddr) -> anyhow::Result<Request<Full<Bytes>>> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    *request.uri_mut() = format!("http://{address}{path}").parse()?;
    Ok(request)
}
