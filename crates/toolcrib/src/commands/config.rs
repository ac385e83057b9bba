//! `toolcrib config show`

use clap::Subcommand;
use serde_json::{Value, json};

use crate::config::Loaded;
use crate::config_reference::flatten;
use crate::output::{Output, cell, table};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show each value and where it came from
    Show,
}

impl ConfigCommand {
    pub(crate) fn run(self, loaded: &Loaded, output: Output) -> anyhow::Result<()> {
        let ConfigCommand::Show = self;
        let values: Vec<Value> = flatten(&loaded.config)
            .into_iter()
            .map(|(key, value)| json!({ "key": key, "value": value, "origin": loaded.origin(&key) }))
            .collect();
        output.print(&json!({ "config": values }), |_| {
            let row = |entry: &Value| vec![cell(&entry["key"]), cell(&entry["value"]), cell(&entry["origin"])];
            table(&["key", "value", "from"], values.iter().map(row));
        });
        Ok(())
    }
}
