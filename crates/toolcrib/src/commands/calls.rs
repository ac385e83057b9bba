//! `toolcrib calls …`

use clap::{Subcommand, ValueEnum};
use http::Method;
use serde_json::{Value, json};

use super::{segment, with_query};
use crate::connection::Connection;
use crate::files::read_arguments;
use crate::output::{Output, cell, table, time};

#[derive(Debug, Subcommand)]
pub(crate) enum CallsCommand {
    /// List calls of the ledger, newest first
    List {
        /// Those in this state, such as `in_doubt`
        #[arg(long)]
        state: Option<String>,
        /// Of this session
        #[arg(long)]
        session: Option<String>,
        /// Of this agent
        #[arg(long)]
        agent: Option<String>,
        /// Of this tool
        #[arg(long)]
        tool: Option<String>,
        /// How many at the most
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show a call: what was sent, each of its moves, how it ended
    Show {
        /// The call
        id: String,
        /// Wait for its end, such as 30s
        #[arg(long)]
        wait: Option<String>,
    },
    /// Say what became of a call in doubt
    Verdict {
        /// The call
        id: String,
        /// done: it was performed; not-done: it was not, and runs again; abandon: nobody will find out
        verdict: Verdict,
        /// Its result as JSON, when it was performed and that is known
        #[arg(long)]
        result: Option<String>,
        /// Why; it is kept
        #[arg(long)]
        reason: Option<String>,
    },
    /// Take back a call that waits for a person
    Cancel {
        /// The call
        id: String,
        /// Why; it is kept
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Verdict {
    Done,
    #[value(alias = "not_done")]
    NotDone,
    Abandon,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Verdict::Done => "done",
            Verdict::NotDone => "not_done",
            Verdict::Abandon => "abandon",
        }
    }
}

fn path(id: &str) -> String {
    format!("/v1/calls/{}", segment(id))
}

impl CallsCommand {
    pub(crate) async fn run(self, api: &Connection, output: Output) -> anyhow::Result<()> {
        match self {
            CallsCommand::List { state, session, agent, tool, limit } => {
                let limit = Some(limit.to_string());
                let entries =
                    [("state", state), ("session", session), ("agent", agent), ("tool", tool), ("limit", limit)];
                let answer = api.send(Method::GET, &with_query("/v1/calls", &entries), None).await?;
                output.print(&answer, |answer| {
                    let calls = answer["calls"].as_array().cloned().unwrap_or_default();
                    let row = |call: &Value| {
                        let mut row = vec![cell(&call["id"]), time(&call["updated_at"])];
                        row.extend(["agent", "tool", "effect", "state", "reason"].map(|key| cell(&call[key])));
                        row
                    };
                    table(&["id", "moved", "agent", "tool", "effect", "state", "why"], calls.iter().map(row));
                });
            }
            CallsCommand::Show { id, wait } => {
                let call = api.send(Method::GET, &with_query(&path(&id), &[("wait", wait)]), None).await?;
                println!("{call:#}");
            }
            CallsCommand::Verdict { id, verdict, result, reason } => {
                let mut body = json!({ "verdict": verdict.as_str(), "reason": reason });
                if let Some(result) = result {
                    body["result"] = read_arguments(&result)?;
                }
                moved(api, output, &format!("{}/verdict", path(&id)), &body).await?;
            }
            CallsCommand::Cancel { id, reason } => {
                moved(api, output, &format!("{}/cancel", path(&id)), &json!({ "reason": reason })).await?;
            }
        }
        Ok(())
    }
}

async fn moved(api: &Connection, output: Output, path: &str, body: &Value) -> anyhow::Result<()> {
    let call = api.send(Method::POST, path, Some(body)).await?;
    output.print(&call, |call| println!("{} is {}", cell(&call["id"]), cell(&call["state"])));
    Ok(())
}
