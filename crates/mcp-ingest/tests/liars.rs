//! Servers that lie, stall, forget and flood: each has a bound and a clear error.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolcrib_egress::{Client, DnsResolver, Guard, Limits, NoBarrier, Policy, Sent, TcpDialler, TrustRoots};
use toolcrib_mcp_ingest::{
    Change, Endpoint, McpClient, McpError, McpFailure, McpRequest, McpResult, McpServer, Mode, Transport, plan,
};

type Answer = dyn Fn(&str, &Value, &HeaderMap) -> Response + Send + Sync;

/// A legacy server with a session, whose answers to everything but the handshake are given.
async fn server(answer: impl Fn(&str, &Value, &HeaderMap) -> Response + Send + Sync + 'static) -> String {
    let answer: Arc<Answer> = Arc::new(answer);
    serve(Router::new().fallback(move |request: Request| {
        let answer = Arc::clone(&answer);
        async move {
            let headers = request.headers().clone();
            let message = read(request).await;
            match message["method"].as_str().unwrap_or("none") {
                "server/discover" => status(404),
                "initialize" => {
                    let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {} });
                    let mut response = reply(&message, &result);
                    response.headers_mut().insert("mcp-session-id", "one".parse().unwrap());
                    response
                }
                "notifications/initialized" => status(202),
                method => answer(method, &message, &headers),
            }
        }
    }))
    .await
}

async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/mcp")
}

async fn read(request: Request) -> Value {
    let bytes = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn status(code: u16) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn typed(kind: &str, body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", kind.parse().unwrap());
    response
}

fn reply(message: &Value, result: &Value) -> Response {
    let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    typed("application/json", Body::from(body.to_string()))
}

fn stream_of(kind: &str, chunks: impl stream::Stream<Item = Bytes> + Send + 'static) -> Response {
    typed(kind, Body::from_stream(chunks.map(Ok::<_, Infallible>)))
}

fn events(chunks: Vec<String>) -> Response {
    stream_of("text/event-stream", stream::iter(chunks.into_iter().map(Bytes::from)))
}

fn client() -> McpClient {
    let policy = Policy { allow_http: true, allow_private: true, ..Policy::default() };
    let limits = Limits::default();
    let guard = Guard::new(Arc::new(policy), Arc::new(DnsResolver::system()), Arc::new(TcpDialler), limits.connect);
    McpClient::new(Client::new(guard, limits, &TrustRoots::default()).unwrap())
}

fn endpoint(client: &McpClient, url: &str) -> Endpoint {
    let target = client.policy().check_url(url).unwrap();
    Endpoint::plain("liar", target, Transport::Http)
}

async fn call(client: &McpClient, url: &str, mode: Mode<'_>) -> Result<McpResult, McpFailure> {
    let request = McpRequest {
        method: "tools/call",
        params: Map::from_iter([("name".to_owned(), "x".into()), ("arguments".to_owned(), json!({}))]),
        param_headers: Vec::new(),
        mode,
        deadline: Instant::now() + Duration::from_secs(2),
        progress: None,
    };
    client.call_tool(&endpoint(client, url), request).await
}

async fn failure_of(answer: impl Fn(&str, &Value, &HeaderMap) -> Response + Send + Sync + 'static) -> McpFailure {
    let url = server(answer).await;
    call(&client(), &url, Mode::Once(&NoBarrier)).await.unwrap_err()
}

#[tokio::test]
async fn an_answer_to_another_request_is_none() {
    let other = json!({ "jsonrpc": "2.0", "id": 999, "result": {} }).to_string();
    for body in [other.as_str(), "", "null", "[1]", "{\"jsonrpc\":\"2.0\"}", "<html>"] {
        let text = body.to_owned();
        let failure = failure_of(move |_, _, _| typed("application/json", Body::from(text.clone()))).await;
        assert_eq!((failure.error.code(), failure.sent), ("mcp.protocol", Sent::InDoubt), "{body}: {failure}");
    }
}

#[tokio::test]
async fn the_first_of_two_answers_stands_and_other_messages_are_passed_over() {
    let url = server(|_, message, _| {
        let answer = |n: u8| {
            let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "n": n } });
            format!("data: {body}\n\n")
        };
        let priming = "id: 1\nretry: 10\ndata: \n\n".to_owned();
        let noise = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n".to_owned();
        let wrong = "data: {\"jsonrpc\":\"2.0\",\"id\":\"other\",\"result\":{}}\n\n".to_owned();
        events(vec![priming, ": comment\n\n".to_owned(), noise, wrong, answer(1), answer(2)])
    })
    .await;
    assert_eq!(call(&client(), &url, Mode::Once(&NoBarrier)).await.unwrap().result, json!({ "n": 1 }));
}

