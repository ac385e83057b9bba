//! `toolcrib turns …`

use clap::Subcommand;
use http::Method;
use serde_json::Value;

use super::{segment, with_query};
use crate::connection::Connection;
use crate::output::{Output, cell, table, time};

#[derive(Debug, Subcommand)]
pub(crate) enum TurnsCommand {
    /// List turns, newest first
    List {
        /// Of this agent
        #[arg(long)]
        agent: Option<String>,
        /// Of this session
        #[arg(long)]
        session: Option<String>,
        /// queued, running, parked, completed, failed or cancelled
        #[arg(long)]
        state: Option<String>,
    },
    /// Show a turn: how it ended, what it cost, which skills it had and why
    Show {
        /// The turn
        id: String,
    },
    /// End a turn
    Cancel {
        /// The turn
        id: String,
    },
}

impl TurnsCommand {
    pub(crate) async fn run(self, api: &Connection, output: Output) -> anyhow::Result<()> {
        match self {
            TurnsCommand::List { agent, session, state } => {
                let path = with_query("/v1/turns", &[("agent", agent), ("session", session), ("state", state)]);
                let answer = api.send(Method::GET, &path, None).await?;
                output.print(&answer, |answer| {
                    let turns = answer["turns"].as_array().cloned().unwrap_or_default();
                    let row = |turn: &Value| {
                        vec![
                            cell(&turn["id"]),
                            cell(&turn["agent"]),
                            cell(&turn["session"]),
                            cell(&turn["state"]),
                            cell(&turn["outcome"]["code"]),
                            time(&turn["created_at"]),
                        ]
                    };
                    table(&["id", "agent", "session", "state", "code", "began"], turns.iter().map(row));
                });
            }
            TurnsCommand::Show { id } => {
                let answer = api.send(Method::GET, &format!("/v1/turns/{}", segment(&id)), None).await?;
                output.print(&answer, |answer| println!("{answer:#}"));
            }
            TurnsCommand::Cancel { id } => {
                let answer = api.send(Method::POST, &format!("/v1/turns/{}/cancel", segment(&id)), None).await?;
                output.print(&answer, |answer| println!("{id} is {}", cell(&answer["state"])));
            }
        }
        Ok(())
    }
}
