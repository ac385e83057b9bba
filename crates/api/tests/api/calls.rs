//! Calls: what the model reads, and what the trace keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::{any, get, post};
use serde_json::{Value, json};

use crate::app::{App, get_tool, upstream};

#[tokio::test]
async fn the_request_carries_what_was_sent_to_the_letter() {
    let echo = Router::new().route("/echo", any(|body: String| async move { body }));
    let base = upstream(echo).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;
    app.tool(json!({
        "name": "echo", "description": "Echo",
        "parameters": { "type": "object", "properties": { "n": { "type": "number" } }, "required": ["n"] },
        "request": { "method": "POST", "url": format!("{base}/echo"), "body": { "n": "{{n}}" } }, "side_effect": false,
    }))
    .await;
    let raw = r#"{"tool":"echo","arguments":{"n":1.10E5}}"#;
    let answer = app.as_admin(http::Method::POST, "/v1/agents/a/calls", raw).await;
    assert_eq!(answer.json()["result"], r#"{"n":1.10E5}"#, "{}", answer.text);
    let as_text = app.call("a", "echo", json!(r#"{"n": "7.50"}"#)).await;
    assert_eq!(as_text["result"], r#"{"n":"7.50"}"#);
}

#[tokio::test]
async fn failures_are_results_that_the_model_reads() {
    let router = Router::new()
        .route("/teapot", get(|| async { (http::StatusCode::IM_A_TEAPOT, "short and stout") }))
        .route("/moved", get(|| async { (http::StatusCode::FOUND, [("location", "/elsewhere")], "") }))
        .route("/large", get(|| async { "x".repeat(100 << 10) }));
    let base = upstream(router).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;
    app.agent("none", json!({ "tools_allow": [] })).await;
    for name in ["teapot", "moved", "large"] {
        app.tool(get_tool(name, &format!("{base}/{name}"))).await;
    }
    app.tool(json!({ "name": "dead", "description": "Dead", "request": { "url": "http://127.0.0.1:9/x" } })).await;
    let mut waits = get_tool("waits", &base);
    waits["approval"] = "always".into();
    app.tool(waits).await;

    let check = async |agent: &str, tool: &str, status: &str, code: &str, result: &str| {
        let outcome = app.call(agent, tool, json!({})).await;
        assert_eq!(outcome["status"], status, "{outcome}");
        assert!(outcome["result"]["error"].as_str().unwrap().contains(result), "{outcome}");
        let trace = app.trace(&outcome).await;
        assert_eq!(trace["error"]["code"], code, "{trace}");
        assert_eq!(trace["status"], status);
    };
    check("a", "teapot", "error", "call.tool", "HTTP 418: short and stout").await;
    check("a", "moved", "error", "call.tool", "HTTP 302: moved to /elsewhere").await;
    check("a", "large", "error", "call.too_large", "larger than 65536 bytes").await;
    check("a", "dead", "error", "upstream.connect", "no connection").await;
    check("a", "nowhere", "error", "call.unknown_tool", "no tool").await;
    check("none", "teapot", "denied", "call.denied", "no tool").await;
    check("a", "waits", "waiting", "call.approval", "approval").await;
}

#[tokio::test]
async fn code_tools_fail_softly() {
    let app = App::new().await;
    app.agent("a", json!({})).await;
    let fine = app.call("a", "read_clock", json!({ "plus": "5" })).await;
    assert_eq!((fine["status"].as_str(), &fine["result"]["minutes"]), (Some("ok"), &json!(605)));
    let error = app.call("a", "read_clock", json!({ "fail": "no" })).await;
    assert_eq!(error["result"], json!({ "error": "the clock says no" }));
    let panic = app.call("a", "read_clock", json!({ "fail": "panic" })).await;
    assert_eq!(panic["result"], json!({ "error": "the tool failed unexpectedly" }));
    assert_eq!(app.trace(&panic).await["error"]["code"], "call.panic");
    let wrong = app.call("a", "read_clock", json!({ "plus": 1.5 })).await;
    assert_eq!(wrong["result"]["error"], "invalid arguments: plus: expected integer, got a number");
}

/// Counts requests, and fails the first ones.
async fn flaky(method: &str, failures: usize) -> (String, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let handler = move || {
        let n = seen.fetch_add(1, Ordering::SeqCst);
        async move {
            if n < failures { (http::StatusCode::SERVICE_UNAVAILABLE, "later") } else { (http::StatusCode::OK, "done") }
        }
    };
    let route = if method == "GET" { get(handler) } else { post(handler) };
    (upstream(Router::new().route("/x", route)).await, count)
}

#[tokio::test]
async fn only_idempotent_calls_are_sent_again() {
    let app = App::new().await;
    app.agent("a", json!({})).await;
    let (base, count) = flaky("GET", 1).await;
    app.tool(get_tool("read_it", &format!("{base}/x"))).await;
    let outcome = app.call("a", "read_it", json!({})).await;
    assert_eq!((outcome["status"].as_str(), count.load(Ordering::SeqCst)), (Some("ok"), 2));
    assert_eq!(app.trace(&outcome).await["sends"], 2);

    let (base, count) = flaky("POST", 1).await;
    let mut tool = get_tool("do_it", &format!("{base}/x"));
    tool["request"]["method"] = "POST".into();
    app.tool(tool).await;
    let outcome = app.call("a", "do_it", json!({})).await;
    assert_eq!((outcome["status"].as_str(), count.load(Ordering::SeqCst)), (Some("in_doubt"), 1));
    assert_eq!(outcome["result"]["error"], "HTTP 503: later");
    assert!(outcome["result"]["note"].as_str().unwrap().contains("don't repeat it blindly"), "{outcome}");
}

#[tokio::test]
async fn a_side_effect_that_times_out_is_in_doubt() {
    let slow = Router::new().route("/x", post(|| async { tokio::time::sleep(Duration::from_secs(5)).await }));
    let base = upstream(slow).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;
    let mut tool = get_tool("slow", &format!("{base}/x"));
    tool["request"]["method"] = "POST".into();
    tool["timeout"] = 1.into();
    app.tool(tool).await;
    let outcome = app.call("a", "slow", json!({})).await;
    assert_eq!(outcome["status"], "in_doubt");
    assert!(outcome["result"]["error"].as_str().unwrap().contains("don't repeat it blindly"), "{outcome}");
}

#[tokio::test]
async fn a_call_ends_with_a_trace_also_when_nobody_waits() {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let slow = post(move || async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        seen.fetch_add(1, Ordering::SeqCst);
        "done"
    });
    let base = upstream(Router::new().route("/x", slow)).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;
    let mut tool = get_tool("slow", &format!("{base}/x"));
    tool["request"]["method"] = "POST".into();
    app.tool(tool).await;
    let body = json!({ "tool": "slow", "ctx": { "chat_id": "left" } }).to_string();
    let request = app.request(http::Method::POST, "/v1/agents/a/calls", Some(&app.admin), body);
    let left = tokio::time::timeout(Duration::from_millis(80), app.send(request)).await;
    assert!(left.is_err(), "the caller leaves first");
    assert!(app.executor.drain(Duration::from_secs(5)).await);
    let traces = app.get("/v1/traces?session=left").await.json();
    assert_eq!(traces["traces"][0]["status"], "ok", "{traces}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn batches_keep_their_order_and_limits() {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (now, peak) = (Arc::clone(&running), Arc::clone(&most));
    let handler = move |axum::extract::Query(q): axum::extract::Query<Value>| async move {
        peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let n: u64 = q["n"].as_str().unwrap().parse().unwrap();
        tokio::time::sleep(Duration::from_millis(40 * (4 - n.min(4)))).await;
        now.fetch_sub(1, Ordering::SeqCst);
        json!({ "n": n, "state": if n == 3 { "STOP" } else { "GO" } }).to_string()
    };
    let base = upstream(Router::new().route("/x", get(handler))).await;
    let app = App::new().await;
    let mut tool = get_tool("step", &format!("{base}/x"));
    tool["parameters"] = json!([{ "name": "n", "type": "integer" }]);
    tool["request"]["query"] = json!({ "n": "{{n}}" });
    tool["halt_when"] = json!({ "json_path": "state", "equals": "STOP", "say": { "text": "Stopped." } });
    app.tool(tool).await;
    let batch = async |agent: &str, ns: &[u64]| {
        let calls: Vec<Value> =
            ns.iter().map(|n| json!({ "tool": "step", "arguments": { "n": n }, "call_id": format!("c{n}") })).collect();
        let answer = app.post(&format!("/v1/agents/{agent}/calls"), json!({ "calls": calls })).await.json();
        let outcomes = answer["outcomes"].as_array().unwrap().clone();
        outcomes
            .iter()
            .map(|o| format!("{} {}", o["call_id"].as_str().unwrap(), o["status"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    app.agent("serial", json!({})).await;
    assert_eq!(batch("serial", &[1, 2, 3, 4]).await, ["c1 ok", "c2 ok", "c3 halted", "c4 skipped"]);
    assert_eq!(most.load(Ordering::SeqCst), 1);
    app.agent("wide", json!({ "limits": { "tool_concurrency": 3, "max_tool_calls": 3 } })).await;
    assert_eq!(batch("wide", &[1, 2, 4, 5]).await, ["c1 ok", "c2 ok", "c4 ok", "c5 skipped"]);
    assert!(most.load(Ordering::SeqCst) >= 2 && most.load(Ordering::SeqCst) <= 3);
    assert_eq!(running.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn evidence_goes_to_the_session_and_attachments_to_the_person() {
    let body = json!({
        "items": [{ "id": "K1", "line": "Kettle", "cost": 3 }],
        "attachments": [{ "type": "card", "url": "https://img.example.com/k1", "caption": "Kettle" }],
    });
    let base = upstream(Router::new().route("/x", get(move || std::future::ready(body.to_string())))).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;
    let mut tool = get_tool("goods", &format!("{base}/x"));
    tool["response"] = json!({ "extract": "evidence_envelope" });
    tool["evidence"] = "goods".into();
    app.tool(tool).await;
    let outcome = app.call("a", "goods", json!({})).await;
    assert_eq!(outcome["result"], json!({ "items": [{ "id": "K1", "line": "Kettle" }] }));
    assert_eq!(outcome["attachments"][0]["url"], "https://img.example.com/k1");
    let evidence = app.get("/v1/sessions/chat-1/evidence").await.json();
    assert_eq!(evidence["evidence"], json!([{ "kind": "goods", "id": "K1", "agent": "a" }]));
}

#[tokio::test]
async fn a_failing_host_is_paused_and_doctor_says_so() {
    let app = App::new().await;
    app.agent("a", json!({})).await;
    app.tool(json!({ "name": "dead", "description": "Dead", "request": { "method": "POST", "url": "http://127.0.0.1:9/x" } })).await;
    for _ in 0..5 {
        app.call("a", "dead", json!({})).await;
    }
    let paused = app.call("a", "dead", json!({})).await;
    assert_eq!(app.trace(&paused).await["error"]["code"], "call.paused");
    let doctor = app.get("/v1/doctor").await.json();
    assert_eq!(doctor["breakers"][0]["state"], "open");
    assert!(app.get("/metrics").await.text.contains("toolcrib_breaker_open{host=\"127.0.0.1:9\"} 1"));
}

#[tokio::test]
async fn try_shows_the_request_before_it_sends_it() {
    let base = upstream(Router::new().route("/x", post(|body: String| async move { body }))).await;
    let app = App::new().await;
    app.tool(json!({
        "name": "send", "description": "Send", "parameters": [{ "name": "q" }], "secret_headers": ["Authorization"],
        "request": { "method": "POST", "url": format!("{base}/x"), "headers": { "Authorization": "Bearer {{secret.api_token}}" },
            "body": { "q": "{{q}}" } },
    }))
    .await;
    let shown = app.post("/v1/tools/send/try", json!({ "arguments": { "q": "a" } })).await.json();
    assert_eq!(shown["request"]["headers"][0], json!({ "name": "Authorization", "value": "Bearer ***" }));
    assert_eq!((&shown["request"]["body"], &shown["outcome"]), (&json!(r#"{"q":"a"}"#), &Value::Null));
    let sent = app.post("/v1/tools/send/try", json!({ "arguments": { "q": "a" }, "send": true })).await.json();
    assert_eq!(sent["outcome"]["result"], r#"{"q":"a"}"#);
    let wrong = app.post("/v1/tools/send/try", json!({ "send": true })).await.json();
    assert_eq!(wrong["error"], "missing required parameter(s): q");
    assert_eq!(wrong["outcome"], Value::Null);
}

/// Every key in its place: what reads traces elsewhere relies on it.
#[tokio::test]
async fn the_document_of_a_trace_has_its_keys_in_order() {
    let long = "é".repeat(9 << 10);
    let router = Router::new()
        .route("/plain", get(|| async { "plain" }))
        .route("/long", get(|| async move { axum::Json(json!({ "state": "DONE", "long": long })) }));
    let base = upstream(router).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;
    app.tool(get_tool("plain", &format!("{base}/plain"))).await;
    let mut long = get_tool("long", &format!("{base}/long"));
    long["response"] = json!({ "extract": "json_path", "path": "$.long" });
    long["halt_when"] = json!({ "json_path": "state", "equals": ["DONE"] });
    app.tool(long).await;
    app.tool(json!({ "name": "meta", "description": "Meta", "request": { "url": "http://169.254.169.254/" } })).await;

    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let common = "id session agent tool call_id status started_at duration_ms phases_ms origin arguments";
    let trace = app.trace(&app.call("a", "plain", json!({ "x": [1.0, null] })).await).await;
    assert_eq!(keys(&trace), format!("{common} request sends response result"));
    assert_eq!(trace["arguments"].to_string(), r#"{"x":[1.0,null]}"#);
    assert_eq!(keys(&trace["phases_ms"]), "check render queue connect first_byte body extract");
    assert_eq!(keys(&trace["request"]), "method url headers body");
    assert_eq!(keys(&trace["response"]), "status content_type location body body_is_result body_bytes complete");
    assert_eq!((&trace["response"]["body"], &trace["response"]["body_is_result"]), (&Value::Null, &json!(true)));

    let trace = app.trace(&app.call("a", "long", json!({})).await).await;
    assert_eq!(keys(&trace), format!("{common} request sends response result halt"));
    assert_eq!(trace["result"]["bytes"], 18 << 10);
    assert_eq!(trace["result"]["cut"].as_str().unwrap().len(), 16 << 10);
    assert_eq!(trace["halt"], json!({ "say": null }));

    let trace = app.trace(&app.call("a", "meta", json!({})).await).await;
    assert_eq!(keys(&trace), format!("{common} request sends error result blocked"));
    assert_eq!(keys(&trace["blocked"]), "code subject detail");
}

/// A read of an MCP tool is sent again after a 503; a call with a side effect is not.
#[tokio::test]
async fn only_reads_of_mcp_tools_are_sent_again() {
    for (side_effect, sends, status) in [(false, 2, "ok"), (true, 1, "in_doubt")] {
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        let server = any(move |body: String| {
            let count = Arc::clone(&count);
            async move {
                let message: Value = serde_json::from_str(&body).unwrap_or_default();
                let reply =
                    |result: Value| axum::Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
                match message["method"].as_str() {
                    Some("server/discover") => Ok(reply(json!({ "supportedVersions": ["2026-07-28"] }))),
                    Some("tools/call") if count.fetch_add(1, Ordering::SeqCst) > 0 => {
                        Ok(reply(json!({ "content": [] })))
                    }
                    _ => Err(http::StatusCode::SERVICE_UNAVAILABLE),
                }
            }
        });
        let base = upstream(Router::new().fallback(server)).await;
        let app = App::new().await;
        app.agent("a", json!({})).await;
        app.tool(json!({
            "name": "s__t", "description": "T", "side_effect": side_effect, "protocol": "mcp",
            "mcp": { "server": "s", "tool": "t", "input_schema": { "type": "object" } },
            "request": { "method": "POST", "url": format!("{base}/mcp"), "body": {
                "jsonrpc": "2.0", "method": "tools/call", "params": { "name": "t", "arguments": "{{call.arguments}}" },
            } },
            "response": { "extract": "mcp_content" },
        }))
        .await;
        let outcome = app.call("a", "s__t", json!({})).await;
        assert_eq!(outcome["status"], status, "{outcome}");
        assert_eq!(
            (seen.load(Ordering::SeqCst), app.trace(&outcome).await["sends"].as_u64()),
            (sends, Some(sends as u64))
        );
    }
}
