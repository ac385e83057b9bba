//! How a command reaches the API: over HTTP to a server, or inside this process on the database
//! file. Either way it is the same API.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use axum::Router;
use axum::body::Body;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolcrib_api::{Audience, Principal, router};
use toolcrib_definition::json::{ReadOptions, read};
use toolcrib_executor::Executor;
use toolcrib_store::{Location, Store};
use toolcrib_turn::Engine;
use tower::ServiceExt;

use crate::compose::{self, Parts};
use crate::config::Config;

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<bytes::Bytes>>;

/// The way to the API. Cloning is cheap and is the same way.
#[derive(Clone)]
pub(crate) enum Connection {
    /// A server.
    Remote { base: String, token: Option<String>, client: Box<HttpClient> },
    /// This process.
    Local { router: Router, executor: Executor, engine: Engine, store: Store },
}

/// An answer of the API.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

/// How long a command waits for a server's answer.
const PATIENCE: Duration = Duration::from_secs(700);

impl Connection {
    /// Connects to a server at `base`, such as `http://127.0.0.1:8470`.
    pub(crate) fn remote(base: &str, token: Option<String>) -> anyhow::Result<Self> {
        let uri: http::Uri = base.parse().with_context(|| format!("--server {base:?} is no URL"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            bail!("--server {base:?} is no URL of a server, such as http://127.0.0.1:8470");
        }
        let provider = rustls::crypto::ring::default_provider();
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .context("the machine's certificate authorities can't be read")?
            .https_or_http()
            .enable_http1()
            .build();
        let client = Box::new(Client::builder(TokioExecutor::new()).build(connector));
        Ok(Self::Remote { base: base.trim_end_matches('/').to_owned(), token, client })
    }

    /// Opens the database in this process.
    pub(crate) async fn local(config: &Config, location: &Location) -> anyhow::Result<Self> {
        let Parts { store, executor, engine, state } =
            compose::build(config, location, CancellationToken::new()).await?;
        state.set_ready(true);
        Ok(Self::Local { router: router(state, Audience::Network), executor, engine, store })
    }

    /// Whether it is this process that works on the database.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Connection::Local { .. })
    }

    /// Sends a request and fails on an error of the API, in words.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let answer = self.ask(method, path, body).await?;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        Err(problem_of(&answer))
    }

    /// Sends a request.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let bytes = bytes::Bytes::from(body.map(Value::to_string).unwrap_or_default());
        let (status, bytes) = match self {
            Connection::Remote { base, token, client } => {
                let mut request = request.uri(format!("{base}{path}"));
                if let Some(token) = token {
                    request = request.header(AUTHORIZATION, format!("Bearer {token}"));
                }
                let request = request.body(Full::new(bytes))?;
                let response = tokio::time::timeout(PATIENCE, client.request(request))
                    .await
                    .with_context(|| format!("{base} did not answer"))?
                    .with_context(|| format!("no server answers at {base}; start one with `toolcrib serve`"))?;
                (response.status(), response.into_body().collect().await?.to_bytes())
            }
            Connection::Local { router, .. } => {
                let request = request.extension(Principal::local()).body(Body::from(bytes))?;
                let Ok(response) = router.clone().oneshot(request).await;
                (response.status(), response.into_body().collect().await.map_err(|error| anyhow!(error))?.to_bytes())
            }
        };
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            let options = ReadOptions { max_bytes: usize::MAX, ..ReadOptions::default() };
            match read(&bytes, options) {
                Ok(body) => body,
                Err(_) if status.is_success() => Value::String(String::from_utf8_lossy(&bytes).into_owned()),
                Err(error) => bail!("HTTP {status}, and the body is {error}"),
            }
        };
        Ok(Answer { status, body })
    }

    /// Sends a request of any kind, and gives the answer with its body still to be read.
    pub(crate) async fn open(&self, path: &str, request: Request<bytes::Bytes>) -> anyhow::Result<Response<Body>> {
        let (mut head, bytes) = request.into_parts();
        match self {
            Connection::Remote { base, token, client } => {
                head.uri = format!("{base}{path}").parse().context("the address is no URL")?;
                if let Some(token) = token {
                    head.headers.insert(AUTHORIZATION, format!("Bearer {token}").parse()?);
                }
                let response = client
                    .request(Request::from_parts(head, Full::new(bytes)))
                    .await
                    .with_context(|| format!("no server answers at {base}; start one with `toolcrib serve`"))?;
                Ok(response.map(Body::new))
            }
            Connection::Local { router, .. } => {
                head.uri = path.parse().context("the address is no path")?;
                head.extensions.insert(Principal::local());
                let Ok(response) = router.clone().oneshot(Request::from_parts(head, Body::from(bytes))).await;
                Ok(response)
            }
        }
    }

    /// Goes on in this process with the turns that this command follows, as long as it runs. A server does so by itself,
    /// for everybody.
    pub(crate) fn keep_own_turns(&self) {
        if let Connection::Local { engine, .. } = self {
            tokio::spawn(engine.clone().keep_own());
        }
    }

    /// Reads a stream of a server line by line until it ends.
    pub(crate) async fn lines(&self, path: &str, each: impl FnMut(&str)) -> anyhow::Result<()> {
        self.stream(path, Request::get("/").body(bytes::Bytes::new())?, each).await
    }

    /// Sends a request, and reads the stream that answers it line by line until it ends.
    pub(crate) async fn stream(
        &self,
        path: &str,
        request: Request<bytes::Bytes>,
        mut each: impl FnMut(&str),
    ) -> anyhow::Result<()> {
        let response = self.open(path, request).await?;
        let status = response.status();
        let mut body = response.into_body();
        if !status.is_success() {
            let bytes = body.collect().await?.to_bytes();
            let body = read(&bytes, ReadOptions::default()).unwrap_or(Value::Null);
            return Err(problem_of(&Answer { status, body }));
        }
        let mut rest = Vec::new();
        while let Some(frame) = body.frame().await {
            let Some(data) = frame?.data_ref().cloned() else { continue };
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                each(String::from_utf8_lossy(&line).trim_end());
            }
        }
        Ok(())
    }

    /// Lets what was begun end: traces are written, the database is closed.
    pub(crate) async fn close(self) {
        if let Connection::Local { executor, engine, store, .. } = self {
            engine.drain(Duration::from_secs(5)).await;
            executor.drain(Duration::from_secs(5)).await;
            store.close().await;
        }
    }
}

/// A problem of the API as an error that people read.
fn problem_of(answer: &Answer) -> anyhow::Error {
    let text = |key: &str| answer.body.get(key).and_then(Value::as_str);
    let mut message = text("detail").map_or_else(|| format!("HTTP {}", answer.status), str::to_owned);
    if let Some(code) = text("code") {
        message.push_str(&format!(" [{code}]"));
    }
    for problem in answer.body.get("problems").and_then(Value::as_array).into_iter().flatten() {
        let part = |key: &str| problem.get(key).and_then(Value::as_str).unwrap_or_default();
        message.push_str(&format!("\n  {}: {} [{}]", part("pointer"), part("message"), part("code")));
    }
    let hint = match text("code") {
        Some("auth.missing") => "\ngive a token with --token or TOOLCRIB_TOKEN",
        Some("auth.invalid") => "\nmake another with `toolcrib tokens create` on the server's machine",
        Some("store.stale_revision") => "\nread it again with `toolcrib tools show`, then write your change anew",
        _ => "",
    };
    anyhow!("{message}{hint}")
}
