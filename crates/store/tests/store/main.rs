//! The rows over a real SQLite file and a real Postgres.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod copying;
mod databases;
mod ledger_model;
mod ledger_steps;
mod packs;
mod rows;
mod sqlite_file;
mod turns;

use std::sync::atomic::{AtomicI64, Ordering};

use databases::Stopped;
use toolcrib_definition::Definition;
use toolcrib_store::{OsRandomness, TraceRow, time_ordered_id};

fn tool(name: &str, path: u32) -> Definition {
    let json = format!(r#"{{"name": "{name}", "description": "d", "request": {{"url": "https://a.example/{path}"}}}}"#);
    Definition::from_json(json.as_bytes()).unwrap()
}

fn trace(id: u32, session: &str, agent: &str, started_at: i64) -> TraceRow {
    TraceRow {
        id: format!("{id:032x}"),
        session: session.to_owned(),
        agent: agent.to_owned(),
        tool: "ping".to_owned(),
        call_id: format!("call_{id}"),
        status: if id.is_multiple_of(2) { "ok" } else { "error" }.to_owned(),
        blocked: (id % 10 == 1).then(|| "egress.private_address".to_owned()),
        started_at,
        duration_ms: 1,
        document: format!("{{\"n\": {id}}}"),
    }
}

#[test]
fn ids_sort_by_their_time() {
    let clock = Stopped(AtomicI64::new(1));
    let early = time_ordered_id(&clock, &OsRandomness);
    clock.0.store(1 << 40, Ordering::SeqCst);
    let late = time_ordered_id(&clock, &OsRandomness);
    assert!(early < late && early.len() == 32 && late.len() == 32);
}
