//! Where an MCP server is, and how it is asked.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;
use toolcrib_definition::json::parse;
use toolcrib_definition::{Ctx, PathParam, RenderError, RenderInput, RenderedRequest, Secrets};
use toolcrib_egress::{EgressError, Policy, Target};

use crate::error::McpError;
use crate::server::McpServer;

/// How an MCP server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Transport {
    /// Streamable HTTP; when the server refuses both of its eras, the older HTTP with SSE.
    #[default]
    Http,
    /// The older HTTP with SSE only.
    Sse,
}

impl Transport {
    /// The word in a server's row.
    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Http => "http",
            Transport::Sse => "sse",
        }
    }
}

/// An MCP server that the egress policy allows, with the headers that go with every request.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The name of the server's row.
    pub server: String,
    /// Where it is.
    pub target: Target,
    /// Its headers; mark secrets as sensitive.
    pub headers: HeaderMap,
    /// How it is spoken to.
    pub transport: Transport,
    /// The request whose secrets are masked wherever the server repeats them.
    pub(crate) request: Option<Arc<RenderedRequest>>,
}

/// What a session belongs to: other credentials are another session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    url: String,
    transport: Transport,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Endpoint {
    /// The endpoint of a rendered request to a server.
    ///
    /// # Errors
    /// The policy's block, or a header that can't be sent.
    pub fn of_request(
        request: &RenderedRequest,
        policy: &Policy,
        server: &str,
        transport: Transport,
    ) -> Result<Self, EgressError> {
        let target = policy.check_url(&request.url)?;
        let mut headers = HeaderMap::with_capacity(request.headers.len());
        for header in &request.headers {
            let wrong = |_| EgressError::Request { reason: format!("the header {} can't be sent", header.name) };
            let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| wrong(()))?;
            // What the protocol itself says is the client's part.
            if [ACCEPT, CONTENT_TYPE].contains(&name) || name.as_str().starts_with("mcp-") {
                continue;
            }
            let mut value = HeaderValue::from_bytes(header.expose().as_bytes()).map_err(|_| wrong(()))?;
            value.set_sensitive(header.secret.is_some());
            headers.append(name, value);
        }
        let request = Some(Arc::new(request.clone()));
        Ok(Self { server: server.to_owned(), target, headers, transport, request })
    }

    /// An endpoint without secrets.
    pub fn plain(server: &str, target: Target, transport: Transport) -> Self {
        Self { server: server.to_owned(), target, headers: HeaderMap::new(), transport, request: None }
    }

    /// A text of the server with its own secrets masked.
    pub fn clean<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.request.as_ref().map_or(Cow::Borrowed(text), |request| request.scrub(text))
    }

    /// The same for a JSON value.
    pub(crate) fn clean_value(&self, value: Value) -> Value {
        let Some(request) = self.request.as_ref().filter(|request| !request.secrets.is_empty()) else { return value };
        let text = value.to_string();
        match request.scrub(&text) {
            Cow::Borrowed(_) => value,
            Cow::Owned(clean) => parse(clean.as_bytes()).unwrap_or_default(),
        }
    }

    /// An error of the server without its secrets.
    pub(crate) fn clean_error(&self, error: McpError) -> McpError {
        let clean = |text: String| self.clean(&text).into_owned();
        match error {
            McpError::Rpc { code, message, data } => {
                McpError::Rpc { code, message: clean(message), data: data.map(|data| self.clean_value(data)) }
            }
            McpError::Http { status, body } => McpError::Http { status, body: clean(body) },
            McpError::Protocol(words) => McpError::Protocol(clean(words)),
            McpError::Version(version) => McpError::Version(clean(version)),
            McpError::InputRequired(what) => McpError::InputRequired(clean(what)),
            other => other,
        }
    }

    /// The endpoint of a server as nobody in particular asks it: for discovery.
    ///
    /// # Errors
    /// A missing secret or a header that can't be written as [`McpError::Protocol`], and the policy's block.
    pub fn of_server(server: &McpServer, policy: &Policy, secrets: &dyn Secrets) -> Result<Self, McpError> {
        let probe = server.probe().map_err(|problems| McpError::Protocol(problems.to_string()))?;
        let input = RenderInput {
            arguments: &serde_json::Map::new(),
            ctx: &Ctx::default(),
            call_id: "discovery",
            key: "discovery",
            secrets,
            path_param: PathParam::Encode,
        };
        let request = probe.render(input).map_err(|error| match error {
            RenderError::MissingSecret { name } => McpError::Secret { name },
            other => McpError::Protocol(other.to_string()),
        })?;
        Ok(Self::of_request(&request, policy, &server.name, server.transport.into())?)
    }

    pub(crate) fn session_key(&self) -> SessionKey {
        let mut headers: Vec<_> = self.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        headers.sort_by(|a, b| (a.0.as_str(), a.1.as_bytes()).cmp(&(b.0.as_str(), b.1.as_bytes())));
        SessionKey { url: self.target.uri().to_string(), transport: self.transport, headers }
    }
}
