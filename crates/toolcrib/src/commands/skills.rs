//! `toolcrib skills …`

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use http::Method;
use serde_json::json;

use super::{segment, with_query};
use crate::connection::Connection;
use crate::output::{Output, cell, rows, table, time};

#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the shared skills, or an agent's own
    List {
        /// The agent whose own skills are meant
        #[arg(long)]
        agent: Option<String>,
    },
    /// Show a skill's SKILL.md
    Show {
        /// The skill
        name: String,
        /// The agent whose own it is
        #[arg(long)]
        agent: Option<String>,
    },
    /// Write a skill from a SKILL.md
    Put {
        /// The skill
        name: String,
        /// The file
        file: PathBuf,
        /// The agent whose own it is to be
        #[arg(long)]
        agent: Option<String>,
    },
    /// Delete a skill
    Rm {
        /// The skill
        name: String,
        /// The agent whose own it is
        #[arg(long)]
        agent: Option<String>,
    },
    /// List the kept versions of a skill
    Versions {
        /// The skill
        name: String,
        /// The agent whose own it is
        #[arg(long)]
        agent: Option<String>,
    },
}

fn path(name: &str, more: &str, agent: Option<String>) -> String {
    with_query(&format!("/v1/skills/{}{more}", segment(name)), &[("agent", agent)])
}

impl SkillsCommand {
    pub(crate) async fn run(self, api: &Connection, output: Output) -> anyhow::Result<()> {
        match self {
            SkillsCommand::List { agent } => {
                let answer = api.send(Method::GET, &with_query("/v1/skills", &[("agent", agent)]), None).await?;
                output.print(&answer, |answer| {
                    let keys = ["name", "description", "triggers", "companions"];
                    table(&keys, rows(answer, "skills", &keys));
                });
            }
            SkillsCommand::Show { name, agent } => {
                let answer = api.send(Method::GET, &path(&name, "", agent), None).await?;
                output.print(&answer, |answer| print!("{}", cell(&answer["document"])));
            }
            SkillsCommand::Put { name, file, agent } => {
                let document =
                    std::fs::read_to_string(&file).with_context(|| format!("{} can't be read", file.display()))?;
                let answer =
                    api.send(Method::PUT, &path(&name, "", agent), Some(&json!({ "document": document }))).await?;
                for note in answer["notes"].as_array().into_iter().flatten() {
                    eprintln!("note: {}", cell(note));
                }
                output.print(&answer, |answer| {
                    println!("{name} {} at revision {}", cell(&answer["result"]), answer["revision"])
                });
            }
            SkillsCommand::Rm { name, agent } => {
                api.send(Method::DELETE, &path(&name, "", agent), None).await?;
                output.print(&json!({ "deleted": name }), |_| println!("deleted {name}"));
            }
            SkillsCommand::Versions { name, agent } => {
                let answer = api.send(Method::GET, &path(&name, "/versions", agent), None).await?;
                output.print(&answer, |answer| {
                    let versions = answer["versions"].as_array().cloned().unwrap_or_default();
                    let row = |version: &serde_json::Value| {
                        vec![cell(&version["version"]), cell(&version["actor"]), time(&version["created_at"])]
                    };
                    table(&["version", "actor", "written"], versions.iter().map(row));
                });
            }
        }
        Ok(())
    }
}
