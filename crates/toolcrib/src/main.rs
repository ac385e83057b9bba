//! Toolcrib: tools for LLM agents, served from rows.

use std::process::ExitCode;

use clap::Parser;
use toolcrib::cli::Cli;

/// A call makes many short-lived pieces on one thread and frees them on another, which this allocator
/// does at a fraction of the cost of the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no runtime could be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = match runtime.block_on(cli.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    };
    // A blocking read of a terminal may still wait; the process does not.
    runtime.shutdown_background();
    code
}
