//! Maintenance of the workspace.

mod bench;
mod docs;
mod egress_cases;
mod vectors;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use toolcrib_store::{Location, OsRandomness, Store, SystemClock};

/// The same as in the program, so that benches measure what runs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "xtask", about = "Maintenance of the workspace")]
enum Command {
    /// Runs every vector file of a folder through the public functions
    Vectors {
        /// The folder of .jsonl files
        folder: PathBuf,
    },
    /// Measures speed as ratios in one run; quote a release build only
    Bench {
        /// A short run that only shows that nothing is broken
        #[arg(long)]
        smoke: bool,
        /// Only this one: call, catalog or proxy
        #[arg(long)]
        only: Option<String>,
    },
    /// Writes docs/reference from the code
    Docs {
        /// Compare instead of writing, and fail when it is out of date
        #[arg(long)]
        check: bool,
    },
    /// Brings a database's schema up to date
    Migrate {
        /// The SQLite file
        database: PathBuf,
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
        Command::Bench { smoke, only } => {
            bench::run(if smoke { bench::Effort::SMOKE } else { bench::Effort::FULL }, only.as_deref())?;
            true
        }
        Command::Docs { check } => docs::run(check)?,
        Command::Migrate { database } => {
            migrate(database)?;
            true
        }
        Command::EgressCases { folder } => vectors::print(&egress_cases::run(&folder)?),
    };
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Opening a database migrates it.
fn migrate(database: PathBuf) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let location = Location::File(database.clone());
        Store::open(&location, Arc::new(SystemClock), Arc::new(OsRandomness)).await?.close().await;
        println!("{} is up to date", database.display());
        Ok(())
    })
}
