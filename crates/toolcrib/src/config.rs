//! Configuration: defaults, then a file, then the environment, then flags.
//!
//! The file is `toolcrib.toml` in the working folder, or the one that `--config` names. In the
//! environment a key is `TOOLCRIB_<SECTION>__<KEY>`; the three main egress switches also have short
//! names. Every problem is said at once.

mod layers;
mod settings;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toolcrib_egress::Limits;

pub use self::layers::{DEFAULT_FILE, Loaded, Overrides, load, unknown_variables};
pub use self::values::{DatabaseUrl, Flag, List};

/// Everything that can be configured.
#[derive(Debug, Clone, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How the API is served.
    pub server: ServerConfig,
    /// Where the rows are.
    pub store: StoreConfig,
    /// Where calls may go.
    pub egress: EgressConfig,
    /// Where secrets come from.
    pub secrets: SecretsConfig,
    /// How long traces are kept.
    pub traces: TracesConfig,
    /// How calls with side effects are kept.
    pub ledger: LedgerConfig,
    /// How people are asked.
    pub approvals: ApprovalsConfig,
    /// The providers of models, by name.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Where skills are seeded from.
    pub skills: SkillsConfig,
    /// How turns are kept.
    pub turns: TurnsConfig,
    /// What manifests may read.
    pub manifest: ManifestConfig,
    /// What is logged.
    pub log: LogConfig,
}

/// How the API is served.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// The address and port to listen on.
    pub bind: String,
    /// A PEM file with the certificate chain; serves HTTPS together with tls_key.
    pub tls_cert: Option<PathBuf>,
    /// A PEM file with the private key.
    pub tls_key: Option<PathBuf>,
    /// Allows plain HTTP on an address that is not loopback, for a proxy in front that does TLS.
    pub allow_plain_http: Flag,
    /// Where this server is for a browser, such as `https://tools.example.com`, for links in messages.
    pub public_url: Option<String>,
    /// How long a client may take to send the head of a request, in seconds.
    pub header_timeout: u64,
    /// How long calls in flight may take to end after shutdown began, in seconds.
    pub drain: u64,
    /// Connections at the same time.
    pub max_connections: usize,
}

/// Where the rows are.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// The SQLite file, made when it is not there.
    pub path: PathBuf,
    /// The database instead of `path`: `postgres://user:password@host/database`, or `sqlite:FILE`.
    pub url: Option<DatabaseUrl>,
    /// How often changes of other processes are looked for, in ms.
    pub poll: u64,
}

/// Where calls may go.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressConfig {
    /// When set, only these hosts: exact, or *.example.com. Short name TOOLCRIB_EGRESS_HOSTS.
    pub hosts: Option<List>,
    /// Hosts that are never called.
    pub deny_hosts: List,
    /// Allows plain http. Short name TOOLCRIB_EGRESS_ALLOW_HTTP.
    pub allow_http: Flag,
    /// Allows private and loopback addresses; metadata addresses stay blocked. Short name TOOLCRIB_EGRESS_ALLOW_PRIVATE.
    pub allow_private: Flag,
    /// Networks that are allowed although they are not public.
    pub allow_cidrs: List,
    /// Networks that are never called.
    pub deny_cidrs: List,
    /// When set, only these ports.
    pub ports: Option<List>,
    /// Judges NAT64 addresses as the IPv4 address inside.
    pub nat64: Flag,
    /// Refuses slashes, backslashes and control characters in path values, encoded ones too.
    pub strict_paths: Flag,
    /// A PEM file with more certificate authorities.
    pub ca_file: Option<PathBuf>,
    /// How long DNS, TCP and TLS may take together, in seconds.
    pub connect_timeout: u64,
    /// How long the first byte of an answer may take, in seconds.
    pub first_byte_timeout: u64,
    /// The largest answer, in bytes, after decompression.
    pub max_body: usize,
    /// Exchanges with one host at the same time.
    pub in_flight_per_host: usize,
}

/// Where secrets come from: `TOOLCRIB_SECRET_<NAME>` and a folder.
#[derive(Debug, Clone, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct SecretsConfig {
    /// A folder with one file a secret, as containers mount them.
    pub dir: Option<PathBuf>,
}

