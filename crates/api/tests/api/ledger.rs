//! Calls with side effects: once, whatever is repeated or breaks off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use http::StatusCode;
use serde_json::{Value, json};

use crate::app::{Answer, App, upstream};

/// An upstream that counts what it performs, and answers with these statuses, the last one for ever.
pub async fn counting(statuses: &'static [u16]) -> (String, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let handler = move |headers: http::HeaderMap, body: String| {
        let n = seen.fetch_add(1, Ordering::SeqCst);
        let status = statuses[n.min(statuses.len() - 1)];
        let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap_or_default().to_owned());
        let answer = json!({ "n": n + 1, "key": key, "body": body });
        async move { (StatusCode::from_u16(status).unwrap(), answer.to_string()) }
    };
    (upstream(Router::new().route("/refunds", post(handler))).await, count)
}

pub fn refund(base: &str) -> Value {
    json!({
        "name": "refund", "description": "Pays money back",
        "parameters": { "type": "object", "properties": { "amount": { "type": "number" } }, "required": ["amount"] },
        "request": { "method": "POST", "url": format!("{base}/refunds"), "body": { "amount": "{{amount}}" } },
        "response": { "extract": "json_path", "path": "$.n" },
    })
}

pub async fn call(app: &App, agent: &str, call_id: &str, amount: u32) -> Answer {
    let body = json!({
        "tool": "refund", "arguments": { "amount": amount }, "call_id": call_id, "ctx": { "chat_id": "chat-1" },
    });
    app.post(&format!("/v1/agents/{agent}/calls"), body).await
}

#[tokio::test]
async fn the_same_call_id_is_the_same_call() {
    let (base, count) = counting(&[200]).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;
    app.agent("b", json!({})).await;
    app.tool(refund(&base)).await;
    let first = call(&app, "a", "c1", 5).await.json();
    assert_eq!((first["status"].as_str(), &first["result"]), (Some("ok"), &json!(1)), "{first}");
    let again = call(&app, "a", "c1", 5).await.json();
    assert_eq!((&again["result"], &again["ledger_id"]), (&json!(1), &first["ledger_id"]));
    assert_eq!(count.load(Ordering::SeqCst), 1, "it was performed once");
    for (agent, amount) in [("a", 6), ("b", 5)] {
        let other = call(&app, agent, "c1", amount).await;
        assert_eq!((other.status, other.code().as_str()), (StatusCode::CONFLICT, "call.conflict"));
    }
    // Another call is another call, also with the same arguments: nothing is in doubt.
    assert_eq!(call(&app, "a", "c2", 5).await.json()["result"], 2);
    let row = app.get(&format!("/v1/calls/{}", first["ledger_id"].as_str().unwrap())).await.json();
    let moves: Vec<&str> = row["events"].as_array().unwrap().iter().map(|e| e["to"].as_str().unwrap()).collect();
    assert_eq!(moves, ["claimed", "sent", "succeeded"]);
    assert_eq!(row["request"]["url"], format!("{base}/refunds"));
    // In a batch a conflict is an outcome: the others run.
    let calls = json!([{ "tool": "refund", "arguments": { "amount": 9 }, "call_id": "c1" }, { "tool": "read_clock" }]);
    let body = json!({ "calls": calls, "ctx": { "chat_id": "chat-1" } });
    let batch = app.post("/v1/agents/a/calls", body).await.json();
    assert_eq!(
        (&batch["outcomes"][0]["code"], &batch["outcomes"][1]["status"]),
        (&json!("call.conflict"), &json!("ok"))
    );
}

#[tokio::test]
async fn a_call_keeps_its_lease_while_it_connects() {
    // Takes connections, and says nothing of TLS until it hangs up, after twice the length of a lease.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(2_000)).await;
                drop(stream);
            });
        }
    });
    let app = App::new().await;
    app.agent("a", json!({})).await;
    app.tool(refund(&base)).await;
    let outcome = call(&app, "a", "c1", 5).await.json();
    assert_eq!(outcome["status"], "error", "{outcome}");
    let row = app.get(&format!("/v1/calls/{}", outcome["ledger_id"].as_str().unwrap())).await.json();
    let moves: Vec<_> = row["events"].as_array().unwrap().iter().map(|e| (&e["to"], &e["epoch"])).collect();
    assert_eq!(moves, [(&json!("claimed"), &json!(1)), (&json!("failed"), &json!(1))], "nobody took it over");
}

