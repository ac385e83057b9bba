//! `toolcrib mcp …`

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::{print_warnings, segment};
use crate::commands::mcp_login::LoginArgs;
use crate::commands::mcp_stdio as stdio;
use crate::config::Config;
use crate::connection::Connection;
use crate::files::read_json;
use crate::output::{Output, cell, table, time};

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add an MCP server, and take over its tools
    Add(AddArgs),
    /// List MCP servers
    List,
    /// Show an MCP server and what the last look at it found
    Show {
        /// The server
        name: String,
    },
    /// Take over what a server lists; all enabled servers when none is named
    Ingest {
        /// The server
        name: Option<String>,
        /// Write the whole report to this file
        #[arg(long)]
        report: Option<PathBuf>,
    },
    /// Show what an ingestion would change, and what waits to be accepted
    Diff {
        /// The server
        name: String,
    },
    /// Accept changes that wait, and clear what was flagged for review
    Accept {
        /// The server
        name: String,
        /// Only these tools
        tools: Vec<String>,
        /// The mark of the changes that were looked at, as ingest, diff and show print it
        #[arg(long)]
        mark: Option<String>,
    },
    /// Print the servers as the mcpServers document of desktop clients
    Export,
    /// Take servers from an mcpServers document; secrets become references
    Import {
        /// The document; - is standard input
        file: PathBuf,
    },
    /// Delete a server and its tools
    Rm {
        /// The server
        name: String,
    },
    /// Obtain a token for a server in the browser (OAuth), and print it or write it to a folder of secrets
    Login(LoginArgs),
    /// Bridge a client that speaks stdio only to the MCP endpoint of an agent
    Stdio {
        /// The agent
        #[arg(long)]
        agent: String,
    },
    /// Ask whether a server is there, and which version it speaks
    Ping {
        /// The server
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The name, which begins the names of its tools
    name: String,
    /// Where it is
    url: String,
    /// http or sse; a server over stdio runs behind a bridge
    #[arg(long, default_value = "http", value_parser = ["http", "sse"])]
    transport: String,
    /// A header of every request, such as "Authorization: Bearer {{secret.github}}"
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// What begins the names of its tools instead of NAME__; an empty text takes their own names
    #[arg(long)]
    prefix: Option<String>,
    /// Let changes wait until somebody accepts them
    #[arg(long)]
    hold: bool,
    /// Believe tools that call themselves read-only
    #[arg(long)]
    trust_annotations: bool,
    /// The whole time of one call, in seconds
    #[arg(long)]
    timeout: Option<u16>,
    /// Write the row only, and look at the server later
    #[arg(long)]
    no_ingest: bool,
    /// Write a server that is there already anew, with these settings and no others
    #[arg(long)]
    replace: bool,
}

fn path(name: &str) -> String {
    format!("/v1/mcp/servers/{}", segment(name))
}

impl McpCommand {
    pub(crate) async fn run(self, config: &Config, api: &Connection, output: Output) -> anyhow::Result<()> {
        match self {
            McpCommand::Login(args) => return args.run(config, api).await,
            McpCommand::Add(args) => return add(args, api, output).await,
            McpCommand::List => {
                let answer = api.send(Method::GET, "/v1/mcp/servers", None).await?;
                output.print(&answer, |answer| {
                    let servers = answer["servers"].as_array().cloned().unwrap_or_default();
                    let row = |entry: &Value| {
                        let (server, state) = (&entry["server"], &entry["state"]);
                        let enabled = server["enabled"].as_bool().unwrap_or(true);
                        let word = match (&state["error"], enabled) {
                            (_, false) => "disabled".to_owned(),
                            (Value::String(error), _) => error.clone(),
                            _ => cell(&state["version"]),
                        };
                        let waiting = state["pending"].as_array().map_or(0, Vec::len);
                        let review = state["review"].as_object().map_or(0, Map::len);
                        vec![
                            cell(&entry["name"]),
                            cell(&server["url"]),
                            cell(&state["tools"]),
                            word,
                            time(&state["looked_at"]),
                            format!("{}", waiting + review),
                        ]
                    };
                    table(
                        &["name", "url", "tools", "version or error", "looked at", "to see"],
                        servers.iter().map(row),
                    );
                });
            }
            McpCommand::Show { name } => {
                let answer = api.send(Method::GET, &path(&name), None).await?;
                output.print(&answer, |answer| println!("{answer:#}"));
            }
            McpCommand::Ingest { name: Some(name), report } => {
                let done = api.send(Method::POST, &format!("{}/ingest", path(&name)), None).await?;
                write_report(report.as_deref(), &done)?;
                output.print(&done, print_ingestion);
            }
            McpCommand::Ingest { name: None, report } => return ingest_all(report, api, output).await,
            McpCommand::Diff { name } => {
                let plan = api.send(Method::POST, &format!("{}/ingest?dry_run=true", path(&name)), None).await?;
                output.print(&plan, print_ingestion);
            }
            McpCommand::Accept { name, tools, mark } => {
                let tools = (!tools.is_empty()).then_some(tools);
                let body = json!({ "tools": tools, "mark": mark });
                let done = api.send(Method::POST, &format!("{}/accept", path(&name)), Some(&body)).await?;
                output.print(&done, |done| match cell(&done["accepted"]).as_str() {
                    "" => println!("nothing waits, and nothing is flagged"),
                    accepted => println!("accepted: {accepted}"),
                });
            }
            McpCommand::Export => {
                let document = api.send(Method::GET, "/v1/mcp/export", None).await?;
                println!("{document:#}");
            }
            McpCommand::Import { file } => {
                let done = api.send(Method::POST, "/v1/mcp/import", Some(&read_json(&file)?)).await?;
                output.print(&done, |done| {
                    for written in done["written"].as_array().into_iter().flatten() {
                        println!("{} {}", cell(&written["result"]), cell(&written["name"]));
                    }
                    for refused in done["refused"].as_array().into_iter().flatten() {
                        println!("refused {}: {}", cell(&refused["name"]), cell(&refused["reason"]));
                    }
                    for secret in done["secrets"].as_array().into_iter().flatten() {
                        println!("set {} where `toolcrib serve` runs", cell(secret));
                    }
                    println!("then `toolcrib mcp ingest` takes their tools over");
                });
            }
            McpCommand::Rm { name } => {
                api.send(Method::DELETE, &path(&name), None).await?;
                output.print(&json!({ "deleted": name }), |_| println!("deleted {name} and its tools"));
            }
            McpCommand::Stdio { agent } => return stdio::run(api, &agent).await,
            McpCommand::Ping { name } => {
                let done = api.send(Method::POST, &format!("{}/ping", path(&name)), None).await?;
                output.print(&done, |done| {
                    println!("{name} speaks {} and answered in {} ms", cell(&done["version"]), done["duration_ms"]);
                });
            }
        }
        Ok(())
    }
}