#[tokio::test]
async fn an_endless_answer_ends_at_its_time_or_its_size() {
    let slow = failure_of(|_, _, _| {
        let comments = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Some((Bytes::from_static(b": still here\n\n"), ()))
        });
        stream_of("text/event-stream", comments)
    })
    .await;
    assert_eq!((slow.error, slow.sent), (McpError::Timeout, Sent::InDoubt));
    for kind in ["text/event-stream", "application/json"] {
        let gibibyte = move || stream::repeat(Bytes::from(vec![b' '; 1 << 20])).take(1024);
        let failure = failure_of(move |_, _, _| stream_of(kind, gibibyte())).await;
        assert_eq!(failure.error.code(), "mcp.too_large", "{kind}");
    }
}

#[tokio::test]
async fn numbers_keep_their_text_both_ways() {
    let seen = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&seen);
    let url = serve(Router::new().fallback(move |request: Request| {
        let kept = Arc::clone(&kept);
        async move {
            let bytes = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
            let message: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            match message["method"].as_str() {
                Some("server/discover") => reply(&message, &json!({ "supportedVersions": ["2026-07-28"] })),
                Some("tools/call") => {
                    *kept.lock().unwrap() = String::from_utf8_lossy(&bytes).into_owned();
                    let id = &message["id"];
                    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"n\":1.10E5}}}}");
                    typed("application/json", Body::from(text))
                }
                _ => status(404),
            }
        }
    }))
    .await;
    let client = client();
    let arguments = toolcrib_definition::json::parse(br#"{"n":7.50E+2}"#).unwrap();
    let request = McpRequest {
        method: "tools/call",
        params: Map::from_iter([("name".to_owned(), "x".into()), ("arguments".to_owned(), arguments)]),
        param_headers: Vec::new(),
        mode: Mode::Once(&NoBarrier),
        deadline: Instant::now() + Duration::from_secs(2),
        progress: None,
    };
    let done = client.call_tool(&endpoint(&client, &url), request).await.unwrap();
    assert_eq!(done.result.to_string(), r#"{"n":1.10E5}"#);
    assert!(seen.lock().unwrap().contains(r#""arguments":{"n":7.50E+2}"#));
}

#[tokio::test]
async fn a_server_that_repeats_our_secret_shows_it_to_nobody() {
    struct Secret;
    impl toolcrib_definition::Secrets for Secret {
        fn secret(&self, _name: &str) -> Option<secrecy::SecretString> {
            Some("s3cr3t-\"value\"-77".into())
        }
    }
    let url = server(|method, message, headers| {
        let token = headers["authorization"].to_str().unwrap();
        match method {
            "tools/list" => reply(message, &json!({ "tools": [{ "name": "x", "description": token }] })),
            _ => {
                let error = json!({ "code": -32000, "message": format!("bad {token}"), "data": token });
                let body = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
                typed("application/json", Body::from(body.to_string()))
            }
        }
    })
    .await;
    let row = json!({ "name": "echo", "url": url, "headers": { "Authorization": "Bearer {{secret.x}}" } });
    let client = client();
    let endpoint = Endpoint::of_server(&McpServer::from_value(&row).unwrap(), client.policy(), &Secret).unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    let tools = client.tools(&endpoint, deadline).await.unwrap();
    let failure = client.ping(&endpoint, deadline).await.unwrap_err();
    let shown = format!("{tools:?} {failure} {failure:?} {endpoint:?}");
    assert!(shown.contains("***") && !shown.contains("s3cr3t"), "{shown}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let failure = failure_of(|_, _, _| {
        let mut response = status(307);
        response.headers_mut().insert("location", "http://169.254.169.254/latest".parse().unwrap());
        response
    })
    .await;
    assert!(matches!(failure.error, McpError::Http { status: 307, .. }), "{failure}");
}

#[tokio::test]
async fn a_lost_session_is_made_again_once_and_an_effect_is_never_sent_twice() {
    for (code, mode, calls) in [
        (404, Mode::Repeatable, 2),
        (400, Mode::Repeatable, 2),
        (404, Mode::Once(&NoBarrier), 1),
        (400, Mode::Once(&NoBarrier), 1),
    ] {
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        let url = server(move |method, message, _| {
            assert_eq!(method, "tools/call");
            match count.fetch_add(1, Ordering::SeqCst) {
                0 => status(code),
                _ => reply(message, &json!({ "content": [] })),
            }
        })
        .await;
        let done = call(&client(), &url, mode).await;
        assert_eq!(seen.load(Ordering::SeqCst), calls, "{code} {}", mode.is_once());
        match mode {
            Mode::Repeatable => assert_eq!(done.unwrap().sends, 2),
            Mode::Once(_) => {
                let failure = done.unwrap_err();
                assert_eq!((failure.error, failure.sent), (McpError::SessionLost, Sent::InDoubt));
            }
        }
    }
    // A server that forgets every time is not asked for ever.
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let url = server(move |_, _, _| {
        count.fetch_add(1, Ordering::SeqCst);
        status(404)
    })
    .await;
    assert!(call(&client(), &url, Mode::Repeatable).await.is_err());
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn concurrent_calls_share_one_handshake() {
    let handshakes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handshakes);
    let url = serve(Router::new().fallback(move |request: Request| {
        let count = Arc::clone(&count);
        async move {
            let message = read(request).await;
            match message["method"].as_str() {
                Some("initialize") => {
                    count.fetch_add(1, Ordering::SeqCst);
                    reply(&message, &json!({ "protocolVersion": "2025-06-18" }))
                }
                Some("tools/call") => reply(&message, &json!({ "content": [] })),
                Some("notifications/initialized") => status(202),
                _ => status(404),
            }
        }
    }))
    .await;
    let client = client();
    let calls = (0..16).map(|_| call(&client, &url, Mode::Repeatable));
    assert!(futures_util::future::join_all(calls).await.iter().all(Result::is_ok));
    assert_eq!(handshakes.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_a_server_asks_that_we_cannot_answer_is_refused_and_the_call_goes_on() {
    let replies = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&replies);
    let url = server(move |method, message, _| {
        if method != "tools/call" {
            kept.lock().unwrap().push(message.clone());
            return status(202);
        }
        let question = json!({ "jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {} });
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "content": [] } });
        events(vec![format!("data: {question}\n\n"), format!("data: {answer}\n\n")])
    })
    .await;
    call(&client(), &url, Mode::Once(&NoBarrier)).await.unwrap();
    let replies = replies.lock().unwrap();
    assert_eq!((&replies[0]["id"], &replies[0]["error"]["code"]), (&json!("q"), &json!(-32601)));
}

#[tokio::test]
async fn pages_are_read_to_the_end_and_a_circle_is_noticed() {
    let url = server(|_, message, _| {
        let next = match message["params"]["cursor"].as_str() {
            None => json!(""),
            Some("") => json!("two"),
            Some(_) => Value::Null,
        };
        let tool = json!({ "name": format!("t{}", message["id"]), "inputSchema": { "type": "object" } });
        reply(message, &json!({ "tools": [tool], "nextCursor": next }))
    })
    .await;
    let client = client();
    let deadline = Instant::now() + Duration::from_secs(5);
    assert_eq!(client.tools(&endpoint(&client, &url), deadline).await.unwrap().len(), 3);
    let url = server(|_, message, _| reply(message, &json!({ "tools": [], "nextCursor": "again" }))).await;
    let failure = client.tools(&endpoint(&client, &url), deadline).await.unwrap_err();
    assert!(failure.to_string().contains("same cursor"), "{failure}");
}

#[tokio::test]
async fn a_version_that_nobody_knows_and_an_address_of_another_origin_are_said() {
    let url = serve(Router::new().fallback(|request: Request| async move {
        if request.method() == http::Method::GET {
            return events(vec!["event: endpoint\ndata: http://169.254.169.254/messages\n\n".to_owned()]);
        }
        let message = read(request).await;
        match message["method"].as_str() {
            Some("initialize") => reply(&message, &json!({ "protocolVersion": "1999-01-01" })),
            _ => status(404),
        }
    }))
    .await;
    let client = client();
    let deadline = Instant::now() + Duration::from_secs(5);
    let failure = client.version(&endpoint(&client, &url), deadline).await.unwrap_err();
    assert_eq!((failure.error.code(), failure.sent), ("mcp.version", Sent::Nothing));
    let target = client.policy().check_url(&url).unwrap();
    let legacy = Endpoint::plain("liar", target, Transport::Sse);
    let failure = client.version(&legacy, deadline).await.unwrap_err();
    assert!(failure.to_string().contains("another origin"), "{failure}");
}

#[test]
fn bad_tools_are_reported_and_hide_no_others() {
    let server = McpServer::from_value(&json!({ "name": "liar", "url": "https://liar.example.com/mcp" })).unwrap();
    let object = json!({ "type": "object" });
    let mut definitions = Map::new();
    for level in 0..60 {
        let below = json!({ "$ref": format!("#/$defs/l{}", level + 1) });
        let three = json!({ "type": "object", "properties": { "a": below, "b": below, "c": below } });
        definitions.insert(format!("l{level}"), three);
    }
    let bomb = json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/l0" } }, "$defs": definitions });
    let network = json!({ "type": "object", "properties": { "a": { "$ref": "http://127.0.0.1:9/x.json" } } });
    let pattern = json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "(" } } });
    let loud = format!("a\u{7}\u{1b}[31m{}", "x".repeat(1 << 20));
    let tool = |name: &str, schema: &Value| json!({ "name": name, "description": "D", "inputSchema": schema });
    let listed = [
        tool("good", &object),
        tool("getThing", &object),
        tool("get_thing", &object),
        tool("get-thing", &object),
        tool("good", &object),
        tool("", &object),
        tool(&"long".repeat(40), &object),
        tool("evil\u{0}name", &object),
        tool("{{ctx.chat_id}}", &object),
        json!({ "name": "no_schema" }),
        tool("list_schema", &json!([])),
        tool("network", &network),
        tool("bomb", &bomb),
        tool("pattern", &pattern),
        json!({ "name": "loud", "description": loud, "inputSchema": object }),
        tool("taken", &object),
        json!(7),
    ];
    let taken = |name: &str| name.starts_with("liar__taken");
    let plan = plan(&server, &listed, &[], &taken);
    let report = |tool: &str| plan.reports().find(|report| report.tool == tool).unwrap_or_else(|| panic!("{tool}"));
    let names: Vec<String> = ["getThing", "get_thing", "get-thing"].map(|t| report(t).name.clone().unwrap()).into();
    assert_eq!(names[0], "liar__get_thing");
    assert!(names[1] != names[0] && names[2] != names[1] && names[2] != names[0], "{names:?}");
    for failed in ["", "evil\u{0}name", "{{ctx.chat_id}}", "list_schema", "taken", "bomb"] {
        assert_eq!(report(failed).change, Change::Failed, "{failed}");
        assert!(!report(failed).notes.is_empty(), "{failed}");
    }
    for added in ["good", "no_schema", "network", "pattern", "loud"] {
        assert_eq!(report(added).change, Change::Added, "{added}");
    }
    let (loud, _) = plan.writes.iter().find(|(_, report)| report.tool == "loud").unwrap();
    assert!(loud.description.len() <= 16 << 10 && !loud.description.contains(['\u{7}', '\u{1b}']));
    assert!(plan.writes.iter().all(|(definition, _)| definition.name.as_str().len() <= 64));
    // The same list again changes nothing.
    let rows: Vec<_> = plan.writes.iter().map(|(definition, _)| definition.clone()).collect();
    let again = toolcrib_mcp_ingest::plan(&server, &listed, &rows, &taken);
    assert_eq!(again.writes.len(), 0, "{:?}", again.writes.first());
}

