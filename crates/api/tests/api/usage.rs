//! What is counted of calls, and who may use what and why.

use serde_json::{Value, json};
use toolcrib_egress::Policy;

use crate::app::{App, get_tool, upstream};

#[tokio::test]
async fn calls_are_counted_by_hour_and_by_tool() {
    let app = App::with_policy(Policy { allow_http: true, allow_private: true, ..Policy::default() }).await;
    let base = upstream(axum::Router::new().fallback(async || "{}")).await;
    app.tool(get_tool("good", &base)).await;
    app.tool(get_tool("bad", "http://169.254.169.254")).await;
    app.tool(get_tool("unused", &base)).await;
    app.agent("clerk", json!({ "tools_allow": ["good", "bad"] })).await;
    for tool in ["good", "good", "bad"] {
        app.call("clerk", tool, json!({ "id": "1" })).await;
    }
    let hours = app.get("/v1/activity?hours=2").await.json()["hours"].clone();
    // The hour may end between the calls and the count.
    let sum = |key: &str| hours.as_array().unwrap().iter().map(|hour| hour[key].as_i64().unwrap()).sum::<i64>();
    assert_eq!((hours.as_array().unwrap().len(), sum("calls"), sum("errors"), sum("blocked")), (2, 3, 1, 1));
    assert_eq!(app.get("/v1/activity?hours=0").await.status, 400);

    let tools = app.get("/v1/tools?usage=true").await.json()["tools"].clone();
    let usage =
        |name: &str| tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap()["usage"].clone();
    assert!(usage("good")["last_call"].is_i64());
    let counted = |name: &str| ["calls", "errors", "agents"].map(|key| usage(name)[key].as_i64().unwrap());
    assert_eq!((counted("good"), counted("bad"), counted("unused")), ([2, 0, 1], [1, 1, 1], [0, 0, 0]));
    assert_eq!(usage("unused")["last_call"], Value::Null);
}

#[tokio::test]
async fn tools_are_listed_in_an_order_page_by_page() {
    let app = App::new().await;
    for (name, group) in [("a", "z"), ("b", "y"), ("c", "y"), ("d", "x")] {
        let mut tool = get_tool(name, "https://api.example.com");
        tool["group"] = group.into();
        tool["tags"] = json!(["mine"]);
        app.tool(tool).await;
    }
    let names = async |path: String| {
        let answer = app.get(&format!("{path}&tag=mine")).await.json();
        let names = answer["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>(), answer["next"].as_str().map(str::to_owned))
    };
    let (first, next) = names("/v1/tools?sort=group&limit=3".to_owned()).await;
    assert_eq!((first.as_slice(), next.as_deref()), (["d", "b", "c"].map(str::to_owned).as_slice(), Some("3")));
    let (second, _) = names(format!("/v1/tools?sort=group&limit=3&after={}", next.unwrap())).await;
    assert_eq!(second[0], "a");
    assert_eq!(app.get("/v1/tools?sort=colour").await.status, 400);
    assert_eq!(names("/v1/tools?sort=group&after=1000".to_owned()).await, (Vec::new(), None));
}

#[tokio::test]
async fn who_may_use_a_tool_is_said_with_why() {
    let app = App::new().await;
    for (name, group) in [("named", ""), ("grouped", "orders"), ("denied", "orders"), ("other", "")] {
        let mut tool = get_tool(name, "https://api.example.com");
        if !group.is_empty() {
            tool["group"] = group.into();
        }
        app.tool(tool).await;
    }
    let profile = json!({
        "tools_allow": ["named"], "tools_allow_groups": ["orders"], "tools_deny": ["denied"], "tools_deferred": ["grouped"],
    });
    app.agent("clerk", profile).await;
    app.agent("open", json!({})).await;
    let of = async |path: &str| {
        let answer = app.get(path).await.json();
        let line = |tool: &Value| {
            let (name, why) = (tool["name"].as_str().unwrap(), tool["why"].as_str().unwrap());
            format!("{name} {} {} {why}", tool["may"], tool["deferred"])
        };
        answer["tools"].as_array().unwrap().iter().map(line).collect::<Vec<_>>()
    };
    let lines = of("/v1/agents/clerk/reach").await;
    for expected in [
        "named true false tools_allow names it",
        "grouped true true tools_allow_groups names its group orders",
        "denied false false tools_deny names it",
        "other false false neither tools_allow nor tools_allow_groups names it",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected} is not among {lines:?}");
    }
    let used = of("/v1/agents/clerk/reach?may=true").await;
    assert_eq!(used.len(), 2);
    let found = of("/v1/agents/open/reach?q=denied").await;
    assert_eq!(found[0], "denied true false the agent has no lists, and so every tool");
    assert_eq!(app.get("/v1/agents/nobody/reach").await.status, 404);
}
