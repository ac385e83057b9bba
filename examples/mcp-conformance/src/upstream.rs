//! An upstream that answers with MCP content.

use std::net::SocketAddr;

use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

/// One red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A sound of no length.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// The paths, each with the content it answers with.
pub const ANSWERS: [&str; 6] =
    ["simple_text", "image_content", "audio_content", "embedded_resource", "multiple_content_types", "error_handling"];

fn answer(name: &str) -> Value {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
    let resource = |uri: &str, kind: &str, text: &str| json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": text } });
    match name {
        "simple_text" => json!([text("This is a simple text response for testing.")]),
        "image_content" => json!([image]),
        "audio_content" => json!([{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }]),
        "embedded_resource" => {
            let content = "This is an embedded resource content.";
            json!([resource("test://embedded-resource", "text/plain", content)])
        }
        "multiple_content_types" => {
            let data = r#"{"test":"data","value":123}"#;
            let mixed = resource("test://mixed-content-resource", "application/json", data);
            json!([text("Multiple content types test:"), image, mixed])
        }
        _ => json!({
            "content": [text("This tool intentionally returns an error for testing")],
            "isError": true,
        }),
    }
}

/// Serves the answers on a free port of loopback.
pub async fn serve() -> anyhow::Result<SocketAddr> {
    let mut router = Router::new();
    for name in ANSWERS {
        router = router.route(&format!("/{name}"), get(move || std::future::ready(Json(answer(name)))));
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}
