//! Toolcrib: tools for LLM agents, served from rows.

use std::process::ExitCode;

use clap::Parser;
use toolcrib::cli::Cli;

/// A call makes many short-lived pieces on one thread and frees them on another, which this allocator
/// does at a fraction of the cost of the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `toolcrib … | head` closes the pipe early. The print macros panic then, and a reader who has seen
/// enough is no fault to report. Any other output that can't be written is one.
fn end_in_order_without_output() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let words = panic.payload().downcast_ref::<String>();
        if let Some(words) = words.filter(|words| words.starts_with("failed printing to stdout")) {
            if words.contains("Broken pipe") {
                std::process::exit(0);
            }
            eprintln!("error: {words}");
            std::process::exit(1);
        }
        report(panic);
    }));
}

fn main() -> ExitCode {
    end_in_order_without_output();
    #[cfg(feature = "failpoints")]
    let _scenario = fail::FailScenario::setup();
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
