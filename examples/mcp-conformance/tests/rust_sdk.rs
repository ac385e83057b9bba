//! The official Rust SDK as a client of the endpoint, in both eras.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientLifecycleMode, ClientServiceExt};

/// The server, ended with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start() -> (Server, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-conformance"))
        .args(["server", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    (Server(child), url.trim().to_owned())
}

async fn lists_calls_fails_and_gives_up(mode: ClientLifecycleMode) {
    let (_server, url) = start();
    // The SDK's own HTTP client wants one, although it speaks no TLS here. Another test may have been faster.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let transport = StreamableHttpClientTransport::from_uri(url);
    let client = ().serve_with_lifecycle(transport, mode).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "test_simple_text"), "{tools:?}");

    let call = |name: &'static str| client.call_tool(CallToolRequestParams::new(name));
    let text = serde_json::to_value(call("test_simple_text").await.unwrap()).unwrap();
    assert_eq!(text["content"][0]["text"], "This is a simple text response for testing.");
    let failed = call("test_error_handling").await.unwrap();
    assert_eq!(failed.is_error, Some(true));
    let unknown = call("no_such_tool").await.unwrap_err();
    assert!(unknown.to_string().contains("no tool"), "{unknown}");
    // Given up in the middle: the next call is answered all the same.
    let given_up = tokio::time::timeout(Duration::from_millis(60), call("test_tool_with_progress")).await;
    assert!(given_up.is_err());
    call("test_tool_with_progress").await.unwrap();
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn in_the_legacy_era() {
    lists_calls_fails_and_gives_up(ClientLifecycleMode::Initialize).await;
}

#[tokio::test]
async fn in_the_current_era() {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    lists_calls_fails_and_gives_up(ClientLifecycleMode::Discover { preferred_versions }).await;
}
