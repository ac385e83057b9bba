//! `toolcrib tools …`

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::{print_warnings, segment, with_query};
use crate::connection::Connection;
use crate::files::{read_arguments, read_ctx, read_json};
use crate::output::{Output, cell, rows, table, time};

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List tools by name
    List {
        /// Only tools of this group
        #[arg(long)]
        group: Option<String>,
        /// Only tools with this tag
        #[arg(long)]
        tag: Option<String>,
    },
    /// Show a tool's definition
    Show {
        /// The tool
        name: String,
    },
    /// Write a tool from a JSON file
    Put {
        /// The definition; - is standard input
        file: PathBuf,
    },
    /// Delete a tool; its versions stay
    Rm {
        /// The tool
        name: String,
    },
    /// Check a definition or a manifest without writing it
    Validate(ValidateArgs),
    /// Import a manifest
    Import {
        /// The manifest; - is standard input
        file: PathBuf,
    },
    /// List the kept versions of a tool
    Versions {
        /// The tool
        name: String,
    },
    /// Make a version the current one again
    Restore {
        /// The tool
        name: String,
        /// The version
        version: u64,
    },
    /// Search tools by words
    Search {
        /// The words
        words: Vec<String>,
    },
    /// Show the exact request of a call, secrets masked, and then make it
    Try(TryArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// The definition or manifest; - is standard input
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct TryArgs {
    /// The tool
    name: String,
    /// The arguments as JSON, or @file
    #[arg(default_value = "{}")]
    arguments: String,
    /// A field of the turn context, key=value; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    ctx: Vec<String>,
    /// Show the request and send nothing
    #[arg(long)]
    dry_run: bool,
}

/// Names that are listed one by one; more are counted.
const LISTED: usize = 50;

const COLUMNS: [&str; 6] = ["name", "origin", "method", "effect", "group", "description"];

impl ToolsCommand {
    pub(crate) async fn run(self, api: &Connection, output: Output) -> anyhow::Result<()> {
        match self {
            ToolsCommand::List { group, tag } => list(api, output, group, tag).await,
            ToolsCommand::Show { name } => {
                let tool = api.send(Method::GET, &format!("/v1/tools/{}", segment(&name)), None).await?;
                output.print(&tool, |tool| match &tool["definition"] {
                    Value::Null => println!("{name} is compiled into the program\n{:#}", tool["shown"]),
                    definition => println!("{definition:#}"),
                });
                Ok(())
            }
            ToolsCommand::Put { file } => {
                let definition = read_json(&file)?;
                let name = definition.get("name").and_then(Value::as_str);
                let name =
                    name.context("the definition has no name; a manifest goes in with `toolcrib tools import`")?;
                let path = format!("/v1/tools/{}", segment(name));
                let written = api.send(Method::PUT, &path, Some(&definition)).await?;
                print_warnings(&written);
                output.print(&written, |written| {
                    println!(
                        "{} {} at revision {}",
                        cell(&written["result"]),
                        cell(&written["name"]),
                        written["revision"]
                    );
                });
                Ok(())
            }
            ToolsCommand::Rm { name } => {
                api.send(Method::DELETE, &format!("/v1/tools/{}", segment(&name)), None).await?;
                output.print(&json!({ "deleted": name }), |_| {
                    println!("deleted {name}; `toolcrib tools versions {name}` still lists what it was");
                });
                Ok(())
            }
            ToolsCommand::Validate(args) => args.run(api, output).await,
            ToolsCommand::Import { file } => import(api, output, &read_json(&file)?).await,
            ToolsCommand::Versions { name } => {
                let path = format!("/v1/tools/{}/versions", segment(&name));
                let answer = api.send(Method::GET, &path, None).await?;
                output.print(&answer, |answer| {
                    let versions = answer["versions"].as_array().cloned().unwrap_or_default();
                    let row = |v: &Value| vec![cell(&v["version"]), time(&v["created_at"]), cell(&v["actor"])];
                    table(&["version", "written", "by"], versions.iter().map(row));
                });
                Ok(())
            }
            ToolsCommand::Restore { name, version } => {
                let path = format!("/v1/tools/{}/versions/{version}/restore", segment(&name));
                let answer = api.send(Method::POST, &path, None).await?;
                output.print(&answer, |answer| {
                    println!("{name} is as in version {version} again, at revision {}", answer["revision"]);
                });
                Ok(())
            }
            ToolsCommand::Search { words } => {
                let path = with_query("/v1/tools", &[("q", Some(words.join(" ")))]);
                let answer = api.send(Method::GET, &path, None).await?;
                output.print(&answer, |answer| table(&COLUMNS, rows(answer, "tools", &COLUMNS)));
                Ok(())
            }
            ToolsCommand::Try(args) => args.run(api, output).await,
        }
    }
}

async fn list(api: &Connection, output: Output, group: Option<String>, tag: Option<String>) -> anyhow::Result<()> {
    let mut all = Vec::new();
    let mut after = None;
    let total = loop {
        let entries = [("group", group.clone()), ("tag", tag.clone()), ("after", after), ("limit", Some("500".into()))];
        let page = api.send(Method::GET, &with_query("/v1/tools", &entries), None).await?;
        all.extend(page["tools"].as_array().cloned().unwrap_or_default());
        after = page["next"].as_str().map(str::to_owned);
        if after.is_none() {
            break page["total"].clone();
        }
    };
    let answer = json!({ "tools": all, "total": total });
    output.print(&answer, |answer| {
        table(&COLUMNS, rows(answer, "tools", &COLUMNS));
        if total == 0 {
            println!("no tools yet: write one with `toolcrib tools put FILE`, or see `toolcrib quickstart`");
        }
    });
    Ok(())
}

pub(crate) async fn import(api: &Connection, output: Output, manifest: &Value) -> anyhow::Result<()> {
    let answer = api.send(Method::POST, "/v1/tools/manifest", Some(manifest)).await?;
    output.print(&answer, |_| {});
    match report(&answer, output) {
        0 => Ok(()),
        left_out => bail!("{left_out} tool(s) were left out"),
    }
}

/// Says what became of a manifest, and how many of its tools were left out.
pub(crate) fn report(answer: &Value, output: Output) -> usize {
    print_warnings(answer);
    for key in ["created", "updated", "unchanged"].into_iter().filter(|_| !output.json) {
        match answer[key].as_array().map_or(0, Vec::len) {
            0 => {}
            1..=LISTED => println!("{key}: {}", cell(&answer[key])),
            many => println!("{key}: {many} tools"),
        }
    }
    let errors = answer["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    for error in errors {
        eprintln!("left out {}: {}", cell(&error["tool"]), cell(&error["message"]));
    }
    errors.len()
}

impl ValidateArgs {
    pub(crate) async fn run(self, api: &Connection, output: Output) -> anyhow::Result<()> {
        let answer = api.send(Method::POST, "/v1/tools/validate", Some(&read_json(&self.file)?)).await?;
        print_warnings(&answer);
        output.print(&answer, |answer| {
            for problem in answer["problems"].as_array().into_iter().flatten() {
                println!("{}: {} [{}]", cell(&problem["pointer"]), cell(&problem["message"]), cell(&problem["code"]));
            }
            for error in answer["errors"].as_array().into_iter().flatten() {
                println!("{}: {}", cell(&error["tool"]), cell(&error["message"]));
            }
        });
        if answer["valid"] == true {
            if !output.json {
                println!("valid");
            }
            return Ok(());
        }
        bail!("{} is not valid", self.file.display())
    }
}

impl TryArgs {
    async fn run(self, api: &Connection, output: Output) -> anyhow::Result<()> {
        let path = format!("/v1/tools/{}/try", segment(&self.name));
        let mut body = json!({ "ctx": read_ctx(&self.ctx)? });
        // Put in as they are: the macro would read their numbers anew.
        body["arguments"] = read_arguments(&self.arguments)?;
        let shown = api.send(Method::POST, &path, Some(&body)).await?;
        if !output.json {
            print_request(&shown["request"]);
        }
        if let Some(error) = shown["error"].as_str() {
            bail!("nothing would be sent; the model would read: {error}");
        }
        if self.dry_run {
            output.print(&shown, |_| println!("\nnothing was sent (--dry-run)"));
            return Ok(());
        }
        body["send"] = true.into();
        let sent = api.send(Method::POST, &path, Some(&body)).await?;
        output.print(&sent, |sent| {
            let outcome = &sent["outcome"];
            println!(
                "\n{} in {} ms, trace {}",
                cell(&outcome["status"]),
                outcome["duration_ms"],
                cell(&outcome["trace_id"])
            );
            println!("{:#}", outcome["result"]);
        });
        match sent["outcome"]["status"].as_str() {
            Some("ok" | "halted" | "waiting") => Ok(()),
            _ => bail!("the call ended as {}", cell(&sent["outcome"]["status"])),
        }
    }
}

fn print_request(request: &Value) {
    if request.is_null() {
        return;
    }
    println!("{} {}", cell(&request["method"]), cell(&request["url"]));
    for header in request["headers"].as_array().into_iter().flatten() {
        println!("{}: {}", cell(&header["name"]), cell(&header["value"]));
    }
    if let Some(body) = request["body"].as_str() {
        println!("\n{body}");
    }
    if let Some(blocked) = request["blocked"].as_str() {
        println!("\n{blocked}");
    }
}
