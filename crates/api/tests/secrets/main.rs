//! A known secret reaches the upstream and nothing else. In a process of its own: what is logged is
//! decided once a process, by whoever logs first.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "this test needs less of the application than the others")]
#[path = "../api/app.rs"]
mod app;

use std::io::Write;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::routing::any;
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::app::{App, SECRET, upstream};

/// Everything that is logged, at every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn escaped(text: &str) -> String {
    text.chars().map(|ch| format!("\\u{:04x}", u32::from(ch))).collect()
}

#[tokio::test]
async fn a_secret_is_found_nowhere_but_at_the_upstream() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(FmtSpan::FULL)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let received = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&received);
    // Repeats the secret in every way an upstream might.
    let echo = any(move |headers: HeaderMap, uri: http::Uri| async move {
        let secret = headers["authorization"].to_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned();
        seen.lock().unwrap().push(secret.clone());
        match uri.path() {
            "/plain" => (http::StatusCode::OK, HeaderMap::new(), format!("you sent {secret}")),
            "/json" => (http::StatusCode::OK, HeaderMap::new(), json!({ "a": { "token": secret } }).to_string()),
            "/escaped" => (http::StatusCode::OK, HeaderMap::new(), format!("{{\"a\": \"{}\"}}", escaped(&secret))),
            "/error" => (http::StatusCode::BAD_REQUEST, HeaderMap::new(), json!({ "bad": secret }).to_string()),
            "/moved" => {
                let location = format!("/x?token={}", percent(&secret));
                (
                    http::StatusCode::FOUND,
                    HeaderMap::from_iter([(http::header::LOCATION, location.parse().unwrap())]),
                    String::new(),
                )
            }
            // Larger than the bound of 64 KiB, which falls inside the secret.
            "/large" => {
                let lead = (64 << 10) - secret.len() + 3;
                (http::StatusCode::OK, HeaderMap::new(), "x".repeat(lead) + &secret)
            }
            _ => {
                let encoding = (http::header::CONTENT_ENCODING, secret.replace('"', "").parse().unwrap());
                (http::StatusCode::OK, HeaderMap::from_iter([encoding]), "x".to_owned())
            }
        }
    });
    let base = upstream(Router::new().fallback(echo)).await;
    let app = App::new().await;
    app.agent("a", json!({})).await;

    let request = app.request(Method::GET, "/v1/events", Some(&app.admin), Body::empty());
    let stream = app.router.clone().oneshot(request).await.unwrap().into_body();
    let mut shown = String::new();
    let paths = ["plain", "json", "escaped", "error", "moved", "encoding", "large"];
    for path in paths {
        app.tool(json!({
            "name": path, "description": "Echo", "secret_headers": ["Authorization"],
            "request": { "url": format!("{base}/{path}"), "headers": { "Authorization": "Bearer {{secret.api_token}}" } },
            "response": if path == "escaped" { json!({ "extract": "json_path", "path": "a" }) } else { Value::Null },
            "side_effect": path == "large",
        }))
        .await;
        let outcome = app.call("a", path, json!({})).await;
        let trace = app.trace(&outcome).await;
        assert!(trace["request"]["headers"].to_string().contains("***"), "{trace}");
        shown.push_str(&format!("{outcome}{trace}"));
        shown.push_str(&app.post(&format!("/v1/tools/{path}/try"), json!({ "send": true })).await.text);
        shown.push_str(&app.get(&format!("/v1/tools/{path}")).await.text);
    }
    assert_eq!(received.lock().unwrap().len(), 2 * paths.len());
    assert!(received.lock().unwrap().iter().all(|secret| secret == SECRET), "the upstream gets the secret itself");

    for path in ["/metrics", "/docs", "/openapi.json", "/v1/doctor", "/v1/traces", "/v1/tools"] {
        shown.push_str(&app.get(path).await.text);
    }
    let tool = app.executor.registry().snapshot();
    let definition = tool.tool("json").unwrap().as_data().unwrap().clone();
    let rendered = definition
        .render(toolcrib_definition::RenderInput {
            arguments: &serde_json::Map::new(),
            ctx: &toolcrib_definition::Ctx::default(),
            call_id: "c",
            key: "c",
            secrets: app.executor.secrets().as_ref(),
            path_param: toolcrib_definition::PathParam::Encode,
        })
        .unwrap();
    shown.push_str(&format!("{definition:?} {rendered:?}"));
    app.executor.recorder().flush(std::time::Duration::from_secs(5)).await;
    drop(app.executor.events().clone());
    let events = tokio::time::timeout(std::time::Duration::from_millis(300), stream.collect()).await;
    assert!(events.is_err(), "the stream goes on");
    for file in ["test.db", "test.db-wal"] {
        shown.push_str(&String::from_utf8_lossy(&std::fs::read(app.folder.path().join(file)).unwrap()));
    }
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("executor.call.run"), "the log holds calls: {}", logged.len());
    shown.push_str(&logged);

    let quoted = Value::from(SECRET).to_string();
    for form in [SECRET, &SECRET[..8], &quoted[1..quoted.len() - 1], &percent(SECRET), &escaped(SECRET), "-value-7421"]
    {
        assert!(!shown.contains(form), "the secret is found as {form}");
    }
}

fn percent(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() || b == b'-' { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}
