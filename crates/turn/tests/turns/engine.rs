//! What a scenario can't say.

use std::sync::Arc;

use futures_util::StreamExt;
use scripted_model::{Script, Step, Turn};
use serde_json::{Value, json};
use toolcrib_registry::Agent;
use toolcrib_store::{Expect, TurnState};
use toolcrib_turn::{NewMessage, Pack, TurnEvent, TurnHandle, TurnStatus, recorded};

use crate::app::App;

fn script(turns: Value) -> Script {
    serde_json::from_value(json!({ "turns": turns })).unwrap()
}

fn says(text: &str, session: &str) -> NewMessage {
    NewMessage { text: text.to_owned(), session: Some(session.to_owned()), ..NewMessage::default() }
}

fn agent(more: Value) -> Arc<Agent> {
    let mut profile = json!({"provider": "main", "model": "script", "instructions": "You are a clerk."});
    for (key, value) in more.as_object().into_iter().flatten() {
        profile[key] = value.clone();
    }
    Arc::new(Agent::from_json(&profile).unwrap())
}

/// An agent with one tool that changes something, over the upstream of the application.
async fn charging(app: &App, approval: &str) -> Arc<Agent> {
    let agent = charging(&app, "never").await;

    // A turn runs to its end; what it wrote before its batch is put into the row of another that was left there.
    let mut whole = app.engine.begin("clerk", &agent, says("go", "whole")).await.unwrap();
    whole.outcome().await.unwrap();
    assert_eq!(app.upstream.calls().len(), 2);
    let input = app.store.turn(whole.id()).await.unwrap().unwrap().input;
    let left = toolcrib_store::NewTurn {
        id: "left".into(),
        agent: "clerk".into(),
        session: "left".into(),
        parent: None,
        input,
    };
    let toolcrib_store::Begun::New(row) = app.store.begin_turn(&left, Some("gone"), 1).await.unwrap() else {
        unreachable!()
    };
    let call = |place: usize, n: &str, ended: Value| {
        let call = json!({"id": format!("left_0_{place}"), "tool": "charge", "arguments": {"n": n}});
        json!({"call": call, "counted": true, "begun": true, "ended": ended})
    };
    let done = json!({"status": "ok", "result": "{\"ok\":true}"});
    let calls = json!([{"id": "left_0_0", "tool": "charge", "arguments": {"n": "1"}}, {"id": "left_0_1", "tool": "charge", "arguments": {"n": "2"}}]);
    let checkpoint = json!({
        "step": 1, "messages": [{"role": "user", "text": "go"}, {"role": "assistant", "text": "", "calls": calls}],
        "pending": [call(0, "1", done), call(1, "2", Value::Null)], "enabled": [], "skills": [], "calls": 2,
        "system_calls": 0, "asked": {}, "limit_told": false, "usage": {"input_tokens": 0, "cached_tokens": 0, "output_tokens": 0},
        "model": null, "attachments": [], "evidence": [], "ran_ms": 5,
        "record": [
            {"type": "started", "resumed": false, "at": 7},
            {"type": "model_answered", "model": "main/script", "duration_ms": 3, "at": 8,
             "prompt": {"instructions": 1, "skills": 0, "lists": 0, "history": 0, "turn": 2, "tools": 3, "budget": 100},
             "usage": {"input_tokens": 4, "cached_tokens": 0, "output_tokens": 5}},
            {"type": "call_started", "call_id": "left_0_1", "tool": "charge", "arguments": {"n": "2"}, "at": 9},
        ],
    });
    let lease = toolcrib_store::TurnLease { id: row.id, owner: "gone".into(), epoch: row.epoch };
    assert!(app.store.checkpoint_turn(&lease, &checkpoint.to_string()).await.unwrap());
    let mut taken = app.engine.follow("left").await.unwrap().unwrap();
    let outcome = taken.outcome().await.unwrap();
    assert_eq!((outcome.text.as_deref(), outcome.tool_calls), (Some("done"), 2));
    assert_eq!(app.upstream.calls().len(), 3, "what had ended is not made again, what had not is made once");
    assert!(!app.store.checkpoint_turn(&lease, "{}").await.unwrap(), "and who left it has lost it");

    // What the one that is gone had told stands in the record, and before the rest for who follows it afterwards.
    let record = recorded(&app.store.turn("left").await.unwrap().unwrap());
    let told: Vec<_> =
        record.iter().map(|event| (event["type"].as_str().unwrap(), event["at"].as_i64().unwrap())).collect();
    assert_eq!(told[..3], [("started", 7), ("model_answered", 8), ("call_started", 9)]);
    let rest: Vec<_> = told[3..].iter().map(|(name, _)| *name).collect();
    assert_eq!(rest, ["started", "call_finished", "model_answered"]);
    assert!(record[4]["trace_id"].is_string(), "{record:?}");
    drop(taken);
    let mut afterwards = app.engine.follow("left").await.unwrap().unwrap();
    let mut names = Vec::new();
    while let Some(event) = afterwards.next().await.unwrap() {
        names.push(event.name());
    }
    assert_eq!(names[..2], ["started", "model_answered"]);
    assert_eq!((names.len(), names[6]), (7, "ended"));
}

