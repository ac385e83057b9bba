//! The `mcpServers` JSON of desktop clients, in and out.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::server::{MAX_SERVER_NAME, McpServer, TransportName};

/// What an `mcpServers` document gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServersImport {
    /// The servers that can be rows.
    pub servers: Vec<McpServer>,
    /// Those that can't, with the reason.
    pub refused: Vec<RefusedServer>,
    /// Secrets that were taken out of the document and have to be set under these names.
    pub secrets: Vec<String>,
}

/// A server that can't be a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedServer {
    /// Its key in the document.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Header names whose values are secrets.
const SECRET_WORDS: [&str; 7] = ["auth", "cookie", "key", "token", "secret", "password", "credential"];
/// Beginnings of a value that are a scheme and no secret.
const SCHEMES: [&str; 4] = ["Bearer ", "Basic ", "Token ", "token "];
const VARIABLE: &str = "TOOLCRIB_SECRET_";

/// Reads an `mcpServers` document. Values of secret headers are replaced by references; the values
/// themselves are dropped, and the names to set are listed.
///
/// # Errors
/// What is wrong with the document as a whole.
pub fn read_servers(document: &Value) -> Result<ServersImport, String> {
    let servers = ["mcpServers", "servers"].iter().find_map(|key| document.get(*key)?.as_object());
    let Some(servers) = servers else {
        return Err("the document has no mcpServers object".to_owned());
    };
    let mut out = ServersImport { servers: Vec::new(), refused: Vec::new(), secrets: Vec::new() };
    for (key, entry) in servers {
        match read_server(key, entry, &mut out.secrets) {
            Ok(server) if out.servers.iter().any(|known| known.name == server.name) => {
                let reason = format!("its name becomes {}, which another server has", server.name);
                out.refused.push(RefusedServer { name: key.clone(), reason });
            }
            Ok(server) => out.servers.push(server),
            Err(reason) => out.refused.push(RefusedServer { name: key.clone(), reason }),
        }
    }
    out.secrets.sort();
    out.secrets.dedup();
    Ok(out)
}

fn read_server(key: &str, entry: &Value, secrets: &mut Vec<String>) -> Result<McpServer, String> {
    let name = slug(key);
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let url = ["url", "serverUrl", "httpUrl"].iter().find_map(|key| text(key));
    let Some(url) = url else {
        return Err("it is a command that speaks over stdio, and Toolcrib starts no programs; run it behind a bridge \
                    that serves streamable HTTP, and give its url"
            .to_owned());
    };
    if let Some((_, query)) = url.split_once('?')
        && let Some(word) = SECRET_WORDS.iter().find(|word| query.to_ascii_lowercase().contains(*word))
    {
        return Err(format!("its url holds a {word} in the query, where a secret may not stand; use a header"));
    }
    let transport = match text("type").or_else(|| text("transport")) {
        Some("sse") => TransportName::Sse,
        _ => TransportName::Http,
    };
    let mut headers = Map::new();
    let mut found = Vec::new();
    for (header, value) in entry.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().ok_or_else(|| format!("the header {header} is no text"))?;
        headers.insert(header.clone(), reference(&name, header, value, &mut found).into());
    }
    let enabled = entry.get("disabled") != Some(&Value::Bool(true));
    let value = json!({ "name": name, "url": url, "transport": transport, "headers": headers, "enabled": enabled });
    let server = McpServer::from_value(&value).map_err(|problems| problems.to_string())?;
    secrets.extend(found);
    Ok(server)
}

/// A header value with references in the place of secrets.
fn reference(server: &str, header: &str, value: &str, secrets: &mut Vec<String>) -> String {
    if value.replace(' ', "").contains("{{secret.") {
        return value.to_owned();
    }
    let name_of = |text: &str| {
        let clean = |ch: char| if ch.is_ascii_alphanumeric() { ch.to_ascii_lowercase() } else { '_' };
        text.chars().map(clean).collect::<String>().trim_matches('_').to_owned()
    };
    // ${NAME}, ${env:NAME} and ${input:name} of desktop clients name a secret already.
    if let Some((before, rest)) = value.split_once("${")
        && let Some((inside, after)) = rest.split_once('}')
    {
        // ${NAME:-default}: the default is dropped, it may be a secret itself.
        let named = inside.split_once(":-").map_or(inside, |(named, _)| named);
        let variable = named.rsplit(':').next().unwrap_or(named);
        let name = name_of(variable.strip_prefix(VARIABLE).unwrap_or(variable));
        secrets.push(format!("{VARIABLE}{}", name.to_ascii_uppercase()));
        return format!("{before}{{{{secret.{name}}}}}{after}");
    }
    let lower = header.to_ascii_lowercase();
    if !SECRET_WORDS.iter().any(|word| lower.contains(word)) {
        return value.to_owned();
    }
    let name = format!("{}_{}", name_of(server), name_of(header));
    secrets.push(format!("{VARIABLE}{}", name.to_ascii_uppercase()));
    let scheme = SCHEMES.iter().find(|scheme| value.starts_with(*scheme)).copied().unwrap_or_default();
    format!("{scheme}{{{{secret.{name}}}}}")
}

/// Servers as an `mcpServers` document. A secret is `${TOOLCRIB_SECRET_NAME}`, which clients read from
/// their environment.
pub fn write_servers<'a>(servers: impl IntoIterator<Item = &'a McpServer>) -> Value {
    let entry = |server: &McpServer| {
        let kind = if server.transport == TransportName::Sse { "sse" } else { "http" };
        let mut out = Map::new();
        out.insert("type".into(), kind.into());
        out.insert("url".into(), server.url.as_str().into());
        if !server.headers.is_empty() {
            let header = |(name, value): (&String, &Value)| (name.clone(), exported(value).into());
            out.insert("headers".into(), Value::Object(server.headers.iter().map(header).collect()));
        }
        if !server.enabled {
            out.insert("disabled".into(), true.into());
        }
        (server.name.clone(), Value::Object(out))
    };
    json!({ "mcpServers": servers.into_iter().map(entry).collect::<Map<_, _>>() })
}

fn exported(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inside, tail)) = after.split_once("}}") else { break };
        out.push_str(before);
        match inside.trim().strip_prefix("secret.") {
            Some(name) => out.push_str(&format!("${{{VARIABLE}{}}}", name.to_ascii_uppercase())),
            None => out.push_str(&format!("{{{{{inside}}}}}")),
        }
        rest = tail;
    }
    out + rest
}

/// A key as the name of a server.
fn slug(key: &str) -> String {
    let clean = |ch: char| if ch.is_ascii_alphanumeric() || ch == '_' { ch.to_ascii_lowercase() } else { '-' };
    let text: String = key.chars().map(clean).collect();
    let text = text.trim_matches(['-', '_']);
    let text = if text.starts_with(|ch: char| ch.is_ascii_lowercase()) { text.to_owned() } else { format!("s-{text}") };
    text.chars().take(MAX_SERVER_NAME).collect()
}
