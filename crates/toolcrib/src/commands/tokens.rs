//! `toolcrib tokens …`

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::segment;
use crate::connection::Connection;
use crate::output::{Output, cell, table, time};

#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// List tokens
    List,
    /// Make a token and show it once
    Create {
        /// Who holds it
        name: String,
        /// admin, operator, caller or auditor
        #[arg(long, default_value = "caller")]
        role: String,
        /// An agent it is good for; repeatable, all when left out
        #[arg(long = "agent", value_name = "AGENT")]
        agents: Vec<String>,
        /// Days until it is no longer good
        #[arg(long, value_name = "DAYS")]
        expires_in_days: Option<u32>,
    },
    /// Revoke a token
    Revoke {
        /// The id, as in the list
        id: String,
    },
}

impl TokensCommand {
    pub(crate) async fn run(self, api: &Connection, output: Output) -> anyhow::Result<()> {
        match self {
            TokensCommand::List => {
                let answer = api.send(Method::GET, "/v1/tokens", None).await?;
                output.print(&answer, |answer| {
                    let tokens = answer["tokens"].as_array().cloned().unwrap_or_default();
                    let row = |token: &Value| {
                        let mut row = ["id", "name", "role", "agents"].map(|key| cell(&token[key])).to_vec();
                        row.extend([time(&token["created_at"]), time(&token["expires_at"])]);
                        row
                    };
                    table(&["id", "name", "role", "agents", "created", "expires"], tokens.iter().map(row));
                });
            }
            TokensCommand::Create { name, role, agents, expires_in_days } => {
                let agents = (!agents.is_empty()).then_some(agents);
                let body = json!({ "name": name, "role": role, "agents": agents, "expires_in_days": expires_in_days });
                let created = api.send(Method::POST, "/v1/tokens", Some(&body)).await?;
                output.print(&created, |created| {
                    println!("{}", cell(&created["token"]));
                    eprintln!("this is shown once; its id is {}", cell(&created["id"]));
                });
            }
            TokensCommand::Revoke { id } => {
                api.send(Method::DELETE, &format!("/v1/tokens/{}", segment(&id)), None).await?;
                output.print(&json!({ "revoked": id }), |_| println!("revoked {id}"));
            }
        }
        Ok(())
    }
}
