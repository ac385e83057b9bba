//! Maintenance of the workspace.

mod egress_cases;
mod vectors;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(name = "xtask", about = "Maintenance of the workspace")]
enum Command {
    /// Runs every vector file of a folder through the public functions
    Vectors {
        /// The folder of .jsonl files
        folder: PathBuf,
    },
    /// Runs every egress case of a folder through the real policy and connector
    EgressCases {
        /// The folder of .jsonl files
        folder: PathBuf,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    let held = match Command::parse() {
        Command::Vectors { folder } => vectors::print(&vectors::run(&folder)?),
        Command::EgressCases { folder } => vectors::print(&egress_cases::run(&folder)?),
    };
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
