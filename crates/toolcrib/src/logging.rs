//! The process-wide log.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::config::LogConfig;

/// Sends the log to standard error.
pub(crate) fn install(config: &LogConfig) -> anyhow::Result<()> {
    // The genai crate logs whole answers of providers, which may repeat a key. What they say is logged by us, masked.
    let quiet = if config.filter.contains("genai") { String::new() } else { ",genai=off".to_owned() };
    let filter = EnvFilter::try_new(format!("{}{quiet}", config.filter))
        .with_context(|| format!("log.filter {:?}", config.filter))?;
    let base = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call in one process (a test) keeps the first subscriber.
    let _ = match config.format.as_str() {
        "json" => base.json().try_init(),
        _ => base.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
    };
    Ok(())
}
