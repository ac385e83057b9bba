//! What doctor finds of things that no longer fit together, and what it leaves alone.

use serde_json::{Value, json};

use crate::app::{App, get_tool};

fn skill(name: &str, more: &str, body: &str) -> Value {
    json!({"document": format!("---\nname: {name}\ndescription: d\n{more}---\n{body}\n")})
}

/// The findings as `code subject`, those of these codes.
async fn findings(app: &App, prefixes: &[&str]) -> Vec<String> {
    let report = app.get("/v1/doctor").await.json();
    let line =
        |finding: &Value| format!("{} {}", finding["code"].as_str().unwrap(), finding["subject"].as_str().unwrap());
    let all = report["findings"].as_array().unwrap().iter().map(line);
    all.filter(|line| prefixes.iter().any(|prefix| line.starts_with(prefix))).collect()
}

const ALL: &[&str] = &["agent.", "skill.", "tool.unreachable", "provider."];

#[tokio::test]
async fn what_fits_together_is_left_alone() {
    let app = App::with_model(json!([{"steps": [{"text": "hi"}]}])).await;
    app.tool(get_tool("find_order", "https://api.example.com")).await;
    app.tool(get_tool("order", "https://api.example.com")).await;
    app.put(
        "/v1/skills/refunds",
        skill(
            "refunds",
            "companions: [tone-of-voice]\n",
            "Use `find_order` and tone-of-voice. Refunds are an order of the day.",
        ),
    )
    .await;
    app.put("/v1/skills/tone-of-voice", skill("tone-of-voice", "", "Short sentences. Ask clerk-like questions.")).await;
    app.put("/v1/skills/tone", skill("tone", "", "The tone of refunds.")).await;
    app.agent(
        "clerk",
        json!({
            "provider": "main", "model": "script",
            "instructions": "Call find_order before you answer about an order. Follow `refunds` in a friendly tone.",
            "skills": ["refunds", "tone-of-voice"], "skills_eager": ["refunds"], "tools_allow": ["find_order", "order"],
        }),
    )
    .await;
    assert_eq!(findings(&app, ALL).await, [""; 0]);
}

#[tokio::test]
async fn what_drifted_is_said() {
    let app = App::with_model(json!([])).await;
    for name in ["find_order", "refund_order", "nobodys"] {
        app.tool(get_tool(name, "https://api.example.com")).await;
    }
    app.put(
        "/v1/skills/refunds",
        skill("refunds", "eager: true\ncompanions: [tone, gone]\n", "See `shipping`. The agent `clerk` has it."),
    )
    .await;
    app.put("/v1/skills/shipping", skill("shipping", "", "x")).await;
    app.put("/v1/skills/tone", skill("tone", "", "x")).await;
    app.agent(
        "clerk",
        json!({
            "provider": "nowhere", "model": "m",
            "instructions": "Use refund_order, and `shipping` too.",
            "skills": ["refunds", "missing"], "skills_eager": ["tone", "missing"], "tools_allow": ["find_order"],
        }),
    )
    .await;
    app.agent("seller", json!({"tools_allow": ["refund_order"], "skills": []})).await;
    let mut found = findings(&app, ALL).await;
    found.sort();
    assert_eq!(
        found,
        [
            "agent.companion clerk",
            "agent.companion clerk",
            "agent.prompt_names_skill clerk",
            "agent.prompt_names_tool clerk",
            "agent.provider clerk",
            "agent.skills clerk",
            "agent.skills_eager clerk",
            "agent.skills_eager clerk",
            "skill.companion refunds",
            "skill.eager refunds",
            "skill.names_agent refunds",
            "skill.names_skill refunds",
            "tool.unreachable nobodys",
        ]
    );
    let severe = app.get("/v1/doctor").await.json()["findings"].clone();
    let severe = severe.as_array().unwrap().iter().filter(|finding| finding["severity"] == "error");
    let severe: Vec<_> = severe.map(|finding| finding["code"].as_str().unwrap()).collect();
    assert_eq!(severe, ["agent.provider"], "an agent that can't answer is broken; the rest are warnings");
}

#[tokio::test]
async fn a_provider_that_fails_is_said() {
    let fault = json!({"status": {"code": 500, "retry_after": null}});
    let faults: Vec<Value> = std::iter::repeat_n(fault, 4).collect();
    let app = App::with_model(json!([{"steps": [{"text": "never", "faults": faults}]}])).await;
    app.agent("clerk", json!({"provider": "main", "model": "script"})).await;
    assert_eq!(findings(&app, &["provider."]).await, [""; 0]);
    let turn = app.post("/v1/agents/clerk/turns", json!({"message": "hello"})).await.json();
    assert_eq!(turn["outcome"]["status"], "failed", "{turn}");
    assert_eq!(findings(&app, &["provider."]).await, ["provider.failing main"]);
}
