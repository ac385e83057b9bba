//! `toolcrib apply FOLDER`

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use http::Method;
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use super::{print_warnings, segment};
use crate::config::Config;
use crate::connection::Connection;
use crate::output::{Output, cell, seen};
use crate::pack_folder::{PackFolder, read_packs};
use crate::secrets::manifest_environment;

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// A folder with agent.toml (or .yaml, .json), tools/ and skills/; or one that holds such folders
    folder: PathBuf,
    /// Shows what would change and writes nothing
    #[arg(long)]
    dry_run: bool,
}

impl ApplyArgs {
    /// Whether anything is written.
    pub(crate) fn writes(&self) -> bool {
        !self.dry_run
    }

    pub(crate) async fn run(self, config: &Config, api: &Connection, output: Output) -> anyhow::Result<()> {
        let environment = manifest_environment(config.manifest.env.0.clone());
        let packs = read_packs(&self.folder, &environment)?;
        let mut answers = Vec::with_capacity(packs.len());
        let mut difference = String::new();
        // All are checked before the first is written.
        for pack in &packs {
            let answer = put(api, pack, true).await?;
            show(pack, &answer, &mut difference);
            answers.push(answer);
        }
        if !output.json {
            // What is asked for is done, also when nobody reads this.
            let _ = std::io::stdout().write_all(difference.as_bytes());
        }
        let changes = answers.iter().flat_map(|answer| answer["changes"].as_array().into_iter().flatten());
        let changed = changes.filter(|change| change["result"] != "unchanged").count();
        if self.dry_run {
            answers.iter().for_each(print_warnings);
        } else {
            answers.clear();
            for pack in &packs {
                let answer = put(api, pack, false).await?;
                print_warnings(&answer);
                answers.push(answer);
            }
        }
        output.print(&json!({ "agents": answers }), |_| match (self.dry_run, changed) {
            (_, 0) => println!("nothing to change"),
            (true, _) => println!("nothing was written (--dry-run)"),
            (false, _) => println!("written"),
        });
        Ok(())
    }
}

async fn put(api: &Connection, pack: &PackFolder, dry_run: bool) -> anyhow::Result<Value> {
    let query = if dry_run { "?dry_run=true" } else { "" };
    let path = format!("/v1/agents/{}{query}", segment(&pack.id));
    api.send(Method::PUT, &path, Some(&pack.document)).await
}

/// What changes, line by line.
fn show(pack: &PackFolder, answer: &Value, text: &mut String) {
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!("agent {}", pack.id));
    for change in answer["changes"].as_array().into_iter().flatten() {
        let result = cell(&change["result"]);
        line(format!("  {} {}: {result}", cell(&change["part"]), cell(&change["name"])));
        if result == "unchanged" {
            continue;
        }
        let (before, after) = (lines(&change["before"]), lines(&change["after"]));
        for change in TextDiff::from_lines(&before, &after).iter_all_changes() {
            let sign = match change.tag() {
                ChangeTag::Equal => continue,
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            line(format!("    {sign} {}", seen(change.value().trim_end())));
        }
    }
}

/// A stored text as lines: JSON one key a line, anything else as it is.
fn lines(text: &Value) -> String {
    let text = text.as_str().unwrap_or_default();
    match toolcrib_definition::json::parse(text.as_bytes()) {
        Ok(value) => format!("{:#}\n", without_defaults(value)),
        Err(_) => text.to_owned(),
    }
}

/// What says nothing is left out, so that what is new is seen.
fn without_defaults(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            map.into_iter().filter(|(_, value)| !value.is_null()).map(|(k, v)| (k, without_defaults(v))).collect()
        }
        other => other,
    }
}
