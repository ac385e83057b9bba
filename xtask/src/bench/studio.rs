//! Each page of the Studio over a large catalog and many traces: its time on the server, and its bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use http::header::{CONTENT_TYPE, COOKIE, HOST, SET_COOKIE};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolcrib_api::{ApiState, Audience, People, router};
use toolcrib_definition::{Definition, NoSecrets};
use toolcrib_egress::{Client, DnsResolver, Guard, Limits, Policy, TcpDialler, TrustRoots};
use toolcrib_executor::{Executor, ExecutorSettings, HttpDispatch, ProtocolDispatch};
use toolcrib_mcp_ingest::McpClient;
use toolcrib_registry::{Agent, Registry};
use toolcrib_store::{Expect, Location, NewToken, NewTurn, OsRandomness, Role, Store, SystemClock, TraceRow};
use toolcrib_studio::Settings;
use toolcrib_turn::Engine;
use tower::ServiceExt;

use super::{Effort, ms, quantile};

/// Traces for each tool of the catalog.
const TRACES_A_TOOL: usize = 10;
/// The time over which the traces are spread, in ms: a week.
const WEEK_MS: i64 = 7 * 24 * 3600 * 1000;
/// How often each page is asked for.
const ASKED: usize = 40;
/// The most that a page may take at p95, and be.
const MOST_MS: f64 = 150.0;
const MOST_KIB: usize = 200;

pub async fn run(effort: Effort) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let location = Location::File(folder.path().join("studio.db"));
    let store = Store::open(&location, Arc::new(SystemClock), Arc::new(OsRandomness)).await?;
    let registry = Registry::builder(store.clone()).open().await?;
    fill_catalog(&registry, effort.tools).await?;
    let traces = effort.tools * TRACES_A_TOOL;
    let last = fill_traces(&store, effort.tools, traces).await?;
    fill_turns(&store).await?;
    let app = app(registry).await?;
    let cookie = log_in(&app.0, &app.1).await?;
    println!("studio: {} tools, {traces} traces", effort.tools);

    let mut slow = Vec::new();
    for path in [
        "/studio/login".to_owned(),
        "/studio".to_owned(),
        "/studio/tools".to_owned(),
        "/studio/tools?q=order+42".to_owned(),
        "/studio/tools?group=group_7".to_owned(),
        "/studio/tools?sort=updated".to_owned(),
        format!("/studio/tools?sort=group&after={}", effort.tools / 2),
        "/studio/tools/tool_42".to_owned(),
        "/studio/tools/tool_42/edit".to_owned(),
        "/studio/agents".to_owned(),
        "/studio/agents/all".to_owned(),
        "/studio/agents/some?may=true".to_owned(),
        "/studio/sessions".to_owned(),
        "/studio/sessions?tool=tool_42&status=error".to_owned(),
        "/studio/sessions/chat-5".to_owned(),
        "/studio/sessions/talk-5".to_owned(),
        "/studio/traces".to_owned(),
        "/studio/traces?agent=some&status=error".to_owned(),
        "/studio/traces?tool=tool_42".to_owned(),
        format!("/studio/traces/{last}"),
        "/studio/approvals".to_owned(),
        "/studio/doubts".to_owned(),
        "/studio/skills".to_owned(),
        "/studio/mcp".to_owned(),
        "/studio/tokens".to_owned(),
        "/studio/doctor".to_owned(),
        "/studio/configuration".to_owned(),
        "/studio/new".to_owned(),
    ] {
        let mut times = Vec::with_capacity(ASKED);
        let mut bytes = 0;
        for _ in 0..ASKED {
            let began = Instant::now();
            bytes = ask(&app.0, &path, &cookie).await.with_context(|| path.clone())?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        let (p50, p95) = (ms(quantile(&times, 0.5)), ms(quantile(&times, 0.95)));
        let kib = bytes.div_ceil(1024);
        println!("  {path}: p50 {p50:.1} ms, p95 {p95:.1} ms, {kib} KiB");
        if p95 > MOST_MS || kib > MOST_KIB {
            slow.push(path);
        }
    }
    let over = if slow.is_empty() { "no page".to_owned() } else { slow.join(", ") };
    println!("over {MOST_MS:.0} ms at p95 or {MOST_KIB} KiB: {over}");
    Ok(())
}

async fn fill_catalog(registry: &Registry, tools: usize) -> anyhow::Result<()> {
    let numbers: Vec<usize> = (0..tools).collect();
    for part in numbers.chunks(2_000) {
        let definition = |number: &usize| {
            Definition::from_value(&json!({
                "name": format!("tool_{number}"), "description": format!("Look at order {number} of the shop in region {}", number % 97),
                "parameters": { "type": "object", "properties": { "id": { "type": "string", "description": "The order" } }, "required": ["id"] },
                "request": { "url": format!("https://api.example.com/{number}/{{{{id}}}}") },
                "group": format!("group_{}", number % 500), "tags": ["bench", format!("tag_{}", number % 50)],
            }))
        };
        let definitions = part.iter().map(definition).collect::<Result<Vec<_>, _>>()?;
        registry.put_tools(&definitions, "bench").await?;
    }
    let some: Vec<String> = (0..1_000.min(tools)).map(|number| format!("tool_{number}")).collect();
    for (id, profile) in
        [("all", json!({})), ("some", json!({ "tools_allow": some, "tools_allow_groups": ["group_7"] }))]
    {
        let agent = Agent::from_json(&profile)?;
        registry.put_agent(&id.parse().map_err(anyhow::Error::msg)?, &agent, Expect::Anything).await?;
    }
    Ok(())
}

