//! Every address asks for a token, and for the right role.

use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::app::{App, get_tool};

/// Every address that needs a token, and the roles that may use it.
pub const ADDRESSES: &[(&str, &str, &[&str])] = &[
    ("GET", "/v1/tools", &["admin", "operator", "auditor"]),
    ("GET", "/v1/tools/{name}", &["admin", "operator", "auditor"]),
    ("PUT", "/v1/tools/{name}", &["admin", "operator"]),
    ("DELETE", "/v1/tools/{name}", &["admin", "operator"]),
    ("POST", "/v1/tools/manifest", &["admin", "operator"]),
    ("POST", "/v1/tools/validate", &["admin", "operator", "auditor"]),
    ("GET", "/v1/tools/{name}/versions", &["admin", "operator", "auditor"]),
    ("POST", "/v1/tools/{name}/versions/{version}/restore", &["admin", "operator"]),
    ("POST", "/v1/tools/{name}/try", &["admin", "operator"]),
    ("GET", "/v1/agents", &["admin", "operator", "auditor"]),
    ("GET", "/v1/agents/{id}", &["admin", "operator", "auditor"]),
    ("PUT", "/v1/agents/{id}", &["admin", "operator"]),
    ("DELETE", "/v1/agents/{id}", &["admin", "operator"]),
    ("GET", "/v1/agents/{id}/reach", &["admin", "operator", "auditor"]),
    ("GET", "/v1/activity", &["admin", "operator", "auditor"]),
    ("GET", "/v1/agents/{id}/tools", &["admin", "operator", "caller", "auditor"]),
    ("GET", "/v1/skills", &["admin", "operator", "auditor"]),
    ("GET", "/v1/skills/{name}", &["admin", "operator", "auditor"]),
    ("PUT", "/v1/skills/{name}", &["admin", "operator"]),
    ("DELETE", "/v1/skills/{name}", &["admin", "operator"]),
    ("GET", "/v1/skills/{name}/versions", &["admin", "operator", "auditor"]),
    ("POST", "/v1/agents/{id}/turns", &["admin", "operator", "caller"]),
    ("GET", "/v1/agents/{id}/sessions/{session}", &["admin", "operator", "caller", "auditor"]),
    ("GET", "/v1/turns", &["admin", "operator", "auditor"]),
    ("GET", "/v1/turns/{id}", &["admin", "operator", "caller", "auditor"]),
    ("GET", "/v1/turns/{id}/events", &["admin", "operator", "caller", "auditor"]),
    ("POST", "/v1/turns/{id}/cancel", &["admin", "operator", "caller"]),
    ("GET", "/v1/models", &["admin", "operator", "caller"]),
    ("POST", "/v1/responses", &["admin", "operator", "caller"]),
    ("GET", "/v1/responses/{id}", &["admin", "operator", "caller", "auditor"]),
    ("POST", "/v1/responses/{id}/cancel", &["admin", "operator", "caller"]),
    ("POST", "/v1/agents/{id}/calls", &["admin", "operator", "caller"]),
    ("GET", "/v1/calls", &["admin", "operator", "auditor"]),
    ("GET", "/v1/calls/{id}", &["admin", "operator", "caller", "auditor"]),
    ("POST", "/v1/calls/{id}/verdict", &["admin", "operator"]),
    ("POST", "/v1/calls/{id}/cancel", &["admin", "operator", "caller"]),
    ("GET", "/v1/approvals", &["admin", "operator", "auditor"]),
    ("GET", "/v1/approvals/{id}", &["admin", "operator", "caller", "auditor"]),
    ("POST", "/v1/approvals/{id}/approve", &["admin", "operator"]),
    ("POST", "/v1/approvals/{id}/deny", &["admin", "operator"]),
    ("POST", "/v1/approvals/{id}/answer", &["admin", "operator"]),
    ("POST", "/v1/approvals/{id}/link", &["admin", "operator"]),
    ("GET", "/v1/traces", &["admin", "operator", "auditor"]),
    ("GET", "/v1/traces/{id}", &["admin", "operator", "auditor"]),
    ("GET", "/v1/sessions/{session}/evidence", &["admin", "operator", "caller", "auditor"]),
    ("GET", "/v1/events", &["admin", "operator", "auditor"]),
    ("GET", "/v1/whoami", &["admin", "operator", "caller", "auditor"]),
    ("GET", "/v1/tokens", &["admin"]),
    ("POST", "/v1/tokens", &["admin"]),
    ("DELETE", "/v1/tokens/{id}", &["admin"]),
    ("GET", "/v1/doctor", &["admin", "operator", "auditor"]),
    ("GET", "/v1/mcp/servers", &["admin", "operator", "auditor"]),
    ("GET", "/v1/mcp/servers/{name}", &["admin", "operator", "auditor"]),
    ("PUT", "/v1/mcp/servers/{name}", &["admin", "operator"]),
    ("DELETE", "/v1/mcp/servers/{name}", &["admin", "operator"]),
    ("POST", "/v1/mcp/servers/{name}/ingest", &["admin", "operator"]),
    ("POST", "/v1/mcp/servers/{name}/accept", &["admin", "operator"]),
    ("POST", "/v1/mcp/servers/{name}/ping", &["admin", "operator"]),
    ("POST", "/v1/mcp/import", &["admin", "operator"]),
    ("GET", "/v1/mcp/export", &["admin", "operator", "auditor"]),
    ("POST", "/v1/agents/{id}/mcp", &["admin", "operator", "caller"]),
    ("GET", "/v1/agents/{id}/mcp", &["admin", "operator", "caller"]),
    ("GET", "/metrics", &["admin", "operator", "auditor"]),
];

