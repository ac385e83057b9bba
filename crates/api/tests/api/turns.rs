//! Turns over HTTP: begun, followed, read, ended, and as OpenAI's clients see them.

use http::StatusCode;
use serde_json::{Value, json};

use crate::app::{App, upstream};

/// An app with an agent `clerk` and a tool that needs approval.
async fn app(turns: Value) -> App {
    let app = App::with_model(turns).await;
    let shop = axum::Router::new().route("/refund", axum::routing::post(|| async { "{\"state\":\"paid\"}" }));
    let base = upstream(shop).await;
    app.tool(json!({
        "name": "refund", "description": "Refund", "approval": "always",
        "request": {"method": "POST", "url": format!("{base}/refund")},
    }))
    .await;
    app.agent("clerk", json!({"provider": "main", "model": "script", "instructions": "You are a clerk."})).await;
    app
}

fn refund() -> Value {
    json!([
        {"when": "refund", "steps": [{"text": "One moment. ", "calls": [{"tool": "refund"}]}, {"text": "Done."}]},
        {"when": "slow", "steps": [{"text": "late", "delay_ms": 20_000}]},
        {"when": "wrong", "steps": [{"text": "x", "faults": [{"status": {"code": 400, "retry_after": null}}]}]},
        {"steps": [{"text": "Hello there."}]},
    ])
}

/// The events of a stream, as name and data.
fn events(text: &str) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(event) = line.strip_prefix("event: ") {
            name = event.to_owned();
        } else if let Some(data) = line.strip_prefix("data: ") {
            events.push((name.clone(), serde_json::from_str(data).unwrap()));
        }
    }
    events
}

#[tokio::test]
async fn a_turn_is_begun_read_and_remembered() {
    let app = app(refund()).await;
    let begun = app.post("/v1/agents/clerk/turns", json!({"message": "hi", "session": "s"})).await;
    assert_eq!(begun.status, 200, "{}", begun.text);
    let turn = begun.json();
    assert_eq!((turn["state"].as_str(), turn["message"].as_str()), (Some("completed"), Some("hi")));
    assert_eq!(turn["outcome"]["text"], "Hello there.");
    let id = turn["id"].as_str().unwrap();
    let mut read = app.get(&format!("/v1/turns/{id}")).await.json();
    let told = read.as_object_mut().unwrap().remove("events").unwrap();
    assert_eq!(read, turn);
    let names: Vec<_> = told.as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["started", "model_answered"]);
    assert!(told[0]["at"].as_i64() >= turn["created_at"].as_i64(), "{told}");
    assert_eq!(app.get("/v1/models").await.json()["data"][0]["id"], "clerk");
    let told = app.get("/v1/agents/clerk/sessions/s").await.json();
    assert_eq!(told["turns"][0]["messages"][1], json!({"role": "assistant", "text": "Hello there."}));
    let list = app.get("/v1/turns?agent=clerk&session=s&state=completed").await.json();
    assert_eq!(list["turns"].as_array().unwrap().len(), 1);
    let late = events(&app.get(&format!("/v1/turns/{id}/events")).await.text);
    assert_eq!(late.last().unwrap().0, "ended", "who comes late is told the end");

    for (path, body, code) in [
        ("/v1/agents/nobody/turns", json!({"message": "hi"}), "http.not_found"),
        ("/v1/agents/clerk/turns", json!({}), "http.request"),
        ("/v1/agents/clerk/turns", json!({"message": "  "}), "http.request"),
        ("/v1/agents/clerk/turns", json!({"message": "x", "session": "~mine"}), "http.request"),
        ("/v1/agents/clerk/turns", json!({"message": "x", "wait": 601}), "http.request"),
        ("/v1/agents/clerk/turns", json!({"message": "x", "ctx": {"what": 1}}), "ctx.invalid"),
        ("/v1/agents/clerk/turns", json!({"message": "x", "model": "gpt"}), "http.request"),
        ("/v1/turns/none/cancel", json!({}), "http.not_found"),
    ] {
        assert_eq!(app.post(path, body.clone()).await.code(), code, "{path} {body}");
    }
    assert_eq!(app.get("/v1/turns/none").await.code(), "http.not_found");
    assert_eq!(app.get("/v1/turns?state=what").await.code(), "http.request");
}

#[tokio::test]
async fn a_turn_waits_for_a_person_and_goes_on() {
    let app = app(refund()).await;
    let parked = app.post("/v1/agents/clerk/turns", json!({"message": "a refund"})).await;
    assert_eq!(parked.status, 202);
    let parked = parked.json();
    assert_eq!(parked["state"], "parked");
    let approval = parked["approvals"][0].as_str().unwrap();
    assert_eq!(app.post(&format!("/v1/approvals/{approval}/approve"), json!({})).await.status, 200);
    let id = parked["id"].as_str().unwrap();
    let events = events(&app.get(&format!("/v1/turns/{id}/events")).await.text);
    let (name, data) = events.last().unwrap();
    assert_eq!((name.as_str(), data["outcome"]["text"].as_str()), ("ended", Some("Done.")));
}

#[tokio::test]
async fn a_turn_is_ended_from_outside() {
    let app = app(refund()).await;
    let running = app.post("/v1/agents/clerk/turns", json!({"message": "slow", "wait": 0})).await;
    assert_eq!(running.status, 202);
    let id = running.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(app.post(&format!("/v1/turns/{id}/cancel"), json!({})).await.status, 200);
    let events = events(&app.get(&format!("/v1/turns/{id}/events")).await.text);
    assert_eq!(events.last().unwrap().1["outcome"]["code"], "turn.cancelled");
    assert_eq!(app.get(&format!("/v1/turns/{id}")).await.json()["state"], "cancelled");
}

