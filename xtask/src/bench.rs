//! Speed as ratios in one run: these machines are shared, so a single figure says little.

mod call;
mod catalog;
mod ledger;
mod load;
mod mcp;
mod proxy;
mod studio;
mod turns;

use std::time::Duration;

/// How long the benches may take.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Seconds of each round of load.
    pub round: Duration,
    /// Rounds of each side, in turn.
    pub rounds: usize,
    /// Tools of the large catalog.
    pub tools: usize,
}

impl Effort {
    /// Enough to see that nothing is broken.
    pub const SMOKE: Effort = Effort { round: Duration::from_millis(700), rounds: 1, tools: 5_000 };
    /// Enough to quote.
    pub const FULL: Effort = Effort { round: Duration::from_secs(4), rounds: 5, tools: 100_000 };
}

/// Runs every bench, or the named one, and prints its figures.
pub fn run(effort: Effort, only: Option<&str>) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        println!("this is a debug build; quote figures of `cargo run --release -p xtask -- bench` only");
    }
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    anyhow::ensure!(
        ["call", "catalog", "proxy", "mcp", "ledger", "turns", "studio"].into_iter().any(wanted),
        "the benches are call, catalog, proxy, mcp, ledger, turns and studio"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if wanted("call") {
        call::run()?;
    }
    if wanted("catalog") {
        runtime.block_on(catalog::run(effort))?;
    }
    if wanted("proxy") {
        runtime.block_on(proxy::run(effort))?;
    }
    if wanted("mcp") {
        runtime.block_on(mcp::run(effort))?;
    }
    if wanted("ledger") {
        runtime.block_on(ledger::run(effort))?;
    }
    if wanted("turns") {
        runtime.block_on(turns::run(effort))?;
    }
    if wanted("studio") {
        runtime.block_on(studio::run(effort))?;
    }
    Ok(())
}

/// The value below which `share` of the sorted values lie.
fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
