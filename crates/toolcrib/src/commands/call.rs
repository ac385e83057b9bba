//! `toolcrib call AGENT TOOL ARGUMENTS`

use anyhow::bail;
use clap::Args;
use http::Method;
use serde_json::json;

use super::segment;
use crate::connection::Connection;
use crate::files::{read_arguments, read_ctx};
use crate::output::{Output, cell};

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The agent
    agent: String,
    /// The tool
    tool: String,
    /// The arguments as JSON, or @file
    #[arg(default_value = "{}")]
    arguments: String,
    /// A field of the turn context, key=value; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    ctx: Vec<String>,
    /// The stable key of the call
    #[arg(long)]
    call_id: Option<String>,
}

impl CallArgs {
    pub(crate) async fn run(self, api: &Connection, output: Output) -> anyhow::Result<()> {
        let mut body = json!({ "tool": self.tool, "call_id": self.call_id, "ctx": read_ctx(&self.ctx)? });
        // Put in as they are: the macro would read their numbers anew.
        body["arguments"] = read_arguments(&self.arguments)?;
        let path = format!("/v1/agents/{}/calls", segment(&self.agent));
        let outcome = api.send(Method::POST, &path, Some(&body)).await?;
        output.print(&outcome, |outcome| {
            eprintln!(
                "{} in {} ms, trace {}",
                cell(&outcome["status"]),
                outcome["duration_ms"],
                cell(&outcome["trace_id"])
            );
            println!("{:#}", outcome["result"]);
            if let Some(id) = outcome["approval"]["id"].as_str() {
                eprintln!(
                    "`toolcrib approvals show {id}` says what is asked, `toolcrib approvals approve {id}` lets it run"
                );
            }
            if outcome["status"] == "in_doubt" && outcome["code"] != "call.unknown" {
                let id = cell(&outcome["ledger_id"]);
                eprintln!("`toolcrib calls verdict {id} done|not-done|abandon` says what became of it");
            }
        });
        match outcome["status"].as_str() {
            Some("ok" | "halted" | "waiting") => Ok(()),
            _ => bail!("the call ended as {}", cell(&outcome["status"])),
        }
    }
}