/// Traces of a week, ten to a chat, one of twenty failed and one of two hundred blocked. Returns the id of the last.
async fn fill_traces(store: &Store, tools: usize, traces: usize) -> anyhow::Result<String> {
    let now = store.clock().now_ms();
    let numbers: Vec<usize> = (0..traces).collect();
    let mut last = String::new();
    for part in numbers.chunks(5_000) {
        let row = |number: &usize| {
            let started_at = now - WEEK_MS
                + i64::try_from(*number).unwrap_or_default() * WEEK_MS / i64::try_from(traces).unwrap_or(1);
            let (id, tool) = (format!("{started_at:012x}{number:020x}"), format!("tool_{}", (number * 7919) % tools));
            let (status, blocked) = match number {
                n if n % 200 == 0 => ("error", Some("egress.metadata_address".to_owned())),
                n if n % 20 == 0 => ("error", None),
                _ => ("ok", None),
            };
            let session = format!("chat-{}", number / 10);
            let document = json!({
                "id": id, "session": session, "agent": "some", "tool": tool, "call_id": format!("call_{number}"), "status": status,
                "started_at": started_at, "duration_ms": 12, "phases_ms": { "check": 0.1, "render": 0.1, "connect": 2.0, "first_byte": 8.0 },
                "origin": "data", "arguments": { "id": number.to_string() },
                "request": { "method": "GET", "url": format!("https://api.example.com/{number}"), "headers": [] },
                "response": { "status": 200, "body": { "id": number, "state": "sent", "lines": ["a", "b", "c"] } }, "result": { "state": "sent" },
            });
            TraceRow {
                id,
                session,
                agent: "some".to_owned(),
                tool,
                call_id: format!("call_{number}"),
                status: status.to_owned(),
                blocked,
                started_at,
                duration_ms: 12,
                document: document.to_string(),
            }
        };
        let rows: Vec<TraceRow> = part.iter().map(row).collect();
        last = rows.last().map(|row| row.id.clone()).unwrap_or_default();
        store.insert_traces(&rows).await?;
    }
    Ok(last)
}

async fn fill_turns(store: &Store) -> anyhow::Result<()> {
    for number in 0..500 {
        let turn = NewTurn {
            id: format!("{:012x}{number:020x}", store.clock().now_ms()),
            agent: "some".to_owned(),
            session: format!("talk-{}", number % 50),
            parent: None,
            input: json!({ "text": "Where is my order?" }).to_string(),
        };
        store.begin_turn(&turn, None, 0).await?;
    }
    Ok(())
}

async fn app(registry: Arc<Registry>) -> anyhow::Result<(Router, String)> {
    let guard = Guard::new(
        Arc::new(Policy::default()),
        Arc::new(DnsResolver::system()),
        Arc::new(TcpDialler),
        Duration::from_secs(10),
    );
    let client = Client::new(guard, Limits::default(), &TrustRoots::default())?;
    let mcp = McpClient::new(client.clone());
    let dispatch = Arc::new(ProtocolDispatch::new(HttpDispatch::new(client), mcp.clone()));
    let executor = Executor::new(registry, dispatch, Arc::new(NoSecrets), ExecutorSettings::default());
    let engine = Engine::without_models(executor).await?;
    let state =
        ApiState::new(engine, mcp, Arc::new(|_: &str| None), CancellationToken::new(), People::default()).await?;
    let admin = NewToken { name: "bench".to_owned(), role: Role::Admin, agents: None, expires_at: None };
    let token = state.tokens().create(&admin).await?.1;
    state.set_ready(true);
    let api = router(state, Audience::Network);
    Ok((toolcrib_studio::router(api, Settings::default()), token))
}

async fn log_in(app: &Router, token: &str) -> anyhow::Result<String> {
    let request = Request::post("/studio/login")
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Body::from(format!("token={token}")))?;
    let Ok(response) = app.clone().oneshot(request).await;
    let cookie = response.headers().get(SET_COOKIE).context("nobody was logged in")?.to_str()?;
    Ok(cookie.split(';').next().unwrap_or_default().to_owned())
}

async fn ask(app: &Router, path: &str, cookie: &str) -> anyhow::Result<usize> {
    let request = Request::get(path).header(HOST, "localhost").header(COOKIE, cookie).body(Body::empty())?;
    let Ok(response) = app.clone().oneshot(request).await;
    anyhow::ensure!(response.status() == StatusCode::OK, "{} says {}", path, response.status());
    Ok(response.into_body().collect().await?.to_bytes().len())
}
