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
    app.upstream.set("charge", crate::upstream::Answer::default());
    let tool = json!({
        "name": "charge", "description": "d", "parameters": [{"name": "n", "description": "n"}], "approval": approval,
        "request": {"method": "POST", "url": format!("http://{}/charge", app.upstream.address), "body": {"n": "{{n}}"}},
    });
    let document = json!({"agent": {"provider": "main", "model": "script"}, "tools": [tool]});
    let pack = Pack::from_json(&"clerk".parse().unwrap(), &document).unwrap();
    let registry = app.executor.registry();
    pack.apply(registry, &app.skills, Expect::Anything, "t", false).await.unwrap();
    registry.snapshot().agent("clerk").unwrap().clone()
}

/// A turn that waits for a person, who then says yes.
async fn parked_and_approved(app: &App, agent: &Arc<Agent>, session: &str) -> TurnHandle {
    let mut turn = app.engine.begin("clerk", agent, says("go", session)).await.unwrap();
    while !matches!(*turn.next().await.unwrap().unwrap(), TurnEvent::Parked { .. }) {}
    let approval = app.store.approvals_of_turn(turn.id()).await.unwrap().remove(0);
    app.executor.decide(&approval, toolcrib_executor::Say::Approve, "ann", None).await.unwrap();
    turn
}