/// How calls with side effects are kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerConfig {
    /// How long a process may be silent before its calls are taken over, in ms.
    pub lease: u64,
    /// How long a call must have been in doubt before it may run again on a person's word, in seconds.
    pub quarantine: u64,
    /// Days that a settled call is kept, and with it the answer to a repeated call_id.
    pub days: u64,
}

impl Default for LedgerConfig {
    fn default() -> Self {
        Self { lease: 15_000, quarantine: 60, days: 30 }
    }
}

/// How people are asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalsConfig {
    /// How long a person may take to decide, in seconds.
    pub expire_after: u64,
    /// How long a signed link is good, in seconds.
    pub link_life: u64,
    /// Who is told of a new approval.
    pub webhooks: Vec<WebhookConfig>,
}

/// Somebody who is told of a new approval.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    /// Its name, under which what is still to be sent is kept.
    pub name: String,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The name of the secret that holds the address, instead of `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_secret: Option<String>,
    /// `json`, signed as Standard Webhooks describes, or `slack`.
    #[serde(default = "json")]
    pub format: String,
    /// The name of the secret that messages are signed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

fn json() -> String {
    "json".to_owned()
}

impl Default for ApprovalsConfig {
    fn default() -> Self {
        Self { expire_after: 7 * 24 * 3600, link_life: 24 * 3600, webhooks: Vec::new() }
    }
}

/// A provider of models.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// `openai` (Chat Completions, and whatever speaks like it), `openai-responses`, `anthropic` or `gemini`.
    pub format: String,
    /// Where it is; its maker's own address when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The name of the secret that is its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// Allows plain http to it.
    #[serde(default)]
    pub allow_http: Flag,
    /// Allows that its address is private, as that of a model on this machine is.
    #[serde(default)]
    pub allow_private: Flag,
    /// How long the beginning of an answer may take, in seconds.
    #[serde(default = "a_minute")]
    pub first_byte_timeout: u64,
    /// How long an answer may say nothing, in seconds.
    #[serde(default = "a_minute")]
    pub idle_timeout: u64,
    /// How often a request is tried anew.
    #[serde(default = "two")]
    pub retries: usize,
}

fn a_minute() -> u64 {
    60
}

fn two() -> usize {
    2
}

/// Where skills are seeded from.
#[derive(Debug, Clone, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct SkillsConfig {
    /// Folders that hold `<name>/SKILL.md`. What is written over the API stands over them.
    pub roots: List,
}

/// How turns are kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnsConfig {
    /// How long a process may be silent before its turns are taken over, in ms.
    pub lease: u64,
    /// Days that an ended turn is kept, and with it the history of its session.
    pub days: u64,
    /// Turns that run at the same time in this process; more wait.
    pub max_running: usize,
}

impl Default for TurnsConfig {
    fn default() -> Self {
        Self { lease: 15_000, days: 30, max_running: 256 }
    }
}

/// How long traces are kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracesConfig {
    /// Days that a trace is kept.
    pub days: u64,
    /// Traces that are kept at the most.
    pub count: u64,
}

/// What manifests may read.
#[derive(Debug, Clone, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct ManifestConfig {
    /// Variables that {{env.*}} may read: names, or * for all. Those of Toolcrib itself never.
    pub env: List,
}

/// What is logged.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// A tracing filter, such as info or toolcrib_egress=debug.
    pub filter: String,
    /// text or json.
    pub format: String,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            bind: "127.0.0.1:8470".to_owned(),
            tls_cert: None,
            tls_key: None,
            allow_plain_http: Flag(false),
            public_url: None,
            header_timeout: 10,
            drain: 60,
            max_connections: 4_096,
        }
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { path: PathBuf::from("toolcrib.db"), url: None, poll: 500 }
    }
}

impl Default for EgressConfig {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            hosts: None,
            deny_hosts: List::default(),
            allow_http: Flag(false),
            allow_private: Flag(false),
            allow_cidrs: List::default(),
            deny_cidrs: List::default(),
            ports: None,
            nat64: Flag(false),
            strict_paths: Flag(false),
            ca_file: None,
            connect_timeout: limits.connect.as_secs(),
            first_byte_timeout: limits.first_byte.as_secs(),
            max_body: limits.body_bytes,
            in_flight_per_host: limits.in_flight_per_host,
        }
    }
}

impl Default for TracesConfig {
    fn default() -> Self {
        Self { days: 30, count: 1_000_000 }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: "text".to_owned() }
    }
}