#[tokio::test]
async fn a_token_of_another_agent_sees_nothing() {
    let app = app(refund()).await;
    app.agent("other", json!({"provider": "main", "model": "script"})).await;
    let turn = app.post("/v1/agents/clerk/turns", json!({"message": "hi", "session": "s"})).await.json();
    let id = turn["id"].as_str().unwrap();
    let token = app.token("caller", Some(&["other"])).await;
    let ask = async |method: http::Method, path: &str| {
        app.send(app.request(method, path, Some(&token), "{}".to_owned())).await.code()
    };
    assert_eq!(ask(http::Method::GET, &format!("/v1/turns/{id}")).await, "http.not_found");
    assert_eq!(ask(http::Method::GET, &format!("/v1/turns/{id}/events")).await, "http.not_found");
    assert_eq!(ask(http::Method::POST, &format!("/v1/turns/{id}/cancel")).await, "http.not_found");
    assert_eq!(ask(http::Method::GET, &format!("/v1/responses/resp_{id}")).await, "http.not_found");
    assert_eq!(ask(http::Method::GET, "/v1/agents/clerk/sessions/s").await, "auth.agent");
    let body = json!({"model": "other", "input": "hi", "previous_response_id": format!("resp_{id}")});
    let request = app.request(http::Method::POST, "/v1/responses", Some(&token), body.to_string());
    assert_eq!(app.send(request).await.code(), "http.not_found", "nor goes on with its session");
    let body = json!({"model": "clerk", "input": "hi"});
    let request = app.request(http::Method::POST, "/v1/responses", Some(&token), body.to_string());
    assert_eq!(app.send(request).await.code(), "auth.agent");
}

#[tokio::test]
async fn responses_are_numbered_and_whole() {
    let app = app(refund()).await;
    let answer = app.post("/v1/responses", json!({"model": "clerk", "input": "hi", "user": "s", "stream": true})).await;
    let events = events(&answer.text);
    for (place, (name, data)) in events.iter().enumerate() {
        assert_eq!(data["sequence_number"], place, "{name}");
        let own = name.strip_prefix("toolcrib.");
        assert_eq!(data["type"], own.map_or(name.as_str(), |_| "keepalive"));
        assert_eq!(data["toolcrib"]["type"].as_str(), own);
    }
    let names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).filter(|name| !name.ends_with("delta")).collect();
    assert_eq!(
        names,
        [
            "response.created",
            "response.in_progress",
            "toolcrib.started",
            "response.output_item.added",
            "response.content_part.added",
            "toolcrib.model_answered",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let response = &events.last().unwrap().1["response"];
    assert_eq!(response["output"][0]["content"][0]["text"], "Hello there.");
    let id = response["id"].as_str().unwrap();
    let read = app.get(&format!("/v1/responses/{id}")).await.json();
    assert_eq!(
        (&read["output"][0]["content"], &read["status"]),
        (&response["output"][0]["content"], &response["status"])
    );

    let next = app.post("/v1/responses", json!({"model": "clerk", "input": [{"role": "user", "content": [{"type": "input_text", "text": "again"}]}], "previous_response_id": id})).await.json();
    assert_eq!(next["toolcrib"]["session"], "s", "it goes on with the session");
    let kept = json!({"model": "clerk", "input": [
        {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}, {"role": "user", "content": "three"},
    ]});
    assert_eq!(
        app.post("/v1/responses", kept).await.json()["status"],
        "completed",
        "a conversation that the caller keeps"
    );
    let failed = app.post("/v1/responses", json!({"model": "clerk", "input": "wrong"})).await.json();
    assert_eq!((failed["status"].as_str(), failed["error"]["code"].as_str()), (Some("failed"), Some("server_error")));
    let background =
        app.post("/v1/responses", json!({"model": "clerk", "input": "slow", "background": true})).await.json();
    assert_eq!(background["status"], "in_progress");
    let id = background["id"].as_str().unwrap();
    let cancelled = app.post(&format!("/v1/responses/{id}/cancel"), json!({})).await;
    assert_eq!(cancelled.status, StatusCode::OK);

    for body in [
        json!([]),
        json!({"input": "x"}),
        json!({"model": "clerk"}),
        json!({"model": "clerk", "input": "x", "tools": [{"type": "function"}]}),
        json!({"model": "clerk", "input": "x", "instructions": "be someone else"}),
        json!({"model": "clerk", "input": [{"role": "system", "content": "x"}]}),
        json!({"model": "clerk", "input": [{"role": "user", "content": [{"type": "input_image"}]}]}),
        json!({"model": "clerk", "input": [{"role": "assistant", "content": "x"}]}),
        json!({"model": "clerk", "input": [{"type": "function_call_output"}]}),
        json!({"model": "clerk", "user": "s", "input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]}),
        json!({"model": "clerk", "input": "x", "stream": "yes"}),
    ] {
        let refused = app.post("/v1/responses", body.clone()).await;
        assert_eq!(refused.status, 400, "{body}: {}", refused.text);
        assert_eq!(refused.json()["error"]["type"], "invalid_request_error");
    }
}
