//! The configuration as a list of keys, for `config show` and the reference.

use serde_json::Value;

use crate::config::Config;

/// A key with its default and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigKey {
    /// The dotted name, such as `server.bind`.
    pub key: String,
    /// The default as JSON.
    pub default: Value,
    /// What it is for.
    pub meaning: &'static str,
}

const MEANINGS: &[(&str, &str)] = &[
    ("server.bind", "The address and port to listen on."),
    ("server.tls_cert", "A PEM file with the certificate chain; serves HTTPS together with tls_key."),
    ("server.tls_key", "A PEM file with the private key."),
    (
        "server.allow_plain_http",
        "Allows plain HTTP on an address that is not loopback, for a proxy in front that does TLS.",
    ),
    (
        "server.public_url",
        "Where this server is for a browser, such as https://tools.example.com, for links in messages.",
    ),
    ("server.header_timeout", "How long a client may take to send the head of a request, in seconds."),
    ("server.drain", "How long calls in flight may take to end after shutdown began, in seconds."),
    ("server.max_connections", "Connections at the same time; more wait."),
    ("store.path", "The SQLite file, made when it is not there."),
    (
        "store.url",
        "The database instead of path: postgres://user:password@host/database, or sqlite:FILE. Also --database-url.",
    ),
    ("store.poll", "How often changes of other processes are looked for, in ms."),
    ("egress.hosts", "When set, only these hosts: exact, or *.example.com. Also TOOLCRIB_EGRESS_HOSTS."),
    ("egress.deny_hosts", "Hosts that are never called."),
    ("egress.allow_http", "Allows plain http. Also TOOLCRIB_EGRESS_ALLOW_HTTP."),
    (
        "egress.allow_private",
        "Allows private and loopback addresses; metadata addresses stay blocked. Also TOOLCRIB_EGRESS_ALLOW_PRIVATE.",
    ),
    ("egress.allow_cidrs", "Networks that are allowed although they are not public."),
    ("egress.deny_cidrs", "Networks that are never called."),
    ("egress.ports", "When set, only these ports."),
    ("egress.nat64", "Judges NAT64 addresses as the IPv4 address inside."),
    ("egress.strict_paths", "Refuses slashes, backslashes and control characters in path values, encoded ones too."),
    ("egress.ca_file", "A PEM file with more certificate authorities."),
    ("egress.connect_timeout", "How long DNS, TCP and TLS may take together, in seconds."),
    ("egress.first_byte_timeout", "How long the first byte of an answer may take, in seconds."),
    ("egress.max_body", "The largest answer, in bytes, after decompression."),
    ("egress.in_flight_per_host", "Exchanges with one host at the same time; more wait."),
    (
        "secrets.dir",
        "A folder with one file a secret, as containers mount them. It stands before TOOLCRIB_SECRET_<NAME>.",
    ),
    ("traces.days", "Days that a trace is kept."),
    ("traces.count", "Traces that are kept at the most."),
    ("ledger.lease", "How long a process may be silent before its calls are taken over, in ms."),
    (
        "ledger.quarantine",
        "How long a call must have been in doubt before it may run again on a person's word, in seconds.",
    ),
    ("ledger.days", "Days that a settled call is kept, and with it the answer to a repeated call_id."),
    ("approvals.expire_after", "How long a person may take to decide, in seconds."),
    ("approvals.link_life", "How long a signed link is good, in seconds."),
    (
        "approvals.webhooks",
        "Who is told of a new approval: tables with name, url or url_secret, format (json or slack) and secret.",
    ),
    ("skills.roots", "Folders that hold <name>/SKILL.md. What is written over the API stands over them."),
    ("turns.lease", "How long a process may be silent before its turns are taken over, in ms."),
    ("turns.max_running", "Turns that run at the same time in this process; more wait."),
    ("turns.days", "Days that an ended turn is kept, and with it the history of its session."),
    (
        "manifest.env",
        "Variables that {{env.*}} may read: names, or * for all; none by default. Those that begin with TOOLCRIB_ never.",
    ),
    ("log.filter", "A tracing filter, such as info or toolcrib_egress=debug."),
    ("log.format", "text or json."),
];

/// Every key, in the order of the configuration.
pub fn keys() -> Vec<ConfigKey> {
    let meaning = |key: &str| MEANINGS.iter().find(|(known, _)| *known == key).map_or("", |(_, meaning)| *meaning);
    flatten(&Config::default())
        .into_iter()
        .map(|(key, default)| ConfigKey { meaning: meaning(&key), key, default })
        .collect()
}

/// A configuration as dotted keys and values.
pub fn flatten(config: &Config) -> Vec<(String, Value)> {
    let value = serde_json::to_value(config).unwrap_or(Value::Null);
    let sections = value.as_object().cloned().unwrap_or_default();
    let flat = sections.into_iter().flat_map(|(section, keys)| {
        let keys = keys.as_object().cloned().unwrap_or_default();
        keys.into_iter().map(move |(key, value)| (format!("{section}.{key}"), value))
    });
    flat.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_meaning_and_every_meaning_a_key() {
        let keys = keys();
        for key in &keys {
            assert!(!key.meaning.is_empty(), "{} has no meaning", key.key);
        }
        assert_eq!(keys.len(), MEANINGS.len());
    }
}
