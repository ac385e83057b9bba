//! The stream of events.

use std::time::Duration;

use axum::body::Body;
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

use crate::app::{App, get_tool};

#[tokio::test]
async fn calls_and_blocks_are_told_as_they_happen() {
    let app = App::with_policy(toolcrib_egress::Policy::default()).await;
    app.agent("a", json!({})).await;
    app.tool(get_tool("inner", "https://127.0.0.1/x")).await;
    let request = app.request(Method::GET, "/v1/events", Some(&app.admin), Body::empty());
    let mut stream = app.router.clone().oneshot(request).await.unwrap().into_body();
    app.call("a", "inner", json!({ "secret": "argument" })).await;
    let mut text = String::new();
    while !text.contains("call_finished") {
        let frame = tokio::time::timeout(Duration::from_secs(5), stream.frame()).await.unwrap().unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
    }
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(kinds, ["call_started", "egress_blocked", "call_finished"]);
    assert!(text.contains("egress.loopback_address") && text.contains("\"session\":\"chat-1\""), "{text}");
    assert!(!text.contains("argument"), "no arguments: {text}");
    let metrics = app.get("/metrics").await.text;
    assert!(metrics.contains("toolcrib_egress_blocked_total{code=\"egress.loopback_address\"} 1"), "{metrics}");
    assert!(app.get("/v1/doctor").await.text.contains("egress.loopback_address"));
    let traces = app.get("/v1/traces?session=chat-1").await.json();
    assert_eq!(traces["traces"][0]["blocked"], "egress.loopback_address");
}

#[tokio::test]
async fn a_revoked_token_is_told_nothing_more() {
    let app = App::new().await;
    app.agent("a", json!({})).await;
    let made = app.post("/v1/tokens", json!({ "name": "ear", "role": "auditor" })).await.json();
    let request = app.request(Method::GET, "/v1/events", made["token"].as_str(), Body::empty());
    let mut stream = app.router.clone().oneshot(request).await.unwrap().into_body();
    app.as_admin(Method::DELETE, &format!("/v1/tokens/{}", made["id"].as_str().unwrap()), Body::empty()).await;
    app.call("a", "read_clock", json!({})).await;
    let end = tokio::time::timeout(Duration::from_secs(5), stream.frame()).await.unwrap();
    assert!(end.is_none(), "the stream ends");
}
