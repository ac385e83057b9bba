//! Who we are, the authorization code, and the token.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::metadata::AuthorizationServer;
use super::{ClientIdentity, UserAgent, Web};
use crate::error::McpError;

/// A client as an authorization server knows it.
#[derive(Clone)]
pub(super) struct Registered {
    id: String,
    secret: Option<SecretString>,
    /// How it shows who it is at the token endpoint.
    method: String,
}

fn wrong(words: impl Into<String>) -> McpError {
    McpError::OAuth(words.into())
}

/// The identity that was given, else a metadata document, else a registration (RFC 7591).
pub(super) async fn identify(
    web: &Web<'_>,
    server: &AuthorizationServer,
    identity: &ClientIdentity,
    redirect_uri: &str,
    scopes: &BTreeSet<String>,
) -> Result<Registered, McpError> {
    let offered = |default: &str| server.auth_methods.first().map_or_else(|| default.to_owned(), Clone::clone);
    if let Some(id) = &identity.client_id {
        let secret = identity.client_secret.clone();
        let method = if secret.is_some() { offered("client_secret_basic") } else { "none".to_owned() };
        return Ok(Registered { id: id.clone(), secret, method });
    }
    if let Some(document) = identity.metadata_document.as_ref().filter(|_| server.takes_document) {
        return Ok(Registered { id: document.clone(), secret: None, method: "none".to_owned() });
    }
    let Some(endpoint) = &server.registration_endpoint else {
        return Err(wrong("the authorization server takes no registration; give a client id"));
    };
    let method = offered("none");
    let mut body = json!({
        "client_name": "Toolcrib", "application_type": "native", "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
        "token_endpoint_auth_method": method,
    });
    if !scopes.is_empty() {
        body["scope"] = joined(scopes).into();
    }
    let answer = web.post(endpoint, "application/json", HeaderMap::new(), body.to_string()).await?;
    let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
    Ok(Registered {
        id: text("client_id").ok_or_else(|| wrong("the registration gave no client_id"))?,
        secret: text("client_secret").map(SecretString::from),
        method: text("token_endpoint_auth_method").unwrap_or(method),
    })
}

fn joined(scopes: &BTreeSet<String>) -> String {
    scopes.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// Asks the person, and takes the code for a token.
pub(super) async fn obtain(
    web: &Web<'_>,
    server: &AuthorizationServer,
    resource: &str,
    client: &Registered,
    scopes: &BTreeSet<String>,
    agent: &dyn UserAgent,
) -> Result<SecretString, McpError> {
    let (verifier, state) = (random_text()? + &random_text()?, random_text()?);
    let redirect_uri = agent.redirect_uri();
    let mut url =
        Url::parse(&server.authorization_endpoint).map_err(|_| wrong("the authorization endpoint is no URL"))?;
    {
        let mut query = url.query_pairs_mut();
        query.append_pair("response_type", "code").append_pair("client_id", &client.id);
        query.append_pair("redirect_uri", &redirect_uri).append_pair("state", &state);
        query.append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes())));
        query.append_pair("code_challenge_method", "S256").append_pair("resource", resource);
        if !scopes.is_empty() {
            query.append_pair("scope", &joined(scopes));
        }
    }
    let returned = agent.visit(url.as_str(), web.deadline).await.map_err(wrong)?;
    let returned = Url::parse(&returned).map_err(|_| wrong("the browser was sent back to no URL"))?;
    let value = |name: &str| returned.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    if value("state").as_deref() != Some(state.as_str()) {
        return Err(wrong("the answer of the authorization server is to another question"));
    }
    match value("iss") {
        Some(issuer) if issuer != server.issuer => return Err(wrong("another authorization server answered")),
        None if server.returns_issuer => return Err(wrong("the authorization server does not say who it is")),
        _ => {}
    }
    if let Some(error) = value("error") {
        return Err(wrong(format!("the authorization was refused: {}", error.chars().take(100).collect::<String>())));
    }
    let code = value("code").ok_or_else(|| wrong("the authorization server gave no code"))?;

    let (headers, form) = token_request(&code, &redirect_uri, &verifier, resource, client)?;
    let kind = "application/x-www-form-urlencoded";
    let answer = web.post(&server.token_endpoint, kind, headers, form).await?;
    let token = answer.get("access_token").and_then(Value::as_str).filter(|token| !token.is_empty());
    token.map(SecretString::from).ok_or_else(|| wrong("the token endpoint gave no access_token"))
}

/// The headers and the form of a token request (RFC 6749, section 4.1.3).
fn token_request(
    code: &str,
    redirect_uri: &str,
    verifier: &str,
    resource: &str,
    client: &Registered,
) -> Result<(HeaderMap, String), McpError> {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code").append_pair("code", code);
    form.append_pair("redirect_uri", redirect_uri).append_pair("code_verifier", verifier);
    form.append_pair("resource", resource);
    let mut headers = HeaderMap::new();
    let secret = client.secret.as_ref().map(ExposeSecret::expose_secret).unwrap_or_default();
    if client.method == "client_secret_basic" {
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let basic = STANDARD.encode(format!("{}:{}", encoded(&client.id), encoded(secret)));
        let mut value = HeaderValue::from_str(&format!("Basic {basic}")).map_err(|_| wrong("the client id"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    } else {
        form.append_pair("client_id", &client.id);
        if client.method == "client_secret_post" {
            form.append_pair("client_secret", secret);
        }
    }
    Ok((headers, form.finish()))
}

/// 32 hexadecimal digits that nobody can guess.
fn random_text() -> Result<String, McpError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| wrong("the operating system gives no randomness"))?;
    Ok(bytes.iter().flat_map(|b| [b >> 4, b & 15]).filter_map(|digit| char::from_digit(digit.into(), 16)).collect())
}