async fn add(args: AddArgs, api: &Connection, output: Output) -> anyhow::Result<()> {
    let mut headers = Map::new();
    for header in &args.headers {
        let Some((name, value)) = header.split_once(':') else { bail!("--header {header:?} is no \"NAME: VALUE\"") };
        headers.insert(name.trim().to_owned(), value.trim().into());
    }
    let mut server = json!({
        "name": args.name, "url": args.url, "transport": args.transport, "headers": headers, "hold": args.hold,
        "trust_annotations": args.trust_annotations, "timeout": args.timeout,
    });
    if let Some(prefix) = &args.prefix {
        server["prefix"] = prefix.as_str().into();
    }
    if !args.replace && api.ask(Method::GET, &path(&args.name), None).await?.status.is_success() {
        bail!("there is a server {} already; --replace writes it anew, with these settings and no others", args.name);
    }
    let written = api.send(Method::PUT, &path(&args.name), Some(&server)).await?;
    print_warnings(&written);
    if args.no_ingest {
        output.print(&written, |written| println!("{} {}", cell(&written["result"]), args.name));
        return Ok(());
    }
    let done = api.send(Method::POST, &format!("{}/ingest", path(&args.name)), None).await.with_context(|| {
        format!(
            "the server {0} was written, and its tools were not taken over; `toolcrib mcp ingest {0}` tries again, \
             `toolcrib mcp rm {0}` deletes it",
            args.name
        )
    })?;
    output.print(&done, print_ingestion);
    Ok(())
}

/// One server that fails hides no other; the command fails at the end.
async fn ingest_all(report: Option<PathBuf>, api: &Connection, output: Output) -> anyhow::Result<()> {
    let answer = api.send(Method::GET, "/v1/mcp/servers", None).await?;
    let mut all = Vec::new();
    let mut failed = 0;
    for entry in answer["servers"].as_array().into_iter().flatten() {
        let name = cell(&entry["name"]);
        if entry["server"]["enabled"] == json!(false) {
            continue;
        }
        match api.send(Method::POST, &format!("{}/ingest", path(&name)), None).await {
            Ok(done) => {
                output.print(&done, print_ingestion);
                all.push(done);
            }
            Err(error) => {
                failed += 1;
                eprintln!("{name}: {error:#}");
            }
        }
    }
    write_report(report.as_deref(), &Value::Array(all))?;
    if failed > 0 {
        bail!("{failed} server(s) could not be looked at");
    }
    Ok(())
}

fn write_report(file: Option<&std::path::Path>, report: &Value) -> anyhow::Result<()> {
    match file {
        Some(file) => Ok(std::fs::write(file, format!("{report:#}\n"))?),
        None => Ok(()),
    }
}

fn print_ingestion(done: &Value) {
    print_warnings(done);
    let verb = match (done["dry_run"].as_bool(), done["held"].as_bool()) {
        (Some(true), _) => " (nothing was written)",
        (_, Some(true)) => " (the changes wait)",
        _ => "",
    };
    println!(
        "{} ({}): {} added, {} changed, {} gone, {} unchanged, {} failed{verb}",
        cell(&done["server"]),
        cell(&done["version"]),
        done["added"],
        done["changed"],
        done["gone"],
        done["unchanged"],
        done["failed"]
    );
    for tool in done["tools"].as_array().into_iter().flatten() {
        let change = cell(&tool["change"]);
        if change == "unchanged" {
            continue;
        }
        let name = tool["name"].as_str().map_or_else(|| cell(&tool["tool"]), str::to_owned);
        let parts = cell(&tool["parts"]);
        let parts = if parts.is_empty() { parts } else { format!(" ({parts})") };
        println!("  {change} {name}{parts}");
        for note in tool["notes"].as_array().into_iter().flatten() {
            println!("      {}", cell(note));
        }
        for step in tool["lowering"].as_array().into_iter().flatten() {
            println!("      {}: {}", cell(&step["pointer"]), cell(&step["message"]));
        }
    }
    if let Some(mark) = done["mark"].as_str() {
        let server = cell(&done["server"]);
        if done["dry_run"] == json!(true) {
            println!("  `toolcrib mcp ingest {server}` lets these wait, under the mark {mark}");
        } else {
            println!("  mark {mark}: `toolcrib mcp accept {server} --mark {mark}` takes exactly these");
        }
    }
    for tool in done["review"].as_array().into_iter().flatten() {
        println!("  review {}: it changed while an agent may use it", cell(tool));
    }
}