#[test]
fn a_server_may_choose_what_begins_the_names_of_its_tools() {
    let server = |prefix: Value| {
        McpServer::from_value(&json!({ "name": "my-crm", "url": "https://crm.example.com/mcp", "prefix": prefix }))
    };
    let tool = |name: &str| json!({ "name": name, "description": "D", "inputSchema": { "type": "object" } });
    let listed = [tool("findCustomer"), tool("2fa"), tool("refund")];
    let taken = |name: &str| name == "refund";
    let names = |prefix: Value| {
        let plan = plan(&server(prefix).unwrap(), &listed, &[], &taken);
        plan.writes.iter().map(|(definition, _)| definition.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(Value::Null), ["my_crm__find_customer", "my_crm__2fa", "my_crm__refund"]);
    assert_eq!(names(json!("crm_")), ["crm_find_customer", "crm_2fa", "crm_refund"]);
    // Without a prefix a name begins with a letter all the same, and takes nobody else's.
    assert_eq!(names(json!("")), ["find_customer", "tool_2fa", "refund_32eb045f"]);
    for wrong in ["Crm", "1_", "a-b", &"x".repeat(33)] {
        let problems = server(json!(wrong)).unwrap_err();
        assert_eq!(problems.iter().next().unwrap().pointer, "/prefix", "{wrong}");
    }
}
