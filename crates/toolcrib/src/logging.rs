//! The process-wide log.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::config::LogConfig;

/// Sends the log to standard error.
pub(crate) fn install(config: &LogConfig) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.filter).with_context(|| format!("log.filter {:?}", config.filter))?;
    let base = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call in one process (a test) keeps the first subscriber.
    let _ = match config.format.as_str() {
        "json" => base.json().try_init(),
        _ => base.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
    };
    Ok(())
}
