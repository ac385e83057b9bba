//! Bad input: a clear error with its own code, and nothing lost.

use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{App, get_tool};

#[tokio::test]
async fn bodies_that_are_none() {
    let app = App::new().await;
    app.agent("a", json!({})).await;
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let huge = format!("{{\"a\": \"{}\"}}", "x".repeat(5 << 20));
    let cases: &[(&[u8], &str)] = &[
        (b"", "json.syntax"),
        (b"{", "json.syntax"),
        (b"{\"tool\": \"x\",}", "json.syntax"),
        (b"[1, 2", "json.syntax"),
        (b"{\"tool\": \"\xff\"}", "json.not_utf8"),
        (b"{\"tool\": \"x\", \"tool\": \"y\"}", "json.duplicate_key"),
        (deep.as_bytes(), "json.too_deep"),
        (huge.as_bytes(), "http.body_too_large"),
        (b"[]", "http.request"),
        (b"{\"tool\": 1}", "http.request"),
        (b"{\"arguments\": {}}", "http.request"),
        (b"{\"tool\": \"x\", \"argument\": {}}", "http.request"),
        (b"{\"tool\": \"x\", \"ctx\": {\"user\": \"1\"}}", "ctx.invalid"),
        (b"{\"tool\": \"x\", \"ctx\": []}", "ctx.invalid"),
        (b"{\"tool\": \"x\", \"call_id\": \"a b\"}", "http.request"),
        (b"{\"calls\": []}", "http.request"),
        (b"{\"calls\": [{\"tool\": \"x\"}], \"tool\": \"y\"}", "http.request"),
        (
            b"{\"calls\": [{\"tool\": \"x\", \"call_id\": \"1\"}, {\"tool\": \"x\", \"call_id\": \"1\"}]}",
            "http.request",
        ),
    ];
    for (body, code) in cases {
        let answer = app.as_admin(Method::POST, "/v1/agents/a/calls", Body::from(body.to_vec())).await;
        assert_eq!(answer.code(), *code, "{}", answer.text);
        assert!(answer.status.is_client_error());
        assert_eq!(answer.headers["content-type"], "application/problem+json");
    }
}

#[tokio::test]
async fn addresses_and_parameters_that_are_none() {
    let app = App::new().await;
    let check = async |method: Method, path: &str, code: &str| {
        let answer = app.as_admin(method.clone(), path, Body::from("{}")).await;
        assert_eq!(answer.code(), code, "{method} {path}: {}", answer.text);
    };
    check(Method::GET, "/v1/nowhere", "http.no_route").await;
    check(Method::PATCH, "/v1/tools", "http.method").await;
    check(Method::GET, "/v1/tools/nope", "http.not_found").await;
    check(Method::DELETE, "/v1/tools/nope", "http.not_found").await;
    check(Method::GET, "/v1/tools/nope/versions", "http.not_found").await;
    check(Method::GET, "/v1/agents/nope", "http.not_found").await;
    check(Method::GET, "/v1/agents/nope/tools", "http.not_found").await;
    check(Method::POST, "/v1/agents/nope/calls", "http.not_found").await;
    check(Method::GET, "/v1/traces/nope", "http.not_found").await;
    check(Method::DELETE, "/v1/tokens/nope", "http.not_found").await;
    check(Method::GET, "/v1/tools?limit=abc", "http.request").await;
    check(Method::GET, "/v1/tools?limt=1", "http.request").await;
    check(Method::GET, "/v1/tools/%ff", "http.request").await;
    check(Method::POST, "/v1/tools/x/versions/abc/restore", "http.request").await;
    check(Method::PUT, "/v1/agents/a%20b", "http.request").await;
    check(Method::PUT, "/v1/tools/read_clock", "definition.invalid").await;
    app.agent("a", json!({})).await;
    check(Method::GET, "/v1/agents/a/tools?format=carrier-pigeon", "http.request").await;
}

#[tokio::test]
async fn definitions_and_profiles_that_are_none() {
    let app = App::new().await;
    let answer = app.put("/v1/tools/read_clock", get_tool("read_clock", "https://api.example.com")).await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::CONFLICT, "tool.shadows_code"));
    let answer = app.put("/v1/tools/one", get_tool("two", "https://api.example.com")).await;
    assert_eq!(answer.code(), "tool.name_mismatch");
    let answer = app.put("/v1/tools/one", json!({ "descripton": "x", "request": { "url": "ftp://x" } })).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    let codes: Vec<String> =
        answer.json()["problems"].as_array().unwrap().iter().map(|p| p["code"].as_str().unwrap().to_owned()).collect();
    assert_eq!(codes, ["definition.unknown_key", "description.blank", "url.scheme"]);
    let answer = app.put("/v1/agents/a", json!({ "tools_alow": [], "limits": { "tool_timeout": 0 } })).await;
    assert_eq!((answer.code().as_str(), answer.json()["problems"].as_array().unwrap().len()), ("agent.invalid", 2));
    let answer = app.post("/v1/tools/manifest", json!({ "tools": {} })).await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::UNPROCESSABLE_ENTITY, "manifest.invalid"));
    let mut request = app.request(Method::PUT, "/v1/tools/one", Some(&app.admin), "name: one");
    request.headers_mut().insert("content-type", "application/yaml".parse().unwrap());
    assert_eq!(app.send(request).await.code(), "http.media_type");
    assert_eq!(app.get("/v1/tools").await.json()["total"], 1);
}

#[tokio::test]
async fn a_path_that_nests_deeply_stops_nobody() {
    let app = App::new().await;
    let path = format!("$[?{}@.a{}]", "(".repeat(2_000), ")".repeat(2_000));
    let mut tool = get_tool("deep", "https://api.example.com");
    tool["response"] = json!({ "extract": "json_path", "path": path });
    let answer = app.post("/v1/tools/validate", tool).await.json();
    assert_eq!((&answer["valid"], &answer["problems"][0]["code"]), (&Value::Bool(false), &"path.invalid".into()));
}

#[tokio::test]
async fn a_state_that_is_none_is_told_which_there_are() {
    let app = App::new().await;
    for (path, one_that_is) in [("/v1/calls", "in_doubt"), ("/v1/approvals", "open")] {
        let answer = app.get(&format!("{path}?state=lost")).await;
        assert_eq!((answer.status, answer.code().as_str()), (StatusCode::BAD_REQUEST, "http.request"));
        assert!(answer.text.contains(one_that_is), "{}", answer.text);
        assert!(app.get(&format!("{path}?state={one_that_is}")).await.status.is_success());
    }
}