fn concrete(path: &str) -> String {
    path.replace("{name}", "ping").replace("{version}", "1").replace("{id}", "a").replace("{session}", "s")
}

#[tokio::test]
async fn every_address_asks_for_a_token_and_the_right_role() {
    let app = App::new().await;
    for (method, path, roles) in ADDRESSES {
        let method: Method = method.parse().unwrap();
        let path = concrete(path);
        let body = || if method == Method::GET { Body::empty() } else { Body::from("{}") };
        let none = app.send(app.request(method.clone(), &path, None, body())).await;
        assert_eq!((none.status, none.code().as_str()), (StatusCode::UNAUTHORIZED, "auth.missing"), "{method} {path}");
        assert!(none.headers.contains_key("www-authenticate"));
        let bad = app.send(app.request(method.clone(), &path, Some("tcr_wrong"), body())).await;
        assert_eq!(bad.code(), "auth.invalid", "{method} {path}");
        for role in ["admin", "operator", "caller", "auditor"] {
            let token = app.token(role, None).await;
            let request = app.request(method.clone(), &path, Some(&token), body());
            let status = app.router.clone();
            let response = tower::ServiceExt::oneshot(status, request).await.unwrap();
            let forbidden = response.status() == StatusCode::FORBIDDEN;
            assert_eq!(!forbidden, roles.contains(&role), "{method} {path} as {role}: {}", response.status());
        }
    }
}