/// What providers cache is what they have seen before: each prompt begins with the bytes of the one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_prompt_begins_with_the_bytes_of_the_one_before() {
    for format in ["openai", "anthropic"] {
        let turns = json!([
            {"when": "second", "steps": [{"calls": [{"tool": "load_skill", "arguments": {"name": "tone"}}]}, {"text": "yes"}]},
            {"steps": [{"text": "hello"}]},
        ]);
        let app = App::start(script(turns), format).await;
        for (name, trigger) in [("refunds", "refund"), ("tone", "never said"), ("other", "third")] {
            let text = format!("---\nname: {name}\ndescription: d\ntriggers: [{trigger}]\n---\nThe text of {name}.");
            let skill = toolcrib_skills::Skill::from_markdown(name, &text).unwrap();
            app.skills.put("", &skill, Expect::Anything, "t").await.unwrap();
        }
        let agent = agent(json!({}));
        for text in ["a refund", "second", "third", "fourth"] {
            let mut turn = app.engine.begin("clerk", &agent, says(text, "s")).await.unwrap();
            assert_eq!(turn.outcome().await.unwrap().status, TurnStatus::Completed);
        }
        let requests = app.model.requests();
        assert_eq!(requests.len(), 5);
        let seen = |body: &Value| {
            // What marks the end of what is cached moves on with the conversation.
            let text = body["messages"].to_string().replace(r#","cache_control":{"type":"ephemeral"}"#, "");
            (body["system"].to_string(), body["tools"].to_string(), text)
        };
        for pair in requests.windows(2) {
            let ((system, tools, before), (later_system, later_tools, later)) =
                (seen(&pair[0].body), seen(&pair[1].body));
            assert_eq!((system, tools), (later_system, later_tools));
            assert!(later.starts_with(before.trim_end_matches(']')), "{before}\n{later}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_message_of_a_session_queues_and_another_session_does_not() {
    let slow = Turn {
        when: "slow".into(),
        steps: vec![Step { text: "first".into(), delay_ms: 400, ..Step::default() }],
        endless: false,
    };
    let quick =
        Turn { when: String::new(), steps: vec![Step { text: "second".into(), ..Step::default() }], endless: false };
    let app = App::start(Script { turns: vec![slow, quick] }, "openai").await;
    let agent = agent(json!({}));
    let mut first = app.engine.begin("clerk", &agent, says("slow", "s")).await.unwrap();
    let mut second = app.engine.begin("clerk", &agent, says("quick", "s")).await.unwrap();
    let mut other = app.engine.begin("clerk", &agent, says("quick", "t")).await.unwrap();
    assert_eq!(*second.next().await.unwrap().unwrap(), TurnEvent::Queued);
    assert_eq!(other.outcome().await.unwrap().text.as_deref(), Some("second"));
    assert_eq!(app.store.turn(second.id()).await.unwrap().unwrap().state, TurnState::Queued);
    assert_eq!(first.outcome().await.unwrap().text.as_deref(), Some("first"));
    assert_eq!(second.outcome().await.unwrap().text.as_deref(), Some("second"));
    let last = app.model.requests().pop().unwrap();
    assert_eq!(last.body["messages"].as_array().unwrap().len(), 4, "it reads the first: {}", last.body);

    let mut late = app.engine.follow(first.id()).await.unwrap().unwrap();
    assert_eq!(late.outcome().await.unwrap().text.as_deref(), Some("first"), "who comes late is told the end");
    assert!(app.engine.follow("no such turn").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_in_flight_keeps_the_agent_it_began_with() {
    let turns = json!([{"steps": [{"calls": [{"tool": "a"}], "delay_ms": 300}, {"text": "done"}]}]);
    let app = App::start(script(turns), "openai").await;
    app.upstream.set("a", crate::upstream::Answer::default());
    let tool =
        json!({"name": "a", "description": "d", "request": {"url": format!("http://{}/a", app.upstream.address)}});
    let pack = |tools: Value| {
        let document = json!({"agent": {"provider": "main", "model": "script", "tools_allow": []}, "tools": tools});
        Pack::from_json(&"clerk".parse().unwrap(), &document).unwrap()
    };
    let registry = app.executor.registry();
    let with = pack(json!([tool]));
    with.apply(registry, &app.skills, Expect::Anything, "t", false).await.unwrap();
    let began = registry.snapshot().agent("clerk").unwrap().clone();
    let mut turn = app.engine.begin("clerk", &began, says("go", "s")).await.unwrap();
    while !matches!(&*turn.next().await.unwrap().unwrap(), TurnEvent::Started { .. }) {}
    // The tool leaves the pack, and so the agent.
    pack(json!([])).apply(registry, &app.skills, Expect::Anything, "t", false).await.unwrap();
    let now = registry.snapshot().agent("clerk").unwrap().clone();
    assert_eq!(now.tools_allow(), Some(&[][..]));
    assert_eq!(turn.outcome().await.unwrap().text.as_deref(), Some("done"));
    assert_eq!(app.upstream.calls(), ["GET /a"]);
    let mut next = app.engine.begin("clerk", &now, says("go", "t")).await.unwrap();
    next.outcome().await.unwrap();
    assert_eq!(app.upstream.calls().len(), 1, "the next turn has it no more");
}

#[test]
fn a_pack_is_checked_whole() {
    let id = "clerk".parse().unwrap();
    let document = json!({
        "agent": {"modle": "x", "limits": {"turn_timeout": 0}},
        "tools": [{"name": "A"}, {"name": "a", "description": "d", "request": {"url": "https://x.example"}},
                  {"name": "a", "description": "d", "request": {"url": "https://x.example"}}],
        "skills": [{"name": "s", "document": "no frontmatter"}, 7],
        "extra": 1,
    });
    let problems = Pack::from_json(&id, &document).unwrap_err().to_string();
    for expected in [
        "/agent/modle",
        "/agent/limits/turn_timeout",
        "/tools/0/name",
        "a stands twice",
        "/skills/0",
        "/skills/1",
        "/extra",
    ] {
        assert!(problems.contains(expected), "{expected}: {problems}");
    }
    let builder = Agent::builder("clerk")
        .instructions("You are a clerk.")
        .model("main", "script")
        .allow_tools(["other"])
        .data_tool(json!({"name": "a", "description": "d", "request": {"url": "https://x.example"}}))
        .skill("refunds", "---\ndescription: d\n---\ntext")
        .set("skills", json!([]));
    let pack = Pack::from_builder(&builder).unwrap();
    assert_eq!(pack.agent().tools_allow().unwrap(), ["other", "a"]);
    assert_eq!(pack.agent().skills().unwrap(), ["refunds"]);
    let open = Pack::from_builder(&Agent::builder("clerk").skill("refunds", "---\ndescription: d\n---\ntext")).unwrap();
    assert_eq!(open.agent().skills(), None, "a list that allows all goes on allowing all");
    assert_eq!(open.agent().tools_allow(), Some(&[][..]), "who brings no tool and names none has none");
    let tool = json!({"name": "a", "description": "d", "request": {"url": "https://x.example"}});
    let named = Pack::from_builder(&Agent::builder("clerk").data_tool(tool)).unwrap();
    assert_eq!(named.agent().tools_allow().unwrap(), ["a"], "what leaves the pack later has to leave the agent");
}

/// A process that is gone leaves a row; whoever comes next goes on from what is written there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_was_left_is_taken_up_where_it_was() {
    let turns = json!([{"steps": [
        {"calls": [{"tool": "charge", "arguments": {"n": "1"}}, {"tool": "charge", "arguments": {"n": "2"}}]}, {"text": "done"},
    ]}]);
    let app = App::start(script(turns), "openai").await;
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

/// The row of a new session's turn is written while the model is asked: what can't be written is told, and does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_session_that_cannot_be_written_does_nothing() {
    let turns = json!([{"steps": [{"calls": [{"tool": "charge", "arguments": {"n": "1"}}]}, {"text": "done"}]}]);
    let app = App::start(script(turns), "openai").await;
    let agent = charging(&app, "never").await;
    let mut events = app.executor.events().subscribe();
    let new_session = |text: &str| NewMessage { text: text.to_owned(), ..NewMessage::default() };
    app.store.limit_pages(1).await.unwrap();
    let refused = app.engine.begin("clerk", &agent, new_session(&"x".repeat(1 << 16))).await;
    assert_eq!(refused.err().unwrap().code(), "store.full");
    // Until the model was asked in vain, and its answer was left.
    tokio::time::timeout(std::time::Duration::from_secs(10), async {
        while app.model.requests().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    assert!(app.engine.drain(std::time::Duration::from_secs(10)).await);
    assert_eq!(app.upstream.calls().len(), 0, "what the model asked for is not done");
    assert!(events.try_recv().is_err(), "nobody is told of a turn that is not");
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
