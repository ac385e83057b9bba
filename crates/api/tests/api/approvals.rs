//! People are asked, and what they say is what happens.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use serde_json::{Value, json};
use sqlx::Connection;

use crate::app::App;
use crate::ledger::{call, counting, refund};

async fn asking(rule: Value, statuses: &'static [u16]) -> (App, Arc<std::sync::atomic::AtomicUsize>, String) {
    let (base, count) = counting(statuses).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;
    let mut tool = refund(&base);
    tool["approval"] = rule;
    app.tool(tool).await;
    (app, count, base)
}

fn approval_of(outcome: &Value) -> String {
    assert_eq!(outcome["status"], "waiting", "{outcome}");
    outcome["approval"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_approved_call_runs_as_it_was_shown() {
    let (app, count, base) = asking("always".into(), &[200]).await;
    let waiting = call(&app, "a", "c1", 5).await.json();
    let id = approval_of(&waiting);
    assert_eq!(count.load(Ordering::SeqCst), 0, "nothing happens before");
    let shown = app.get(&format!("/v1/approvals/{id}")).await.json();
    assert_eq!((shown["state"].as_str(), shown["kind"].as_str()), (Some("open"), Some("approval")));
    assert_eq!(shown["request"]["url"], format!("{base}/refunds"));
    assert_eq!(shown["request"]["body"], "{\"amount\":5}");
    let listed = app.get("/v1/approvals?state=open").await.json();
    assert_eq!(listed["approvals"][0]["id"], id);
    // The caller asks again and is told the same.
    assert_eq!(approval_of(&call(&app, "a", "c1", 5).await.json()), id);

    let approved = app.post(&format!("/v1/approvals/{id}/approve"), json!({ "reason": "fine" })).await.json();
    assert_eq!((approved["state"].as_str(), approved["decided_by"].as_str()), (Some("approved"), Some("root")));
    let ended = app.get(&format!("/v1/approvals/{id}?wait=10s")).await.json();
    assert_eq!(ended["outcome"]["status"], "ok", "{ended}");
    assert_eq!((call(&app, "a", "c1", 5).await.json()["result"].clone(), count.load(Ordering::SeqCst)), (json!(1), 1));
}

#[tokio::test]
async fn a_refusal_goes_to_the_model_with_its_reason() {
    let (app, count, _) = asking("always".into(), &[200]).await;
    let id = approval_of(&call(&app, "a", "c1", 5).await.json());
    app.post(&format!("/v1/approvals/{id}/deny"), json!({ "reason": "he was paid on Monday" })).await;
    let outcome = call(&app, "a", "c1", 5).await.json();
    assert_eq!(outcome["status"], "denied");
    assert_eq!(outcome["result"]["error"], "a person refused this call: he was paid on Monday");
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn of_two_people_one_decides_and_the_other_is_told() {
    let (app, count, _) = asking("always".into(), &[200]).await;
    let app = Arc::new(app);
    let id = approval_of(&call(&app, "a", "c1", 5).await.json());
    let mut people = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (app, id) = (Arc::clone(&app), id.clone());
        let word = if n % 2 == 0 { "approve" } else { "deny" };
        people.spawn(async move { app.post(&format!("/v1/approvals/{id}/{word}"), json!({})).await });
    }
    let answers = people.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.status.is_success()).count(), 1);
    for late in answers.iter().filter(|answer| !answer.status.is_success()) {
        assert_eq!((late.status, late.code().as_str()), (StatusCode::CONFLICT, "approval.decided"), "{}", late.text);
        assert!(late.text.contains("root was first"), "{}", late.text);
    }
    let ended = app.get(&format!("/v1/approvals/{id}?wait=10s")).await.json();
    let performed = usize::from(ended["state"] == "approved");
    assert_eq!(count.load(Ordering::SeqCst), performed, "{ended}");
}