/// A process that is no server goes on with what it follows, and makes nobody else's call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_keeps_only_their_own_leaves_the_rest_alone() {
    let turns = json!([{"steps": [{"calls": [{"tool": "charge", "arguments": {"n": "1"}}]}, {"text": "done"}]}]);
    let app = App::start_without_keepers(script(turns), "openai").await;
    let agent = charging(&app, "always").await;
    let others = parked_and_approved(&app, &agent, "others").await;
    let other = others.id().to_owned();
    drop(others);
    let mut own = parked_and_approved(&app, &agent, "own").await;
    let keeping = tokio::spawn(app.engine.clone().keep_own());
    assert_eq!(own.outcome().await.unwrap().text.as_deref(), Some("done"));
    keeping.abort();
    assert_eq!(app.upstream.calls().len(), 1, "only its own call was made");
    assert_eq!(app.store.turn(&other).await.unwrap().unwrap().state, TurnState::Parked);
    assert_eq!(app.store.count_left_ready(0).await.unwrap(), 1);
}

/// What was approved and not begun is taken back with the turn that asked for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_turn_takes_back_what_nobody_had_begun() {
    let turns = json!([{"steps": [{"calls": [{"tool": "charge", "arguments": {"n": "1"}}]}, {"text": "done"}]}]);
    let app = App::start_without_keepers(script(turns), "openai").await;
    let agent = charging(&app, "always").await;
    let mut unbegun = parked_and_approved(&app, &agent, "unbegun").await;
    app.engine.cancel(unbegun.id()).await.unwrap();
    let keeping = tokio::spawn(app.engine.clone().keep());
    assert_eq!(unbegun.outcome().await.unwrap().status, TurnStatus::Cancelled);
    let shutdown = tokio_util::sync::CancellationToken::new();
    let ledger = tokio::spawn(app.executor.clone().keep_ledger(shutdown.clone()));
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(app.upstream.calls().len(), 0, "nothing is made for a turn that is over");
    keeping.abort();
    shutdown.cancel();
    ledger.await.unwrap();

    // One that was made before anybody could take it back is told.
    let mut made = parked_and_approved(&app, &agent, "made").await;
    let ledger = tokio::spawn(app.executor.clone().keep_ledger(tokio_util::sync::CancellationToken::new()));
    while app.upstream.calls().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    app.engine.cancel(made.id()).await.unwrap();
    let keeping = tokio::spawn(app.engine.clone().keep());
    assert_eq!(made.outcome().await.unwrap().status, TurnStatus::Cancelled);
    let record = recorded(&app.store.turn(made.id()).await.unwrap().unwrap());
    let last = record.iter().rfind(|event| event["type"] == "call_finished").unwrap();
    assert_eq!((last["status"].as_str(), last["trace_id"].is_string()), (Some("ok"), true), "{record:?}");
    ledger.abort();
    keeping.abort();
}

/// An event without an end: the limit of the turn holds, whatever a provider sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_never_ends_its_line_is_given_up() {
    use axum::body::{Body, Bytes};
    let endless = axum::Router::new().fallback(async || {
        let begin = Bytes::from_static(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
        let more = Bytes::from(vec![b'y'; 64 << 10]);
        let pieces = futures_util::stream::once(async { begin }).chain(futures_util::stream::repeat(more));
        let body = Body::from_stream(pieces.map(Ok::<_, std::io::Error>));
        axum::response::Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, endless).await.unwrap() });
    let app = App::start_without_keepers(script(json!([])), "openai").await;
    let engine = app.engine_asking(&format!("http://{address}/v1"));
    let agent = agent(json!({"limits": {"turn_timeout": 2}}));
    // Whoever can't give it up never comes back: a minute is no measure, but the end of a test that failed.
    let patience = std::time::Duration::from_secs(60);
    let mut turn = engine.begin("clerk", &agent, says("go", "s")).await.unwrap();
    let outcome = tokio::time::timeout(patience, turn.outcome()).await.unwrap().unwrap();
    assert_eq!((outcome.status, outcome.code.as_deref()), (TurnStatus::Limit, Some("turn.timeout")));
    let mut turn = engine.begin("clerk", &agent, says("go", "t")).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    engine.cancel(turn.id()).await.unwrap();
    let outcome = tokio::time::timeout(patience, turn.outcome()).await.unwrap().unwrap();
    assert_eq!(outcome.status, TurnStatus::Cancelled);
    serving.abort();
}
