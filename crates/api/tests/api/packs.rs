//! Packs and skills over HTTP.

use serde_json::{Value, json};

use crate::app::App;

fn pack(tools: &[&str], skills: &[&str]) -> Value {
    let tool = |name: &&str| json!({"name": name, "description": "d", "request": {"url": "https://api.example.com"}});
    let skill =
        |name: &&str| json!({"name": name, "document": format!("---\nname: {name}\ndescription: d\n---\ntext")});
    json!({
        "agent": {"description": "Answers", "tools_allow": [], "skills": []},
        "tools": tools.iter().map(tool).collect::<Vec<_>>(),
        "skills": skills.iter().map(skill).collect::<Vec<_>>(),
    })
}

fn results(answer: &Value) -> Vec<String> {
    let line = |change: &Value| {
        let text = |key: &str| change[key].as_str().unwrap().to_owned();
        format!("{} {} {}", text("part"), text("name"), text("result"))
    };
    answer["changes"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn a_pack_is_tried_written_and_authoritative() {
    let app = App::new().await;
    let tried = app.put("/v1/agents/clerk?dry_run=true", pack(&["a"], &["s"])).await.json();
    assert_eq!(results(&tried), ["agent clerk created", "tool a created", "skill s created"]);
    assert_eq!(app.get("/v1/agents/clerk").await.status, 404, "nothing was written");
    assert_eq!(app.put("/v1/agents/clerk", pack(&["a", "b"], &["s", "t"])).await.status, 201);
    let again = app.put("/v1/agents/clerk", pack(&["a", "b"], &["s", "t"])).await;
    assert!(results(&again.json()).iter().all(|line| line.ends_with("unchanged")), "{}", again.text);

    let less = app.put("/v1/agents/clerk", pack(&["a"], &["t"])).await.json();
    assert_eq!(results(&less), ["agent clerk updated", "tool a unchanged", "skill s deleted", "skill t unchanged"]);
    let profile = app.get("/v1/agents/clerk").await.json()["profile"].clone();
    assert_eq!((&profile["tools_allow"], &profile["skills"]), (&json!(["a"]), &json!(["t"])));
    assert_eq!(app.get("/v1/tools/b").await.status, 200, "the tool itself stays: others may use it");
    assert_eq!(app.call("clerk", "b", json!({})).await["status"], "denied");

    let wrong = json!({"agent": {"modle": 1}, "tools": [{"name": "X"}], "skills": [{"name": "s", "document": "x"}]});
    let refused = app.put("/v1/agents/clerk", wrong).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (422, "pack.invalid"));
    let pointers = refused.json()["problems"].to_string();
    for pointer in ["/agent/modle", "/tools/0/name", "/skills/0"] {
        assert!(pointers.contains(pointer), "{pointer}: {pointers}");
    }
    let shadows = app.put("/v1/agents/clerk", pack(&["load_skill"], &[])).await;
    assert_eq!((shadows.status.as_u16(), shadows.code().as_str()), (409, "tool.shadows_code"));
}

#[tokio::test]
async fn skills_are_written_read_and_deleted() {
    let app = App::new().await;
    let document =
        "---\nname: refunds\ndescription: How to refund\ntriggers: [money back]\neager: true\n---\nAsk first.\n";
    let written = app.put("/v1/skills/refunds", json!({"document": document})).await;
    assert_eq!(written.status, 201);
    assert!(written.json()["notes"][0].as_str().unwrap().contains("skills_eager"));
    assert_eq!(app.get("/v1/skills/refunds").await.json()["document"], document);
    assert_eq!(app.get("/v1/skills").await.json()["skills"][0]["triggers"], json!(["money back"]));
    assert_eq!(app.get("/v1/skills/refunds/versions").await.json()["versions"].as_array().unwrap().len(), 1);
    let refused = app.put("/v1/skills/other", json!({"document": document})).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (422, "skill.invalid"));
    assert_eq!(app.put("/v1/skills/refunds?agent=nobody", json!({"document": document})).await.status, 404);
    app.agent("clerk", json!({})).await;
    assert_eq!(app.put("/v1/skills/refunds?agent=clerk", json!({"document": document})).await.status, 201);
    assert_eq!(app.get("/v1/skills?agent=clerk").await.json()["skills"][0]["agent"], "clerk");
    let gone = app.as_admin(http::Method::DELETE, "/v1/skills/refunds", "").await;
    assert_eq!(gone.status, 204);
    assert_eq!(app.get("/v1/skills/refunds").await.code(), "http.not_found");
    assert_eq!(app.get("/v1/skills/refunds?agent=clerk").await.status, 200);
}
