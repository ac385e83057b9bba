//! `toolcrib agents …`

use std::path::PathBuf;

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::{print_warnings, segment, with_query};
use crate::connection::Connection;
use crate::files::read_json;
use crate::output::{Output, cell, table};

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// List agents
    List,
    /// Show an agent's profile
    Show {
        /// The agent
        id: String,
    },
    /// Write an agent's profile from a JSON file
    Put {
        /// The agent
        id: String,
        /// The profile; - is standard input
        file: PathBuf,
    },
    /// Delete an agent
    Rm {
        /// The agent
        id: String,
    },
    /// List an agent's tools as its provider takes them
    Tools {
        /// The agent
        id: String,
        /// openai, openai-strict, openai-responses, openai-responses-strict, anthropic, gemini, gemini-parameters,
        /// bedrock or mcp
        #[arg(long, default_value = "openai")]
        format: String,
    },
}

impl AgentsCommand {
    pub(crate) async fn run(self, api: &Connection, output: Output) -> anyhow::Result<()> {
        match self {
            AgentsCommand::List => {
                let answer = api.send(Method::GET, "/v1/agents", None).await?;
                output.print(&answer, |answer| {
                    let agents = answer["agents"].as_array().cloned().unwrap_or_default();
                    let row = |agent: &Value| {
                        vec![cell(&agent["id"]), cell(&agent["tools"]), cell(&agent["profile"]["description"])]
                    };
                    table(&["id", "tools", "description"], agents.iter().map(row));
                });
            }
            AgentsCommand::Show { id } => {
                let answer = api.send(Method::GET, &format!("/v1/agents/{}", segment(&id)), None).await?;
                output.print(&answer, |answer| println!("{:#}", answer["profile"]));
            }
            AgentsCommand::Put { id, file } => {
                let path = format!("/v1/agents/{}", segment(&id));
                let written = api.send(Method::PUT, &path, Some(&read_json(&file)?)).await?;
                print_warnings(&written);
                output.print(&written, |written| {
                    println!("{} {id} at revision {}", cell(&written["result"]), written["revision"]);
                });
            }
            AgentsCommand::Rm { id } => {
                api.send(Method::DELETE, &format!("/v1/agents/{}", segment(&id)), None).await?;
                output.print(&json!({ "deleted": id }), |_| println!("deleted {id}"));
            }
            AgentsCommand::Tools { id, format } => {
                let path = with_query(&format!("/v1/agents/{}/tools", segment(&id)), &[("format", Some(format))]);
                let answer = api.send(Method::GET, &path, None).await?;
                output.print(&answer, |answer| println!("{:#}", answer["tools"]));
            }
        }
        Ok(())
    }
}