#[tokio::test]
async fn a_repetition_does_not_wait_for_the_upstream() {
    let (base, count) = counting(&[200]).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;
    app.tool(refund(&base)).await;
    assert_eq!(call(&app, "a", "c1", 5).await.json()["status"], "ok");
    // From now on nobody there answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    app.tool(refund(&format!("https://{}", silent.local_addr().unwrap()))).await;
    let again = tokio::time::timeout(Duration::from_secs(5), call(&app, "a", "c1", 5)).await;
    assert_eq!(again.expect("an answer before the connection gives up").json()["result"], 1);
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn concurrent_repetitions_are_performed_once() {
    let (base, count) = counting(&[200]).await;
    let app = Arc::new(App::new().await);
    app.agent("a", json!({})).await;
    app.tool(refund(&base)).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let app = Arc::clone(&app);
        calls.spawn(async move { call(&app, "a", "c1", 5).await.json() });
    }
    for outcome in calls.join_all().await {
        assert_eq!((outcome["status"].as_str(), &outcome["result"]), (Some("ok"), &json!(1)), "{outcome}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_call_in_doubt_waits_for_a_verdict_and_is_not_repeated_unasked() {
    let (base, count) = counting(&[500, 500, 200]).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;
    app.tool(refund(&base)).await;
    let doubt = call(&app, "a", "c1", 5).await.json();
    assert_eq!(doubt["status"], "in_doubt", "{doubt}");
    let id = doubt["ledger_id"].as_str().unwrap().to_owned();
    // The model asks for the same again under another key: a person is asked first.
    let again = call(&app, "a", "c2", 5).await.json();
    assert_eq!((again["status"].as_str(), count.load(Ordering::SeqCst)), (Some("waiting"), 1), "{again}");
    let approval = app.get(&format!("/v1/approvals/{}", again["approval"]["id"].as_str().unwrap())).await.json();
    assert!(approval["why"].as_str().unwrap().contains("not known whether it was performed"), "{approval}");
    let listed = app.get("/v1/calls?state=in_doubt").await.json();
    assert_eq!((listed["calls"].as_array().unwrap().len(), &listed["calls"][0]["id"]), (1, &json!(id)));

    let doctor = app.get("/v1/doctor").await.json()["findings"].to_string();
    assert!(doctor.contains("1 call(s) are in doubt") && doctor.contains("1 call(s) wait for a person"), "{doctor}");

    let verdict = format!("/v1/calls/{id}/verdict");
    let bad = app.post(&verdict, json!({ "verdict": "maybe" })).await;
    assert_eq!(bad.code(), "http.request");
    let not_done = json!({ "verdict": "not_done", "reason": "the bank has no such refund" });
    let ran = loop {
        let answer = app.post(&verdict, not_done.clone()).await;
        if answer.status != StatusCode::CONFLICT {
            break answer.json();
        }
        // The quarantine of the tests is 1 ms.
        assert_eq!((answer.code().as_str(), &answer.json()["retryable"]), ("call.too_early", &json!(true)));
    };
    assert_eq!((ran["state"].as_str(), ran["actor"].as_str()), (Some("ready"), Some("root")));
    let ended = app.get(&format!("/v1/calls/{id}?wait=10s")).await.json();
    assert_eq!((ended["state"].as_str(), count.load(Ordering::SeqCst)), (Some("in_doubt"), 2), "{ended}");
    let done = app.post(&verdict, json!({ "verdict": "done", "result": { "refund": "r-1" } })).await.json();
    assert_eq!((done["state"].as_str(), &done["outcome"]["result"]["refund"]), (Some("succeeded"), &json!("r-1")));
    assert_eq!(call(&app, "a", "c1", 5).await.json()["result"], json!({ "refund": "r-1" }), "the caller reads it too");
    let late = app.post(&verdict, json!({ "verdict": "abandon" })).await;
    assert_eq!((late.status, late.code().as_str()), (StatusCode::CONFLICT, "call.state"));
}

#[tokio::test]
async fn an_abandoned_call_stays_unknown() {
    let (base, _) = counting(&[503]).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;
    app.tool(refund(&base)).await;
    let doubt = call(&app, "a", "c1", 5).await.json();
    let verdict = format!("/v1/calls/{}/verdict", doubt["ledger_id"].as_str().unwrap());
    assert_eq!(app.post(&verdict, json!({ "verdict": "abandon" })).await.json()["state"], "unknown");
    let again = call(&app, "a", "c1", 5).await.json();
    assert_eq!((again["status"].as_str(), again["code"].as_str()), (Some("in_doubt"), Some("call.unknown")));
    assert_eq!(call(&app, "a", "c2", 5).await.json()["status"], "waiting", "a repetition asks");
}

#[tokio::test]
async fn what_a_status_says_decides() {
    let app = App::new().await;
    app.agent("a", json!({})).await;
    for (status, outcome, state) in [
        (200, "ok", "succeeded"),
        (422, "error", "failed"),
        (307, "error", "failed"),
        (303, "in_doubt", "in_doubt"),
        (429, "in_doubt", "in_doubt"),
        (500, "in_doubt", "in_doubt"),
        (503, "error", "failed"),
    ] {
        let (base, count) = counting(Box::leak(Box::new([status]))).await;
        let mut tool = refund(&base);
        tool["not_performed_on"] = json!([503]);
        app.tool(tool).await;
        let made = call(&app, "a", &format!("c-{status}"), status.into()).await.json();
        assert_eq!(made["status"], outcome, "{made}");
        let row = app.get(&format!("/v1/calls/{}", made["ledger_id"].as_str().unwrap())).await.json();
        assert_eq!((row["state"].as_str(), count.load(Ordering::SeqCst)), (Some(state), 1), "{status}");
    }
    // Nothing listens there: nothing was sent.
    app.tool(refund("http://127.0.0.1:9")).await;
    let dead = call(&app, "a", "c-dead", 1).await.json();
    let row = app.get(&format!("/v1/calls/{}", dead["ledger_id"].as_str().unwrap())).await.json();
    assert_eq!(row["state"], "failed");
    assert!(!row["events"].to_string().contains("\"sent\""), "{row}");
}

#[tokio::test]
async fn a_tool_with_a_key_is_sent_again_under_the_same_key() {
    let (base, count) = counting(&[503, 200]).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;
    let mut tool = refund(&base);
    tool["idempotency_key_header"] = "Idempotency-Key".into();
    tool["response"] = json!({ "extract": "json_path", "path": "$.key" });
    app.tool(tool).await;
    let first = call(&app, "a", "c1", 5).await.json();
    assert_eq!((first["status"].as_str(), count.load(Ordering::SeqCst)), (Some("ok"), 2), "{first}");
    let key = first["result"].as_str().unwrap();
    assert!(key.starts_with("toolcrib-") && !key.contains("c1"), "{key}");
    let body =
        json!({ "tool": "refund", "arguments": { "amount": 5 }, "call_id": "c1", "ctx": { "chat_id": "chat-2" } });
    let other = app.post("/v1/agents/a/calls", body).await.json();
    assert_ne!(other["result"], first["result"], "the same call_id of another session is another call");
}

#[tokio::test]
async fn a_transactional_effect_is_kept_with_its_call_or_not_at_all() {
    let app = App::with_bank().await;
    app.agent("a", json!({})).await;
    let deposit = async |call_id: &str, arguments: Value| {
        let body = json!({ "tool": "deposit", "arguments": arguments, "call_id": call_id });
        app.post("/v1/agents/a/calls", body).await.json()
    };
    let first = deposit("c1", json!({ "amount": 5 })).await;
    assert_eq!((first["status"].as_str(), &first["result"]["total"]), (Some("ok"), &json!(5)), "{first}");
    assert_eq!(deposit("c1", json!({ "amount": 5 })).await["result"]["total"], 5);
    for (fail, words) in
        [("no money", "the bank says no money"), ("panic", "unexpectedly"), ("commit", "not its own to end")]
    {
        let failed = deposit(&format!("c-{}", words.len()), json!({ "amount": 100, "fail": fail })).await;
        assert_eq!(failed["status"], "error", "{failed}");
        assert!(failed["result"]["error"].as_str().unwrap().contains(words), "{failed}");
        let row = app.get(&format!("/v1/calls/{}", failed["ledger_id"].as_str().unwrap())).await.json();
        assert_eq!(row["state"], "failed");
    }
    let last = deposit("c2", json!({ "amount": 1 })).await;
    assert_eq!(last["result"]["total"], 6, "what failed left nothing: {last}");
    let row = app.get(&format!("/v1/calls/{}", last["ledger_id"].as_str().unwrap())).await.json();
    let moves: Vec<&str> = row["events"].as_array().unwrap().iter().map(|e| e["to"].as_str().unwrap()).collect();
    assert_eq!(moves, ["ready", "succeeded"]);
}
