//! `toolcrib approvals …`

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::{segment, with_query};
use crate::connection::Connection;
use crate::files::read_arguments;
use crate::output::{Output, cell, table, time};

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List what waits for a person, newest first
    List {
        /// Those in this state: open, approved, denied, answered, expired, cancelled, or all
        #[arg(long, default_value = "open")]
        state: String,
        /// How many at the most
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show what would run, and why it asks
    Show {
        /// The approval
        id: String,
    },
    /// Let a call run, exactly as it is shown
    Approve {
        /// The approval
        id: String,
        /// Why; it is kept
        #[arg(long)]
        reason: Option<String>,
    },
    /// Refuse a call; the model reads the reason
    Deny {
        /// The approval
        id: String,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Make a link by which somebody without a token decides about one call
    Link {
        /// The approval
        id: String,
        /// Whom it is for; that is kept with the decision
        #[arg(long = "for", value_name = "NAME")]
        whom: Option<String>,
    },
    /// Answer a question; the answer is the result of its call
    Answer {
        /// The question
        id: String,
        /// The answer, as JSON or as text
        answer: String,
    },
}

fn path(id: &str) -> String {
    format!("/v1/approvals/{}", segment(id))
}

impl ApprovalsCommand {
    pub(crate) async fn run(self, api: &Connection, output: Output) -> anyhow::Result<()> {
        match self {
            ApprovalsCommand::List { state, limit } => {
                let state = (state != "all").then_some(state);
                let entries = [("state", state), ("limit", Some(limit.to_string()))];
                let answer = api.send(Method::GET, &with_query("/v1/approvals", &entries), None).await?;
                output.print(&answer, |answer| {
                    let approvals = answer["approvals"].as_array().cloned().unwrap_or_default();
                    let row = |approval: &Value| {
                        let mut row = vec![cell(&approval["id"]), time(&approval["created_at"])];
                        row.extend(["kind", "state", "agent", "tool", "why"].map(|key| cell(&approval[key])));
                        row
                    };
                    table(&["id", "asked", "kind", "state", "agent", "tool", "why"], approvals.iter().map(row));
                });
            }
            ApprovalsCommand::Show { id } => {
                let approval = api.send(Method::GET, &path(&id), None).await?;
                output.print(&approval, print_approval);
            }
            ApprovalsCommand::Approve { id, reason } => {
                decide(api, output, &id, "approve", json!({ "reason": reason })).await?
            }
            ApprovalsCommand::Deny { id, reason } => {
                decide(api, output, &id, "deny", json!({ "reason": reason })).await?
            }
            ApprovalsCommand::Link { id, whom } => {
                let link =
                    api.send(Method::POST, &format!("{}/link", path(&id)), Some(&json!({ "for": whom }))).await?;
                output.print(&link, |link| {
                    println!("{}", cell(&link["url"]));
                    eprintln!("good until {}", time(&link["expires_at"]));
                });
            }
            ApprovalsCommand::Answer { id, answer } => {
                // What is no JSON is a text.
                let answer = read_arguments(&answer).unwrap_or_else(|_| answer.into());
                decide(api, output, &id, "answer", json!({ "answer": answer })).await?;
            }
        }
        Ok(())
    }
}

async fn decide(api: &Connection, output: Output, id: &str, word: &str, body: Value) -> anyhow::Result<()> {
    let decided = api.send(Method::POST, &format!("{}/{word}", path(id)), Some(&body)).await?;
    output.print(&decided, |decided| {
        println!("{} {}", cell(&decided["state"]), cell(&decided["id"]));
        if decided["state"] == "approved" {
            let hint = if api.is_local() { "as soon as a server does" } else { "now" };
            println!("the call runs {hint}; `toolcrib calls show {}` says how it ends", cell(&decided["ledger_id"]));
        }
    });
    Ok(())
}

fn print_approval(approval: &Value) {
    let text = |key: &str| cell(&approval[key]);
    println!("{} by the agent {}: {} ({})", text("kind"), text("agent"), text("tool"), text("state"));
    println!("why: {}", text("why"));
    println!("asked {}, to be decided until {}", time(&approval["created_at"]), time(&approval["expires_at"]));
    if !approval["decided_at"].is_null() {
        let reason = if approval["reason"].is_null() { String::new() } else { format!(": {}", text("reason")) };
        println!("{} by {} {}{reason}", text("state"), text("decided_by"), time(&approval["decided_at"]));
    }
    println!("what would run:\n{:#}", approval["request"]);
    if approval["request"].get("code").is_none() {
        println!("from the arguments:\n{:#}", approval["arguments"]);
    }
    if approval["outcome"]["status"] != "waiting" {
        println!("what the caller reads:\n{:#}", approval["outcome"]["result"]);
    }
}