#[tokio::test]
async fn a_bound_token_is_good_for_its_agents_only() {
    let app = App::new().await;
    app.agent("mine", json!({})).await;
    app.agent("theirs", json!({})).await;
    let outcome = app.call("theirs", "read_clock", json!({})).await;
    for role in ["admin", "operator", "caller", "auditor"] {
        let token = app.token(role, Some(&["mine"])).await;
        for (method, path, roles) in ADDRESSES.iter().filter(|(_, _, roles)| roles.contains(&role)) {
            let method: Method = method.parse().unwrap();
            let of_one_agent =
                path.contains("/v1/agents/{id}") || path.contains("/traces") || path.contains("/sessions");
            let lists = matches!(
                *path,
                "/v1/agents"
                    | "/v1/events"
                    | "/v1/traces"
                    | "/v1/calls"
                    | "/v1/approvals"
                    | "/v1/turns"
                    | "/v1/models"
                    // It says no more than whose the token is.
                    | "/v1/whoami"
                    // Its body names the agent; turns.rs tries that.
                    | "/v1/responses"
                    | "/v1/sessions/{session}/evidence"
            );
            let path =
                path.replace("/agents/{id}", "/agents/theirs").replace("{id}", outcome["trace_id"].as_str().unwrap());
            let path = concrete(&path);
            let body = if method == Method::GET { Body::empty() } else { Body::from(r#"{"tool":"read_clock"}"#) };
            let request = app.request(method.clone(), &path, Some(&token), body);
            let response = tower::ServiceExt::oneshot(app.router.clone(), request).await.unwrap();
            let refused = matches!(response.status(), StatusCode::FORBIDDEN | StatusCode::NOT_FOUND);
            assert_eq!(
                refused,
                !lists,
                "{method} {path} as bound {role} ({of_one_agent}): {} {roles:?}",
                response.status()
            );
        }
    }
    let auditor = app.token("auditor", Some(&["mine"])).await;
    let list = app.send(app.request(Method::GET, "/v1/traces", Some(&auditor), Body::empty())).await.json();
    assert_eq!(list, json!({ "traces": [], "next": null }));
    let agents = app.send(app.request(Method::GET, "/v1/agents", Some(&auditor), Body::empty())).await.json();
    assert_eq!(agents["agents"].as_array().unwrap().len(), 1);
    let caller = app.token("caller", Some(&["mine"])).await;
    let path = "/v1/agents/mine/calls";
    let mine = app.send(app.request(Method::POST, path, Some(&caller), r#"{"tool":"read_clock"}"#)).await.json();
    assert_eq!(mine["status"], "ok");
}

#[tokio::test]
async fn tokens_are_shown_once_hashed_at_rest_and_revocable() {
    let app = App::new().await;
    let made = app.post("/v1/tokens", json!({ "name": "bot", "role": "caller" })).await.json();
    let token = made["token"].as_str().unwrap();
    assert!(!app.get("/v1/tokens").await.text.contains(token));
    let file = std::fs::read(app.folder.path().join("test.db")).unwrap();
    let wal = std::fs::read(app.folder.path().join("test.db-wal")).unwrap();
    for bytes in [file, wal] {
        assert!(!bytes.windows(token.len()).any(|window| window == token.as_bytes()));
    }
    app.agent("a", json!({})).await;
    let list = || app.send(app.request(Method::GET, "/v1/agents/a/tools", Some(token), Body::empty()));
    assert_eq!(list().await.status, StatusCode::OK);
    let id = made["id"].as_str().unwrap();
    assert_eq!(
        app.as_admin(Method::DELETE, &format!("/v1/tokens/{id}"), Body::empty()).await.status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(list().await.code(), "auth.invalid");
    for bad in [
        json!({ "name": "", "role": "caller" }),
        json!({ "name": "x", "role": "king" }),
        json!({ "name": "x", "role": "caller", "expires_in_days": 0 }),
    ] {
        assert_eq!(app.post("/v1/tokens", bad).await.code(), "http.request");
    }
}

#[tokio::test]
async fn a_loopback_server_checks_host_and_origin() {
    let app = App::new().await;
    let ask = async |host: &str, origin: Option<&str>| {
        let mut request = app.request(Method::GET, "/v1/tools", Some(&app.admin), Body::empty());
        request.headers_mut().insert("host", host.parse().unwrap());
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        let answer = app.send(request).await;
        if answer.status == StatusCode::OK { String::new() } else { answer.code() }
    };
    assert_eq!(ask("localhost:8470", None).await, "");
    assert_eq!(ask("[::1]:8470", Some("http://127.0.0.1:3000")).await, "");
    assert_eq!(ask("evil.example", None).await, "http.host");
    assert_eq!(ask("127.0.0.1.evil.example", None).await, "http.host");
    assert_eq!(ask("localhost", Some("https://evil.example")).await, "http.origin");
    assert_eq!(ask("localhost", Some("null")).await, "http.origin");
}

#[tokio::test]
async fn who_may_not_write_reads_no_environment() {
    let app = App::new().await;
    let manifest = json!({ "tools": [{ "name": "x", "description": "d", "url": "https://a.example", "method": "{{env.REGION}}" }] });
    let ask = async |token: &str| {
        let request = app.request(Method::POST, "/v1/tools/validate", Some(token), manifest.to_string());
        app.send(request).await.text
    };
    assert!(ask(&app.admin).await.contains("south"));
    let auditor = app.token("auditor", None).await;
    assert!(!ask(&auditor).await.contains("south"));
}

#[tokio::test]
async fn addresses_without_a_token_answer_also_with_a_bad_one() {
    let app = App::new().await;
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs"] {
        let answer = app.send(app.request(Method::GET, path, Some("tcr_wrong"), Body::empty())).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
    }
    app.tool(get_tool("ping", "https://api.example.com")).await;
    assert_eq!(app.get("/v1/tools/ping").await.json()["origin"], Value::from("data"));
}
