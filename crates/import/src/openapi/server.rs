//! The address that paths are appended to.

use serde_json::Value;
use url::Url;

use super::document::Document;
use crate::names::snake;
use crate::report::{ImportError, Options};

/// The base of these servers, or the one that was given, without a slash at its end.
pub(super) fn base_url(
    document: &Document<'_>,
    servers: Option<&Value>,
    options: &Options,
) -> Result<String, ImportError> {
    if let Some(given) = &options.base_url {
        return whole(given, None).ok_or_else(|| ImportError::NoServer { found: format!("the given {given:?}") });
    }
    let first = servers.and_then(|servers| servers.get(0)).and_then(|server| document.resolve(server).ok());
    // A document that names no server means the place where it is found.
    let written = first.map_or("/", |server| server.get("url").and_then(Value::as_str).unwrap_or("/"));
    let filled = first.map_or_else(|| written.to_owned(), |server| filled(written, server));
    whole(&filled, options.source.as_deref()).ok_or(ImportError::NoServer { found: format!("{written:?}") })
}

/// The address with its variables at their defaults.
fn filled(template: &str, server: &Value) -> String {
    let mut address = template.to_owned();
    for (name, variable) in server.get("variables").and_then(Value::as_object).into_iter().flatten() {
        if let Some(default) = variable.get("default").and_then(Value::as_str) {
            address = address.replace(&format!("{{{name}}}"), default);
        }
    }
    address
}

fn whole(address: &str, source: Option<&str>) -> Option<String> {
    if address.contains(['{', '}']) {
        return None;
    }
    let url = match Url::parse(address) {
        Ok(url) => url,
        Err(_) => Url::parse(source?).ok()?.join(address).ok()?,
    };
    let good = matches!(url.scheme(), "http" | "https") && url.has_host();
    good.then(|| url.as_str().split(['?', '#']).next().unwrap_or_default().trim_end_matches('/').to_owned())
}

/// The name of the site at an address: `github` of `https://api.github.com`.
pub(super) fn site(base_url: &str) -> String {
    let host = Url::parse(base_url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    let labels: Vec<&str> = host.split('.').filter(|label| !matches!(*label, "www" | "api" | "com")).collect();
    snake(labels.first().copied().unwrap_or_default())
}
