//! `toolcrib quickstart`: the main job on this machine, through the public API.

mod upstream;

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, ensure};
use clap::Args;
use http::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolcrib_store::Location;

use crate::config::{Config, Flag};
use crate::connection::Connection;
use crate::output::{Output, cell};
use crate::{logging, serve, signals};

/// The port the tour prefers; another is taken when it is in use.
const PORT: u16 = 8470;

#[derive(Debug, Args)]
pub(crate) struct QuickstartArgs {
    /// Stop after the tour
    #[arg(long)]
    exit: bool,
}

pub(crate) async fn run(args: QuickstartArgs, output: Output) -> anyhow::Result<()> {
    let mut config = Config::default();
    config.log.filter = "error".to_owned();
    // The demo upstream is plain HTTP on this machine, which the strict default would block.
    config.egress.allow_http = Flag(true);
    config.egress.allow_private = Flag(true);
    logging::install(&config.log)?;

    let shutdown = CancellationToken::new();
    let upstream = upstream::start(shutdown.clone()).await.context("the demo upstream can't be started")?;
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let location = Location::File(folder.path().join("quickstart.db"));
    let preferred = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let origin = |_: &str| "quickstart".to_owned();
    let bound = match serve::bind(&config, origin, &location, preferred).await {
        Ok(bound) => bound,
        Err(_) => serve::bind(&config, origin, &location, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?,
    };
    let base = format!("http://{}", bound.address);
    let token = bound.first_token.clone().context("a new database has a first token")?;
    let ending = bound.shutdown();
    let serving = tokio::spawn(bound.run());

    let api = Connection::remote(&base, Some(token.clone()))?;
    tour(&api, &upstream, output).await?;
    if !args.exit {
        go_on(&base, &token);
        tokio::spawn(signals::watch(ending.clone()));
        ending.cancelled().await;
    }
    ending.cancel();
    shutdown.cancel();
    serving.await.context("the server failed")?
}

/// The manifest of the tour.
fn manifest(upstream: &str) -> Value {
    json!({
        "version": 1,
        "defaults": { "base_url": upstream, "path_template": "/{endpoint}", "group": "demo" },
        "tools": [
            {
                "name": "search_products",
                "description": "Search the catalog by words",
                "endpoint": "products",
                "parameters": [
                    { "name": "query", "description": "Words to look for" },
                    { "name": "limit", "type": "integer", "required": false, "description": "How many at the most" },
                ],
                "query": { "q": "{{query}}", "limit": "{{limit}}" },
                "response": { "extract": "json_path", "path": "$.results" },
            },
            {
                "name": "start_return",
                "description": "Start the return of an order",
                "endpoint": "returns",
                "method": "POST",
                "parameters": [{ "name": "order", "description": "The order number" }],
                "body": { "order": "{{order}}", "chat": "{{ctx.chat_id}}" },
                "halt_when": { "json_path": "state", "equals": "HANDED_OVER", "say": { "json_path": "message" } },
            },
            {
                "name": "read_metadata",
                "description": "What a prompt injection would love to have",
                "url": "http://169.254.169.254/latest/meta-data/",
            },
        ],
    })
}

async fn tour(api: &Connection, upstream: &str, output: Output) -> anyhow::Result<()> {
    let mut steps = Vec::new();
    let say = |text: &str| {
        if !output.json {
            println!("{text}");
        }
    };
    say("Toolcrib quickstart. Everything below went through the public API.\n");

    say("1. A manifest of three tools is imported. They are live at once.");
    let imported = api.send(Method::POST, "/v1/tools/manifest", Some(&manifest(upstream))).await?;
    say(&format!("   created: {}", cell(&imported["created"])));
    for warning in imported["warnings"].as_array().into_iter().flatten() {
        say(&format!("   warning: {}", cell(warning)));
    }
    let profile = json!({ "description": "The demo agent", "tools_allow_groups": ["demo"] });
    api.send(Method::PUT, "/v1/agents/demo", Some(&profile)).await?;
    steps.push(json!({ "step": "import", "answer": imported }));

    say("\n2. The tools as the model sees them (OpenAI's format):");
    let tools = api.send(Method::GET, "/v1/agents/demo/tools?format=openai", None).await?;
    for tool in tools["tools"].as_array().into_iter().flatten() {
        say(&format!("   {tool}"));
    }
    steps.push(json!({ "step": "tools", "answer": tools }));

    let calls = [
        ("A good call", "search_products", json!({ "query": "red kettle", "limit": 2 }), "ok"),
        ("A call that the schema refuses", "search_products", json!({ "query": "kettle", "limit": "many" }), "error"),
        ("A call that egress blocks", "read_metadata", json!({}), "error"),
        ("A call whose answer ends the turn", "start_return", json!({ "order": "A-17" }), "halted"),
    ];
    for (i, (title, tool, arguments, expected)) in calls.into_iter().enumerate() {
        say(&format!("\n{}. {title}.", i + 3));
        let body = json!({ "tool": tool, "arguments": arguments, "ctx": { "chat_id": "demo-chat" } });
        let outcome = api.send(Method::POST, "/v1/agents/demo/calls", Some(&body)).await?;
        let trace = api.send(Method::GET, &format!("/v1/traces/{}", cell(&outcome["trace_id"])), None).await?;
        say(&format!("   the model asked:    {tool} {arguments}"));
        say(&format!("   the upstream got:   {}", received(&trace)));
        say(&format!("   the model reads:    {}", outcome["result"]));
        if let Some(halt) = outcome.get("halt") {
            say(&format!("   the person reads:   {}", cell(&halt["say"])));
        }
        say(&format!("   the operator reads: {}", operator_reads(&outcome, &trace)));
        ensure!(outcome["status"] == expected, "{tool} ended as {}, not as {expected}", outcome["status"]);
        steps.push(json!({ "step": title, "outcome": outcome, "trace": trace }));
    }
    output.print(&json!({ "steps": steps }), |_| {});
    Ok(())
}

fn received(trace: &Value) -> String {
    let request = &trace["request"];
    if request.is_null() || trace.get("response").is_none() {
        return "nothing".to_owned();
    }
    let body = request["body"].as_str().map(|body| format!(" {body}")).unwrap_or_default();
    format!("{} {}{body}", cell(&request["method"]), cell(&request["url"]))
}

fn operator_reads(outcome: &Value, trace: &Value) -> String {
    let mut text = format!("status {}", cell(&outcome["status"]));
    if let Some(blocked) = trace.get("blocked") {
        text.push_str(&format!(", {} for {}", cell(&blocked["code"]), cell(&blocked["subject"])));
    } else if let Some(error) = trace.get("error") {
        text.push_str(&format!(", {}", cell(&error["code"])));
    }
    format!("{text}, {} ms, trace {}", outcome["duration_ms"], cell(&outcome["trace_id"]))
}

fn go_on(base: &str, token: &str) {
    println!("\nThe server stays up at {base} until Ctrl-C.\nIn a browser: {base}/studio. API docs: {base}/docs");
    println!("The token is {token}\n\nGo on with:\n");
    let auth = format!("-H 'Authorization: Bearer {token}'");
    println!("  curl -s {auth} '{base}/v1/agents/demo/tools?format=anthropic'");
    println!(
        "  curl -s {auth} -H 'Content-Type: application/json' {base}/v1/agents/demo/calls \\\n       \
         -d '{{\"tool\": \"search_products\", \"arguments\": {{\"query\": \"lamp\"}}}}'"
    );
    println!("  curl -s {auth} '{base}/v1/traces?session=demo-chat'");
}