#[tokio::test]
async fn once_is_once_for_the_same_arguments_in_a_session() {
    let (app, count, _) = asking("once".into(), &[200]).await;
    let id = approval_of(&call(&app, "a", "c1", 5).await.json());
    app.post(&format!("/v1/approvals/{id}/approve"), json!({})).await;
    app.get(&format!("/v1/approvals/{id}?wait=10s")).await;
    assert_eq!(call(&app, "a", "c2", 5).await.json()["status"], "ok", "the same again needs no approval");
    approval_of(&call(&app, "a", "c3", 6).await.json());
    let body = json!({ "tool": "refund", "arguments": { "amount": 5 }, "ctx": { "chat_id": "chat-2" } });
    approval_of(&app.post("/v1/agents/a/calls", body).await.json());
    assert_eq!(count.load(Ordering::SeqCst), 2);
    // A yes is to what was shown: an edited tool asks anew.
    let mut edited = app.get("/v1/tools/refund").await.json()["definition"].clone();
    edited["description"] = "Pays to somebody else".into();
    app.tool(edited).await;
    approval_of(&call(&app, "a", "c4", 5).await.json());
}

#[tokio::test]
async fn a_rule_asks_lets_go_or_refuses() {
    let rule = "args.amount > 100.0 ? {'denied': 'more than 100 is never paid'} : args.amount > 10.0";
    let (app, count, _) = asking(json!({ "when": rule }), &[200]).await;
    assert_eq!(call(&app, "a", "c1", 5).await.json()["status"], "ok");
    approval_of(&call(&app, "a", "c2", 50).await.json());
    let refused = call(&app, "a", "c3", 500).await.json();
    assert_eq!((refused["status"].as_str(), refused["code"].as_str()), (Some("denied"), Some("call.denied_by_rule")));
    assert!(refused["result"]["error"].as_str().unwrap().contains("more than 100 is never paid"));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_agent_may_need_more_approvals_than_the_tool_asks_for() {
    let (app, count, _) = asking("never".into(), &[200]).await;
    app.agent("careful", json!({ "approvals_required": ["refund", "read_clock"] })).await;
    assert_eq!(call(&app, "a", "c1", 5).await.json()["status"], "ok");
    approval_of(&call(&app, "careful", "c2", 6).await.json());
    // A code tool that changes nothing waits too, and runs when it is approved. The others of its batch do not wait.
    let calls = json!({ "calls": [{ "tool": "read_clock", "arguments": { "plus": 1 } }, { "tool": "no_such" }] });
    let batch = app.post("/v1/agents/careful/calls", calls).await.json();
    let id = approval_of(&batch["outcomes"][0]);
    assert_eq!(batch["outcomes"][1]["status"], "error");
    app.post(&format!("/v1/approvals/{id}/approve"), json!({})).await;
    let ended = app.get(&format!("/v1/approvals/{id}?wait=10s")).await.json();
    assert_eq!(ended["outcome"]["result"]["minutes"], 601, "{ended}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

/// Parks a call, changes something, approves it, and returns why it was not made.
async fn approved_after(app: &App, change: impl AsyncFnOnce(&App)) -> String {
    let id = approval_of(&call(app, "a", "c1", 5).await.json());
    change(app).await;
    assert_eq!(app.post(&format!("/v1/approvals/{id}/approve"), json!({})).await.status, StatusCode::OK);
    let ended = app.get(&format!("/v1/approvals/{id}?wait=10s")).await.json();
    assert_eq!(
        (ended["outcome"]["status"].as_str(), ended["outcome"]["code"].as_str()),
        (Some("error"), Some("call.not_made"))
    );
    ended["outcome"]["result"]["error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_changed_meanwhile_does_not_run_as_something_else() {
    let other = async |app: &App, sql: &str| {
        let file = format!("sqlite://{}", app.folder.path().join("test.db").display());
        let mut other = sqlx::SqliteConnection::connect(&file).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut other).await.unwrap();
    };
    let (app, count, base) = asking("always".into(), &[200]).await;
    let edited = approved_after(&app, async |app| {
        let mut tool = refund(&base);
        tool["description"] = "Pays twice".into();
        tool["approval"] = "always".into();
        app.tool(tool).await;
    });
    assert!(edited.await.contains("was changed after the call was proposed"));
    assert_eq!(count.load(Ordering::SeqCst), 0);

    let (app, count, _) = asking("always".into(), &[200]).await;
    let deleted = approved_after(&app, async |app| {
        app.as_admin(http::Method::DELETE, "/v1/tools/refund", axum::body::Body::empty()).await;
    });
    assert!(deleted.await.contains("was deleted"));
    assert_eq!(count.load(Ordering::SeqCst), 0);

    let (app, count, _) = asking("always".into(), &[200]).await;
    let lost = approved_after(&app, async |app| app.agent("a", json!({ "tools_allow": [] })).await);
    assert!(lost.await.contains("may no longer use"));
    assert_eq!(count.load(Ordering::SeqCst), 0);

    let (app, count, _) = asking("always".into(), &[200]).await;
    let tampered = approved_after(&app, async |app| {
        other(app, "UPDATE ledger SET arguments = '{\"amount\": 5000}'").await;
    });
    assert!(tampered.await.contains("something else than what was proposed"));
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_time_that_is_over_is_no_refusal() {
    let (app, count, _) = asking("always".into(), &[200]).await;
    let id = approval_of(&call(&app, "a", "c1", 5).await.json());
    let file = format!("sqlite://{}", app.folder.path().join("test.db").display());
    let mut other = sqlx::SqliteConnection::connect(&file).await.unwrap();
    sqlx::query("UPDATE approvals SET expires_at = 1").execute(&mut other).await.unwrap();
    let late = app.post(&format!("/v1/approvals/{id}/approve"), json!({})).await;
    assert_eq!((late.status, late.code().as_str()), (StatusCode::CONFLICT, "approval.expired"));
    let ended = app.get(&format!("/v1/approvals/{id}?wait=10s")).await.json();
    assert_eq!((ended["state"].as_str(), ended["outcome"]["code"].as_str()), (Some("expired"), Some("call.expired")));
    assert!(ended["outcome"]["result"]["error"].as_str().unwrap().contains("that is no refusal"));
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_call_that_waits_can_be_taken_back() {
    let (app, count, _) = asking("always".into(), &[200]).await;
    let waiting = call(&app, "a", "c1", 5).await.json();
    let cancel = format!("/v1/calls/{}/cancel", waiting["ledger_id"].as_str().unwrap());
    assert_eq!(app.post(&cancel, json!({ "reason": "changed my mind" })).await.json()["state"], "cancelled");
    let late = app.post(&format!("/v1/approvals/{}/approve", approval_of(&waiting)), json!({})).await;
    assert_eq!((late.status, late.code().as_str()), (StatusCode::CONFLICT, "approval.decided"));
    assert_eq!(app.post(&cancel, json!({})).await.code(), "call.state");
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_operator_answers_a_question() {
    let app = App::with_bank().await;
    app.agent("a", json!({})).await;
    app.agent("curious", json!({ "tools_allow": ["ask_question"] })).await;
    let arguments = json!({ "question": "How many boxes are left?", "answer_type": "number" });
    let ask = async |agent: &str, arguments: &Value| {
        let body = json!({ "tool": "ask_question", "arguments": arguments });
        app.post(&format!("/v1/agents/{agent}/calls"), body).await.json()
    };
    assert_eq!(ask("a", &arguments).await["status"], "denied", "only who names it may use it");
    let id = approval_of(&ask("curious", &arguments).await);
    let shown = app.get(&format!("/v1/approvals/{id}")).await.json();
    assert_eq!((shown["kind"].as_str(), shown["why"].as_str()), (Some("question"), Some("How many boxes are left?")));
    let path = format!("/v1/approvals/{id}");
    assert_eq!(app.post(&format!("{path}/approve"), json!({})).await.code(), "approval.kind");
    let unfit = app.post(&format!("{path}/answer"), json!({ "answer": "many" })).await;
    assert_eq!((unfit.status, unfit.code().as_str()), (StatusCode::UNPROCESSABLE_ENTITY, "approval.answer"));
    let answered = app.post(&format!("{path}/answer"), json!({ "answer": 7 })).await.json();
    assert_eq!(
        (answered["state"].as_str(), &answered["outcome"]["result"]),
        (Some("answered"), &json!({ "answer": 7 }))
    );

    let choices = json!({ "question": "Which one?", "choices": ["red", "blue"] });
    let id = approval_of(&ask("curious", &choices).await);
    assert_eq!(
        app.post(&format!("/v1/approvals/{id}/answer"), json!({ "answer": "green" })).await.code(),
        "approval.answer"
    );
    let denied = app.post(&format!("/v1/approvals/{id}/deny"), json!({ "reason": "ask the shop" })).await.json();
    assert_eq!(denied["outcome"]["result"]["error"], "a person refused this call: ask the shop");
}

/// One `tools/call` of the current era, by a client that declares elicitation.
async fn over_mcp(app: &App, agent: &str, more: Value) -> Value {
    let version = "2026-07-28";
    let mut params = json!({ "name": "refund", "arguments": { "amount": 5 } });
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
    });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let mut request =
        app.request(http::Method::POST, &format!("/v1/agents/{agent}/mcp"), Some(&app.admin), message.to_string());
    for (name, value) in [
        ("accept", "application/json"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", version),
        ("mcp-method", "tools/call"),
        ("mcp-name", "refund"),
        ("toolcrib-ctx-chat-id", "chat-1"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    app.send(request).await.json()["result"].clone()
}

#[tokio::test]
async fn an_mcp_client_is_asked_where_its_agent_says_so() {
    let (app, count, _) = asking("always".into(), &[200]).await;
    let waiting = over_mcp(&app, "a", json!({})).await;
    assert_eq!((&waiting["resultType"], &waiting["_meta"]["toolcrib/status"]), (&json!("complete"), &json!("waiting")));
    assert!(waiting["_meta"]["toolcrib/approval_id"].is_string(), "{waiting}");

    app.agent("mine", json!({ "approvals_by_client": true })).await;
    let asked = over_mcp(&app, "mine", json!({})).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["toolcrib_approval"];
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("/refunds"), "{question}");
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let answer = |content: Value| {
        let state = asked["requestState"].clone();
        let given = json!({ "toolcrib_approval": { "action": "accept", "content": content } });
        json!({ "requestState": state, "inputResponses": given })
    };
    // An answer that says nothing leaves it open; no answer names another approval.
    let again = over_mcp(&app, "mine", answer(json!({ "toolcrib/approval": "other" }))).await;
    assert_eq!(again["_meta"]["toolcrib/status"], "waiting", "{again}");
    let done = over_mcp(&app, "mine", answer(json!({ "approve": true }))).await;
    assert_eq!((&done["_meta"]["toolcrib/status"], count.load(Ordering::SeqCst)), (&json!("ok"), 1), "{done}");
    // The same answer again is the same call.
    let repeated = over_mcp(&app, "mine", answer(json!({ "approve": true }))).await;
    assert_eq!((&repeated["_meta"]["toolcrib/status"], count.load(Ordering::SeqCst)), (&json!("ok"), 1), "{repeated}");
    let list = app.get("/v1/approvals").await.json();
    let decided = list["approvals"].as_array().unwrap().iter().find(|a| a["agent"] == "mine").unwrap().clone();
    assert_eq!(decided["decided_by"], "root (asked by its client)");

    let asked = over_mcp(&app, "mine", json!({ "arguments": { "amount": 6 } })).await;
    let declined = json!({
        "arguments": { "amount": 6 }, "requestState": asked["requestState"],
        "inputResponses": { "toolcrib_approval": { "action": "decline" } },
    });
    let refused = over_mcp(&app, "mine", declined).await;
    assert_eq!(
        (&refused["_meta"]["toolcrib/status"], count.load(Ordering::SeqCst)),
        (&json!("denied"), 1),
        "{refused}"
    );
}

#[tokio::test]
async fn a_call_over_mcp_may_have_a_key_of_its_own() {
    let (app, count, _) = asking("never".into(), &[200]).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}, "toolcrib/call_id": "m-1",
    });
    for _ in 0..2 {
        let done = over_mcp(&app, "a", json!({ "_meta": meta })).await;
        assert_eq!(done["_meta"]["toolcrib/status"], "ok", "{done}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 1, "the same key is the same call");
}
