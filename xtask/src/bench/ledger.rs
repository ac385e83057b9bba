//! The same POST with and without the ledger, in turn, on the same cores; and parked approvals in bulk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::json;
use toolcrib_definition::{Definition, EffectMode};
use toolcrib_egress::{NoBarrier, Policy};
use toolcrib_executor::{BreakerReport, Dispatch, Dispatched, PreparedCall, ProtocolDispatch};
use toolcrib_store::{
    ApprovalFilter, ApprovalState, Ask, Decision, Expect, Location, NewCall, OsRandomness, Store, SystemClock,
};

use super::{Effort, load, ms, proxy, quantile};

const CONNECTIONS: usize = 32;

/// The databases there are: SQLite always, Postgres where the environment names one.
#[expect(clippy::disallowed_methods, reason = "the environment says where the bench's Postgres is")]
fn databases(folder: &std::path::Path) -> anyhow::Result<Vec<(&'static str, Location)>> {
    let mut all = vec![("sqlite", Location::File(folder.join("ledger.db")))];
    match std::env::var("TOOLCRIB_BENCH_POSTGRES") {
        Ok(url) => all.push(("postgres", url.parse().map_err(anyhow::Error::msg)?)),
        Err(_) => println!(
            "SKIPPED on Postgres: set TOOLCRIB_BENCH_POSTGRES to what `DURABLE=1 tests/postgres start FOLDER` prints"
        ),
    }
    Ok(all)
}

pub async fn run(effort: Effort) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    for (name, location) in databases(folder.path())? {
        calls(name, &location, effort).await?;
        parked(name, &location, effort.tools).await?;
    }
    Ok(())
}

/// Sends a call of "plain" just as one of "ledgered", on a connection of its own, and only without a barrier.
struct WithoutLedger {
    ledgered: Definition,
    others: ProtocolDispatch,
}

#[async_trait]
impl Dispatch for WithoutLedger {
    async fn dispatch(&self, call: PreparedCall<'_>) -> Dispatched {
        match call.definition.name.as_str() {
            "plain" => {
                self.others.dispatch(PreparedCall { definition: &self.ledgered, barrier: &NoBarrier, ..call }).await
            }
            _ => self.others.dispatch(call).await,
        }
    }

    fn policy(&self) -> &Policy {
        self.others.policy()
    }

    fn breakers(&self) -> Vec<BreakerReport> {
        self.others.breakers()
    }
}

/// Calls a second with the ledger against those without: on a connection of their own, and over the pool.
async fn calls(name: &str, location: &Location, effort: Effort) -> anyhow::Result<()> {
    let upstream = proxy::upstream().await?;
    let tool = |name: &str, side_effect: bool| {
        Definition::from_value(&json!({
            "name": name, "description": "Post one KiB", "side_effect": side_effect,
            "parameters": { "type": "object", "properties": { "query": { "type": "string" } }, "required": ["query"] },
            "request": { "method": "POST", "url": format!("http://{upstream}/x"), "body": { "q": "{{query}}" } },
        }))
    };
    let ledgered = tool("ledgered", true)?;
    let own = |others| Arc::new(WithoutLedger { ledgered: ledgered.clone(), others }) as Arc<dyn Dispatch>;
    let (toolcrib, token, executor) = proxy::start_with(location, upstream, own).await?;
    for tool in [tool("plain", false)?, tool("pooled", false)?, ledgered.clone()] {
        executor.registry().put_tool(&tool, Expect::Anything, "bench").await?;
    }
    // Each call asks for something else, as calls do: the ledger looks for those that ask for the same.
    let count = Arc::new(AtomicUsize::new(0));
    let request = |tool: &'static str| {
        let token = token.clone();
        let count = Arc::clone(&count);
        move || {
            let query = format!("red kettle {}", count.fetch_add(1, Ordering::Relaxed));
            let body = Bytes::from(json!({ "tool": tool, "arguments": { "query": query } }).to_string());
            let request = Request::post("/v1/agents/bench/calls")
                .header("host", "localhost")
                .header("authorization", format!("Bearer {token}"))
                .header("content-type", "application/json");
            Ok(request.body(Full::new(body))?)
        }
    };
    for tool in ["plain", "pooled", "ledgered"] {
        load::run(toolcrib, CONNECTIONS, effort.round / 4, request(tool)).await?;
    }
    let (mut to_own, mut to_pooled) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let plain = load::run(toolcrib, CONNECTIONS, effort.round, request("plain")).await?;
        let ledgered = load::run(toolcrib, CONNECTIONS, effort.round, request("ledgered")).await?;
        let pooled = load::run(toolcrib, CONNECTIONS, effort.round, request("pooled")).await?;
        println!(
            "{name}: without the ledger {:.0} calls a second and p99 {:.2} ms; with it {:.0} and {:.2} ms; over the pool, \
             without it, {:.0} and {:.2} ms",
            plain.rate,
            ms(plain.p99),
            ledgered.rate,
            ms(ledgered.p99),
            pooled.rate,
            ms(pooled.p99),
        );
        to_own.push(ledgered.rate / plain.rate);
        to_pooled.push(ledgered.rate / pooled.rate);
    }
    to_own.sort_by(f64::total_cmp);
    to_pooled.sort_by(f64::total_cmp);
    println!(
        "{name}: with the ledger at {CONNECTIONS} connections: median {:.2} of the same calls without it, {:.2} of calls over \
         pooled connections",
        to_own[to_own.len() / 2],
        to_pooled[to_pooled.len() / 2]
    );
    Ok(())
}

