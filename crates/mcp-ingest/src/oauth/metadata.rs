//! The metadata of a protected resource (RFC 9728) and of its authorization server (RFC 8414, OpenID
//! Connect Discovery).

use serde_json::Value;
use url::Url;

use super::{Challenge, Web};
use crate::error::McpError;

/// What a server says of itself as a resource.
pub(super) struct Resource {
    /// Its identifier, to the letter.
    pub(super) resource: String,
    /// Its authorization server.
    pub(super) issuer: String,
    pub(super) scopes: Option<Vec<String>>,
}

/// What an authorization server says of itself.
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) auth_methods: Vec<String>,
    pub(super) takes_document: bool,
    pub(super) returns_issuer: bool,
}

fn wrong(words: impl Into<String>) -> McpError {
    McpError::OAuth(words.into())
}

fn text(document: &Value, key: &str) -> Option<String> {
    document.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn texts(document: &Value, key: &str) -> Option<Vec<String>> {
    let list = document.get(key)?.as_array()?;
    Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// The metadata of the server at `url`.
pub(super) async fn resource(web: &Web<'_>, url: &str, challenge: &Challenge) -> Result<Resource, McpError> {
    let server = Url::parse(url).map_err(|_| wrong("the address of the server is no URL"))?;
    let origin = server.origin().ascii_serialization();
    let well_known = "/.well-known/oauth-protected-resource";
    let places = match &challenge.resource_metadata {
        Some(place) => vec![place.clone()],
        None => vec![format!("{origin}{well_known}{}", server.path()), format!("{origin}{well_known}")],
    };
    let mut found = None;
    for place in &places {
        found = web.document(place).await?;
        if found.is_some() {
            break;
        }
    }
    let document = found.ok_or_else(|| wrong("the server wants a token, and does not say where one comes from"))?;
    let resource = text(&document, "resource").ok_or_else(|| wrong("the resource metadata names no resource"))?;
    let named = Url::parse(&resource).map_err(|_| wrong("the resource metadata names a resource that is no URL"))?;
    let path = named.path().trim_end_matches('/');
    let below = server.path() == path || server.path().strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    if named.origin() != server.origin() || !(path.is_empty() || below) {
        // A token for another server is never fetched for this one.
        return Err(wrong(format!("the resource metadata is of another server: {resource}")));
    }
    let issuers = texts(&document, "authorization_servers").unwrap_or_default();
    let issuer =
        issuers.into_iter().next().ok_or_else(|| wrong("the resource metadata names no authorization server"))?;
    Ok(Resource { resource, issuer, scopes: texts(&document, "scopes_supported") })
}

/// The metadata of an authorization server.
pub(super) async fn authorization_server(web: &Web<'_>, issuer: &str) -> Result<AuthorizationServer, McpError> {
    let url = Url::parse(issuer).map_err(|_| wrong("the authorization server is no URL"))?;
    let origin = url.origin().ascii_serialization();
    let path = url.path().trim_end_matches('/');
    let (oauth, openid) = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration");
    let mut places = vec![format!("{origin}{oauth}{path}"), format!("{origin}{openid}{path}")];
    if !path.is_empty() {
        places.push(format!("{origin}{path}{openid}"));
    }
    let mut found = None;
    for place in &places {
        found = web.document(place).await?;
        if found.is_some() {
            break;
        }
    }
    let document = found.ok_or_else(|| wrong(format!("the authorization server {issuer} has no metadata")))?;
    if text(&document, "issuer").as_deref() != Some(issuer) {
        return Err(wrong("the metadata of the authorization server is of another one"));
    }
    let methods = texts(&document, "code_challenge_methods_supported").unwrap_or_default();
    if !methods.iter().any(|method| method == "S256") {
        return Err(wrong("the authorization server does not take PKCE with S256"));
    }
    let needed =
        |key: &str| text(&document, key).ok_or_else(|| wrong(format!("the authorization server has no {key}")));
    let flag = |key: &str| document.get(key) == Some(&Value::Bool(true));
    Ok(AuthorizationServer {
        issuer: issuer.to_owned(),
        authorization_endpoint: needed("authorization_endpoint")?,
        token_endpoint: needed("token_endpoint")?,
        registration_endpoint: text(&document, "registration_endpoint"),
        scopes: texts(&document, "scopes_supported").unwrap_or_default(),
        auth_methods: texts(&document, "token_endpoint_auth_methods_supported").unwrap_or_default(),
        takes_document: flag("client_id_metadata_document_supported"),
        returns_issuer: flag("authorization_response_iss_parameter_supported"),
    })
}
