//! A small and a large catalog: start, one write, search, memory.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use toolcrib_definition::Definition;
use toolcrib_registry::Registry;
use toolcrib_store::{Expect, Location, OsRandomness, Store, SystemClock};

use super::{Effort, ms, quantile};

const SMALL: usize = 1_000;
const WRITES: usize = 60;

pub async fn run(effort: Effort) -> anyhow::Result<()> {
    let small = measure(SMALL.min(effort.tools)).await?;
    let large = measure(effort.tools).await?;
    for figures in [&small, &large] {
        println!(
            "catalog of {}: start {:.0} ms, write visible p50 {:.2} ms p99 {:.2} ms, search p50 {:.2} ms p99 {:.2} ms, \
             memory over the JSON {:.0} bytes a tool",
            figures.tools,
            ms(figures.start),
            ms(figures.write.0),
            ms(figures.write.1),
            ms(figures.search.0),
            ms(figures.search.1),
            figures.memory,
        );
    }
    println!(
        "catalog: a write among {} costs {:.2} of one among {}",
        large.tools,
        large.write.0.as_secs_f64() / small.write.0.as_secs_f64(),
        small.tools
    );
    Ok(())
}

struct Figures {
    tools: usize,
    start: Duration,
    write: (Duration, Duration),
    search: (Duration, Duration),
    memory: f64,
}

async fn open(path: &Path) -> anyhow::Result<Store> {
    let location = Location::File(path.to_owned());
    Ok(Store::open(&location, Arc::new(SystemClock), Arc::new(OsRandomness)).await?)
}

async fn measure(tools: usize) -> anyhow::Result<Figures> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bench.db");
    let store = open(&path).await?;
    let mut json_bytes = 0;
    for from in (0..tools).step_by(5_000) {
        let part = (from..tools.min(from + 5_000)).map(tool).collect::<anyhow::Result<Vec<_>>>()?;
        json_bytes += part.iter().map(|tool| tool.to_json().to_string().len()).sum::<usize>();
        store.put_tools(&part, "bench").await?;
    }
    store.close().await;

    let before = resident_bytes();
    let store = open(&path).await?;
    let started = Instant::now();
    let registry = Registry::builder(store).open().await?;
    let start = started.elapsed();
    let grown = resident_bytes().saturating_sub(before);
    anyhow::ensure!(registry.snapshot().tool_count() == tools, "all tools are in the catalog");

    let mut writes = Vec::with_capacity(WRITES);
    for i in 0..WRITES {
        let mut value = tool(i * 7 % tools)?.to_json();
        value["description"] = format!("Rewritten {i}").into();
        let definition = Definition::from_value(&value)?;
        let started = Instant::now();
        registry.put_tool(&definition, Expect::Anything, "bench").await?;
        let snapshot = registry.snapshot();
        let seen = snapshot.tool(definition.name.as_str()).and_then(|tool| tool.as_data());
        anyhow::ensure!(seen.is_some_and(|seen| seen.description == definition.description), "the write is visible");
        writes.push(started.elapsed());
    }
    let queries =
        ["cancel order", "invoice", "list customers of a store", "get weather", "refund pay", "tool 4711", "the"];
    let mut searches = Vec::new();
    for round in 0..60 {
        let started = Instant::now();
        let hits = registry.search(queries[round % queries.len()], 20, |_| true);
        searches.push(started.elapsed());
        std::hint::black_box(hits);
    }
    writes.sort();
    searches.sort();
    Ok(Figures {
        tools,
        start,
        write: (quantile(&writes, 0.5), quantile(&writes, 0.99)),
        search: (quantile(&searches, 0.5), quantile(&searches, 0.99)),
        memory: (grown as f64 - json_bytes as f64).max(0.0) / tools as f64,
    })
}

fn tool(i: usize) -> anyhow::Result<Definition> {
    let verbs = ["get", "list", "create", "cancel", "update", "search", "refund", "archive", "export", "sync"];
    let nouns = ["order", "invoice", "customer", "product", "parcel", "store", "payment", "ticket", "report", "device"];
    let (verb, noun) = (verbs[i % 10], nouns[i / 10 % 10]);
    Ok(Definition::from_value(&json!({
        "name": format!("{verb}_{noun}_{i}"),
        "description": format!("{verb} the {noun} number {i} of a store, with the fields that the back office needs"),
        "parameters": { "type": "object", "properties": {
            "id": { "type": "string", "description": format!("The {noun}") },
            "fields": { "type": "array", "items": { "type": "string" }, "description": "Which fields" },
            "limit": { "type": "integer", "minimum": 1, "maximum": 100 },
        }, "required": ["id"] },
        "request": { "url": format!("https://api.example.com/{noun}s/{{{{id}}}}"), "query": { "limit": "{{limit}}" } },
        "group": noun,
        "tags": [verb],
    }))?)
}

/// The memory this process holds, as Linux counts it; 0 where it does not.
pub fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default();
    pages * 4096
}
