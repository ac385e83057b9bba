//! `toolcrib turns …`

use anyhow::bail;
use clap::Subcommand;
use http::Method;
use serde_json::Value;

use super::{segment, with_query};
use crate::connection::Connection;
use crate::output::{Output, cell, seen, table, time};

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
    /// Show a turn: what happened, with the trace of each call, and how it ended
    Show {
        /// The turn
        id: String,
    },
    /// Print what was said in a session of an agent
    Transcript {
        /// The agent
        agent: String,
        /// The session
        session: String,
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
                output.print(&answer, show);
            }
            TurnsCommand::Transcript { agent, session } => {
                let path = format!("/v1/agents/{}/sessions/{}", segment(&agent), segment(&session));
                let answer = api.send(Method::GET, &path, None).await?;
                output.print(&answer, transcript);
            }
            TurnsCommand::Cancel { id } => {
                let answer = api.send(Method::POST, &format!("/v1/turns/{}/cancel", segment(&id)), None).await?;
                let state = cell(&answer["state"]);
                output.print(&answer, |_| println!("{id} is {state}"));
                if matches!(state.as_str(), "completed" | "failed") {
                    bail!("the turn had ended before");
                }
            }
        }
        Ok(())
    }
}

/// A turn, line by line.
fn show(turn: &Value) {
    println!(
        "{} of {}, session {}: {}",
        cell(&turn["id"]),
        cell(&turn["agent"]),
        cell(&turn["session"]),
        cell(&turn["state"])
    );
    println!("{}  > {}", time(&turn["created_at"]), cell(&turn["message"]));
    for event in turn["events"].as_array().into_iter().flatten() {
        if let Some(line) = line_of(event) {
            println!("{}  {line}", time(&event["at"]));
        }
    }
    let outcome = &turn["outcome"];
    if outcome.is_object() {
        let code = outcome["code"].as_str().map(|code| format!(" [{code}]")).unwrap_or_default();
        println!("{}  {}{code}", time(&turn["updated_at"]), cell(&outcome["status"]));
        for key in ["error", "text"] {
            if let Some(text) = outcome[key].as_str() {
                println!("{}", seen(text));
            }
        }
    }
    for id in turn["approvals"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        println!("waits for a person: `toolcrib approvals show {id}`");
    }
}

/// What an event says to people; none for what the others say already.
fn line_of(event: &Value) -> Option<String> {
    let text = |key: &str| cell(&event[key]);
    Some(match event["type"].as_str()? {
        "started" if event["resumed"] == true => "taken up again".to_owned(),
        "skills_activated" => {
            let of = |skill: &Value| format!("{} ({})", cell(&skill["name"]), cell(&skill["reason"]));
            let skills: Vec<String> = event["skills"].as_array().into_iter().flatten().map(of).collect();
            format!("skills: {}", skills.join(", "))
        }
        "context_cut" => format!("left out of the prompt: {}", text("given_up")),
        "model_answered" => {
            let (prompt, usage) = (&event["prompt"], &event["usage"]);
            let parts = ["instructions", "skills", "lists", "history", "turn", "tools"];
            let estimated: u64 = parts.iter().filter_map(|part| prompt[part].as_u64()).sum();
            format!(
                "{} answered in {} ms; prompt about {estimated} of {} tokens, {} in and {} out as it counts",
                text("model"),
                text("duration_ms"),
                cell(&prompt["budget"]),
                cell(&usage["input_tokens"]),
                cell(&usage["output_tokens"]),
            )
        }
        "text_discarded" => format!("begun anew with {} ({})", text("model"), text("code")),
        "call_started" => format!("calls {} {}", text("tool"), seen(&event["arguments"].to_string())),
        "call_finished" => {
            let code = event["code"].as_str().map(|code| format!(" ({code})")).unwrap_or_default();
            let trace = event["trace_id"].as_str().map(|id| format!(", trace {id}")).unwrap_or_default();
            format!("{}: {}{code}, {} ms{trace}", text("tool"), text("status"), text("duration_ms"))
        }
        "tools_enabled" => format!("can call from here on: {}", text("tools")),
        "parked" => format!("waits for a person: {}", text("approvals")),
        _ => return None,
    })
}

/// A session, message by message.
fn transcript(session: &Value) {
    for turn in session["turns"].as_array().into_iter().flatten() {
        println!("-- {} ({})", cell(&turn["id"]), time(&turn["ended_at"]));
        for message in turn["messages"].as_array().into_iter().flatten() {
            match message["role"].as_str() {
                Some("user") => println!("> {}", cell(&message["text"])),
                Some("assistant") => {
                    if let Some(text) = message["text"].as_str().filter(|text| !text.is_empty()) {
                        println!("{}", seen(text));
                    }
                    for call in message["calls"].as_array().into_iter().flatten() {
                        println!("  calls {} {}", cell(&call["tool"]), seen(&call["arguments"].to_string()));
                    }
                }
                _ => {
                    for result in message["results"].as_array().into_iter().flatten() {
                        println!("  {}: {}", cell(&result["tool"]), cell(&result["text"]));
                    }
                }
            }
        }
    }
}
