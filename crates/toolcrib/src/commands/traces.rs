//! `toolcrib traces …`

use clap::Subcommand;
use http::Method;
use serde_json::Value;

use super::{segment, with_query};
use crate::connection::Connection;
use crate::output::{Output, cell, table, time};

#[derive(Debug, Subcommand)]
pub(crate) enum TracesCommand {
    /// List traces, newest first
    List {
        /// Of this session (the chat_id)
        #[arg(long)]
        session: Option<String>,
        /// Of this agent
        #[arg(long)]
        agent: Option<String>,
        /// Of this tool
        #[arg(long)]
        tool: Option<String>,
        /// With this status
        #[arg(long)]
        status: Option<String>,
        /// How many at the most
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show a trace
    Show {
        /// The trace
        id: String,
    },
}

impl TracesCommand {
    pub(crate) async fn run(self, api: &Connection, output: Output) -> anyhow::Result<()> {
        match self {
            TracesCommand::List { session, agent, tool, status, limit } => {
                let entries = [
                    ("session", session),
                    ("agent", agent),
                    ("tool", tool),
                    ("status", status),
                    ("limit", Some(limit.to_string())),
                ];
                let answer = api.send(Method::GET, &with_query("/v1/traces", &entries), None).await?;
                output.print(&answer, |answer| {
                    let traces = answer["traces"].as_array().cloned().unwrap_or_default();
                    let row = |trace: &Value| {
                        let mut row = vec![cell(&trace["id"]), time(&trace["started_at"])];
                        row.extend(["agent", "tool", "status", "blocked", "duration_ms"].map(|key| cell(&trace[key])));
                        row
                    };
                    let headers = ["id", "started", "agent", "tool", "status", "blocked", "ms"];
                    table(&headers, traces.iter().map(row));
                });
            }
            TracesCommand::Show { id } => {
                let trace = api.send(Method::GET, &format!("/v1/traces/{}", segment(&id)), None).await?;
                println!("{trace:#}");
            }
        }
        Ok(())
    }
}
