//! `toolcrib mcp stdio`: lines of a client that speaks stdio become requests to the MCP endpoint, and what
//! comes back becomes lines.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinSet};
use toolcrib_definition::json::parse;
use toolcrib_mcp_ingest::encode_param_header;

use super::segment;
use crate::connection::Connection;

/// The longest line, in bytes: the endpoint takes no longer body.
const MAX_LINE: u64 = 4 << 20;
/// How long answers are waited for when standard input has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(60);

/// What all lines share.
struct Bridge {
    api: Connection,
    path: String,
    out: Mutex<tokio::io::Stdout>,
    /// The version that a legacy client agreed on, for the headers of what follows.
    version: Mutex<Option<String>>,
    listening: AtomicBool,
}

/// Bridges until standard input ends.
pub(crate) async fn run(api: &Connection, agent: &str) -> anyhow::Result<()> {
    let bridge = Arc::new(Bridge {
        api: api.clone(),
        path: format!("/v1/agents/{}/mcp", segment(agent)),
        out: Mutex::new(tokio::io::stdout()),
        version: Mutex::new(None),
        listening: AtomicBool::new(false),
    });
    let mut input = BufReader::new(tokio::io::stdin());
    let mut line = Vec::new();
    let mut running = JoinSet::new();
    let mut by_id: HashMap<String, AbortHandle> = HashMap::new();
    loop {
        line.clear();
        let read = (&mut input).take(MAX_LINE + 1).read_until(b'\n', &mut line).await?;
        if read == 0 {
            break;
        }
        if line.len() as u64 > MAX_LINE {
            anyhow::bail!("a line is longer than {MAX_LINE} bytes");
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let bridge_of_line = Arc::clone(&bridge);
        let message = match parse(&line) {
            Ok(message) => message,
            Err(error) => {
                let words = format!("the line is {error}");
                bridge.print(&json!({ "jsonrpc": "2.0", "error": { "code": -32700, "message": words } })).await?;
                continue;
            }
        };
        if message.get("method").and_then(Value::as_str) == Some("initialize") {
            // What follows depends on its answer.
            bridge_of_line.pass(message).await;
            continue;
        }
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        let is_ready = method == "notifications/initialized";
        if method == "notifications/cancelled" && bridge.version.lock().await.is_none() {
            // In the current era the end of a request says it.
            let id = message.pointer("/params/requestId").map(Value::to_string).unwrap_or_default();
            if let Some(task) = by_id.remove(&id) {
                AbortHandle::abort(&task);
            }
            continue;
        }
        let id = message.get("id").map(Value::to_string);
        let task = running.spawn(async move { bridge_of_line.pass(message).await });
        if let Some(id) = id {
            by_id.retain(|_, task| !task.is_finished());
            by_id.insert(id, task);
        }
        if is_ready && !bridge.listening.swap(true, Ordering::SeqCst) {
            let listening = Arc::clone(&bridge);
            tokio::spawn(async move {
                if let Err(error) = listening.listen().await {
                    tracing::debug!(error = %format!("{error:#}"), "no stream of changes");
                }
            });
        }
        while running.try_join_next().is_some() {}
    }
    // What was asked is answered; a stream that never ends is not waited for.
    let ending = async { while running.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_ANSWERS, ending).await;
    Ok(())
}

impl Bridge {
    /// Passes one message on. A failure of the way becomes an error that the client reads.
    async fn pass(&self, message: Value) {
        let id = message.get("id").cloned().unwrap_or_default();
        let Err(error) = self.send(&message).await else { return };
        if id.is_null() {
            eprintln!("a notification was not taken: {error:#}");
            return;
        }
        let error = json!({ "code": -32000, "message": format!("{error:#}") });
        if let Err(error) = self.print(&json!({ "jsonrpc": "2.0", "id": id, "error": error })).await {
            eprintln!("{error:#}");
        }
    }

    async fn send(&self, message: &Value) -> anyhow::Result<()> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let current = message.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion");
        let mut put = |name: &'static str, value: &str| {
            let value = HeaderValue::from_str(value).with_context(|| format!("{value:?} can't be a header"))?;
            headers.insert(HeaderName::from_static(name), value);
            anyhow::Ok(())
        };
        match (current.and_then(Value::as_str), self.version.lock().await.as_deref()) {
            (Some(version), _) => {
                put("mcp-protocol-version", version)?;
                put("mcp-method", message["method"].as_str().unwrap_or_default())?;
                if let Some(name) = message.pointer("/params/name").and_then(Value::as_str) {
                    put("mcp-name", &encode_param_header(name))?;
                }
            }
            (None, Some(version)) => put("mcp-protocol-version", version)?,
            (None, None) => {}
        }
        let mut request = Request::new(bytes::Bytes::from(message.to_string()));
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers;
        self.read(request).await
    }

    /// Follows the changes of the tools, as a legacy client would over HTTP.
    async fn listen(&self) -> anyhow::Result<()> {
        let mut request = Request::new(bytes::Bytes::new());
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        self.read(request).await
    }

    /// Makes a request, and prints every message that comes back as it comes.
    async fn read(&self, request: Request<bytes::Bytes>) -> anyhow::Result<()> {
        let response = self.api.open(&self.path, request).await?;
        let (head, mut body) = response.into_parts();
        let kind = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            let bytes = body.collect().await.map_err(|error| anyhow::anyhow!("the answer broke off: {error}"))?;
            let bytes = bytes.to_bytes();
            if bytes.is_empty() {
                return Ok(());
            }
            let message = parse(&bytes).map_err(|error| anyhow::anyhow!("HTTP {}: {error}", head.status))?;
            if message.get("jsonrpc").is_none() {
                anyhow::bail!("{}", message["detail"].as_str().unwrap_or("the endpoint refused the message"));
            }
            return self.print(&message).await;
        }
        let mut rest = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| anyhow::anyhow!("the stream broke off: {error}"))?;
            let Some(data) = frame.data_ref() else { continue };
            rest.extend_from_slice(data);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                // Our own streams have one message a line.
                if let Some(data) = line.strip_prefix(b"data:")
                    && let Ok(message) = parse(data)
                {
                    self.print(&message).await?;
                }
            }
        }
        Ok(())
    }

    async fn print(&self, message: &Value) -> anyhow::Result<()> {
        if let Some(version) = message.pointer("/result/protocolVersion").and_then(Value::as_str) {
            *self.version.lock().await = Some(version.to_owned());
        }
        let mut out = self.out.lock().await;
        out.write_all(format!("{message}\n").as_bytes()).await?;
        Ok(out.flush().await?)
    }
}