/// Listing, approving and expiring among many parked calls.
async fn parked(name: &str, location: &Location, count: usize) -> anyhow::Result<()> {
    let store = Store::open(location, Arc::new(SystemClock), Arc::new(OsRandomness)).await?;
    let before = super::catalog::resident_bytes();
    let run = toolcrib_store::Randomness::hex(&OsRandomness);
    let call = |n: usize, approval_ms: i64| NewCall {
        id: format!("{n:08}{run}"),
        session: format!("s{}", n % 1_000),
        call_id: format!("c{n}-{run}"),
        agent: format!("a{}", n % 50),
        tool: "pay".into(),
        effect: EffectMode::AtMostOnce,
        arguments: json!({ "n": n }).to_string(),
        arguments_hash: format!("{n:064}"),
        ctx: "{}".into(),
        request: json!({ "method": "POST", "url": "https://pay.example.com/", "body": n }).to_string(),
        request_hash: format!("{n:064}"),
        definition_hash: "d".repeat(64),
        resend_ms: None,
        ask: Ask::Always("its rule is always".into()),
        approval_id: format!("{n:08}{run}"),
        approval_ms,
        notices: Vec::new(),
        owner: "bench".into(),
        lease_ms: 15_000,
    };
    let started = Instant::now();
    for from in (0..count).step_by(64) {
        let proposals = (from..(from + 64).min(count)).map(|n| store.propose(call(n, 3_600_000)));
        for proposal in futures_util::future::join_all(proposals).await {
            proposal?;
        }
    }
    println!("{name}: {count} calls parked in {:.1} s", started.elapsed().as_secs_f64());
    let grown = super::catalog::resident_bytes().saturating_sub(before);
    let open = ApprovalFilter { state: Some(ApprovalState::Open), ..ApprovalFilter::default() };
    let of_one = ApprovalFilter { agents: Some(vec!["a7".into()]), ..open.clone() };
    let mut listing = Vec::new();
    let mut listing_of_one = Vec::new();
    let mut approving = Vec::new();
    let mut expiring = Vec::new();
    for n in 0..200 {
        let began = Instant::now();
        store.approvals(&open, None, 100).await?;
        listing.push(began.elapsed());
        let began = Instant::now();
        store.approvals(&of_one, None, 100).await?;
        listing_of_one.push(began.elapsed());
        let began = Instant::now();
        store.decide(&format!("{:08}{run}", n * (count / 400)), Decision::Approve, "bench", None).await?;
        approving.push(began.elapsed());
        store.propose(call(count + n, 0)).await?;
        let began = Instant::now();
        let overdue = store.move_overdue("bench").await?;
        expiring.push(began.elapsed());
        anyhow::ensure!(overdue.expired.len() == 1, "one approval was over: {overdue:?}");
    }
    for (what, mut times) in [
        ("listing", listing),
        ("listing one agent's", listing_of_one),
        ("approving", approving),
        ("expiring", expiring),
    ] {
        times.sort();
        let (p50, p99): (Duration, Duration) = (quantile(&times, 0.5), quantile(&times, 0.99));
        println!("{name}: {what} among {count} parked: p50 {:.2} ms, p99 {:.2} ms", ms(p50), ms(p99));
    }
    println!("{name}: memory grew by {} KiB while {count} calls were parked", grown / 1024);
    Ok(())
}
