//! OAuth 2.1 for MCP servers: the authorization code flow with PKCE, found by the server's own metadata.
//!
//! A server that wants a token answers 401. Its *protected resource metadata* (RFC 9728) names the
//! authorization server, whose metadata (RFC 8414 or OpenID Connect) names the rest. The person's part, to
//! agree in a browser, is behind [`UserAgent`].
//!
//! | file | what |
//! |---|---|
//! | `challenge.rs` | what a 401 or 403 asks for |
//! | `metadata.rs` | finding and checking the metadata |
//! | `flow.rs` | identity, authorization code, token |

mod challenge;
mod flow;
mod metadata;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use secrecy::SecretString;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use toolcrib_definition::json::{ReadOptions, read};
use toolcrib_egress::{Client, Completeness, EgressError, Outbound};

use self::flow::{Registered, obtain};
use crate::error::McpError;

pub(crate) use self::challenge::Challenge;

/// Obtains tokens for MCP servers that ask for one.
#[async_trait]
pub trait Authorizer: Send + Sync {
    /// A token for the server at `url`, which answered `challenge` (the `WWW-Authenticate` header).
    ///
    /// # Errors
    /// [`McpError`] when there is none to be had.
    async fn token(
        &self,
        http: &Client,
        url: &str,
        challenge: &str,
        deadline: Instant,
    ) -> Result<SecretString, McpError>;
}

/// The person's browser, or what stands for it.
#[async_trait]
pub trait UserAgent: Send + Sync {
    /// Where the browser is sent back to.
    fn redirect_uri(&self) -> String;

    /// Opens the address, lets the person agree, and gives the address that the browser was sent back to.
    ///
    /// # Errors
    /// In words: nobody agreed, or not in time.
    async fn visit(&self, url: &str, deadline: Instant) -> Result<String, String>;
}

/// Who we are to an authorization server.
#[derive(Debug, Clone, Default)]
pub struct ClientIdentity {
    /// An id that was registered beforehand.
    pub client_id: Option<String>,
    /// Its secret, if it has one.
    pub client_secret: Option<SecretString>,
    /// The address of a client metadata document, for servers that take one as the id.
    pub metadata_document: Option<String>,
}

/// The authorization code flow. One value is for one server.
pub struct OAuth {
    identity: ClientIdentity,
    agent: Arc<dyn UserAgent>,
    known: Mutex<Known>,
}

/// What was learnt of the authorization server.
#[derive(Default)]
struct Known {
    issuer: String,
    client: Option<Registered>,
    scopes: BTreeSet<String>,
}

impl OAuth {
    /// The flow with this identity; without one, the client registers itself (RFC 7591).
    pub fn new(identity: ClientIdentity, agent: Arc<dyn UserAgent>) -> Self {
        Self { identity, agent, known: Mutex::default() }
    }
}

#[async_trait]
impl Authorizer for OAuth {
    async fn token(
        &self,
        http: &Client,
        url: &str,
        challenge: &str,
        deadline: Instant,
    ) -> Result<SecretString, McpError> {
        // One browser at a time.
        let mut known = self.known.lock().await;
        let challenge = Challenge::read(challenge);
        let web = Web { http, deadline };
        let resource = metadata::resource(&web, url, &challenge).await?;
        let server = metadata::authorization_server(&web, &resource.issuer).await?;
        if known.issuer != server.issuer {
            // Nothing that one authorization server gave is good at another.
            *known = Known { issuer: server.issuer.clone(), ..Known::default() };
        }
        let asked = challenge.scopes.or(resource.scopes.clone()).unwrap_or_default();
        known.scopes.extend(asked);
        if server.scopes.iter().any(|scope| scope == "offline_access") {
            known.scopes.insert("offline_access".to_owned());
        }
        let client = match &known.client {
            Some(client) => client.clone(),
            None => {
                let redirect_uri = self.agent.redirect_uri();
                flow::identify(&web, &server, &self.identity, &redirect_uri, &known.scopes).await?
            }
        };
        known.client = Some(client.clone());
        obtain(&web, &server, &resource.resource, &client, &known.scopes, self.agent.as_ref()).await
    }
}

/// The requests of the flow, all of them through the guard.
struct Web<'a> {
    http: &'a Client,
    deadline: Instant,
}

impl Web<'_> {
    /// A JSON document; none when the address has none.
    async fn document(&self, url: &str) -> Result<Option<Value>, McpError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let (status, body) = self.send(Method::GET, url, headers, Bytes::new()).await?;
        Ok(body.filter(|_| status == StatusCode::OK))
    }

    /// Posts a body and reads the JSON of the answer.
    async fn post(
        &self,
        url: &str,
        kind: &'static str,
        mut headers: HeaderMap,
        body: String,
    ) -> Result<Value, McpError> {
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let (status, answer) = self.send(Method::POST, url, headers, Bytes::from(body)).await?;
        match answer {
            Some(answer) if status.is_success() => Ok(answer),
            answer => {
                let code = answer.as_ref().and_then(|answer| answer.get("error")).and_then(Value::as_str);
                let code: String = code.unwrap_or("no reason").chars().take(100).collect();
                Err(McpError::OAuth(format!("{url} answered HTTP {status}: {code}")))
            }
        }
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, Option<Value>), McpError> {
        let target = self.http.policy().check_url(url).map_err(EgressError::from)?;
        let outbound = Outbound { method, target, headers, body };
        let answer = self.http.read(&outbound, self.deadline).await.map_err(|failure| failure.error)?;
        if answer.completeness != Completeness::Whole {
            return Err(answer.completeness.into());
        }
        Ok((answer.status, read(&answer.body, ReadOptions::for_answers()).ok()))
    }
}
