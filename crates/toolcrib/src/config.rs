//! Configuration: defaults, then a file, then the environment, then flags.
//!
//! The file is `toolcrib.toml` in the working folder, or the one that `--config` names. In the
//! environment a key is `TOOLCRIB_<SECTION>__<KEY>`; the three main egress switches also have short
//! names. Every problem is said at once.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::{Deserialize, Serialize};
use toolcrib_api::ServerSettings;
use toolcrib_definition::PathParam;
use toolcrib_egress::{Limits, Policy, TrustRoots};
use toolcrib_executor::RecorderSettings;
use toolcrib_store::Retention;

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "toolcrib.toml";

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

/// A switch: true, false, 1, 0, yes, no, on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Flag(pub bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Scalar::deserialize(deserializer)?.0.to_ascii_lowercase();
        match text.as_str() {
            "true" | "1" | "yes" | "on" => Ok(Flag(true)),
            "false" | "0" | "no" | "off" | "" => Ok(Flag(false)),
            other => Err(serde::de::Error::custom(format!("{other:?} is no switch: write true or false"))),
        }
    }
}

/// A list, or text with commas.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct List(pub Vec<String>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = List;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list, or text with commas")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<List, E> {
                Ok(List(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<List, E> {
                Ok(List(vec![number.to_string()]))
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<List, E> {
                Ok(List(vec![number.to_string()]))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<List, A::Error> {
                let mut list = Vec::new();
                while let Some(Scalar(text)) = seq.next_element()? {
                    list.push(text);
                }
                Ok(List(list))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A scalar as text.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, a number or a switch")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }
            fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<Scalar, E> {
                Ok(Scalar(flag.to_string()))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            bind: "127.0.0.1:8470".to_owned(),
            tls_cert: None,
            tls_key: None,
            allow_plain_http: Flag(false),
            header_timeout: 10,
            drain: 60,
            max_connections: 4_096,
        }
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { path: PathBuf::from("toolcrib.db"), poll: 500 }
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

/// Flags that stand above everything else.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `server.bind`.
    pub bind: Option<String>,
    /// `store.path`.
    pub database: Option<PathBuf>,
}

/// A configuration with where each value came from.
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    figment: Figment,
}

impl Loaded {
    /// Where the value of a key such as `server.bind` came from, in words.
    pub fn origin(&self, key: &str) -> String {
        match self.figment.find_metadata(key) {
            Some(metadata) => match &metadata.source {
                Some(figment::Source::File(path)) => path.display().to_string(),
                _ => metadata.name.to_string(),
            },
            None => "default".to_owned(),
        }
    }
}

/// Reads the configuration.
///
/// # Errors
/// Every key that is unknown or of the wrong type, and every value that makes no sense, at once.
pub fn load(file: Option<&Path>, overrides: &Overrides) -> anyhow::Result<Loaded> {
    let mut figment = Figment::from(Named("default", Serialized::defaults(Config::default())));
    figment = match file {
        Some(path) if !path.is_file() => bail!("the configuration file {} is not there", path.display()),
        Some(path) => figment.merge(Toml::file_exact(path)),
        None => figment.merge(Toml::file(DEFAULT_FILE)),
    };
    figment = figment.merge(environment());
    let flag = |key: &str, value: &str| Named("flag", Serialized::default(key, value.to_owned()));
    if let Some(bind) = &overrides.bind {
        figment = figment.merge(flag("server.bind", bind));
    }
    if let Some(path) = &overrides.database {
        figment = figment.merge(flag("store.path", &path.to_string_lossy()));
    }
    let mut problems = Vec::new();
    let config = sections(&figment, &mut problems);
    problems.extend(config.problems());
    if !problems.is_empty() {
        bail!("the configuration has problems:\n  {}", problems.join("\n  "));
    }
    Ok(Loaded { config, figment })
}

/// Reads each section for itself, so that a fault in one does not hide those of the others.
fn sections(figment: &Figment, problems: &mut Vec<String>) -> Config {
    fn section<T: Default + serde::de::DeserializeOwned>(
        figment: &Figment,
        name: &str,
        problems: &mut Vec<String>,
    ) -> T {
        figment.extract_inner(name).unwrap_or_else(|errors| {
            problems.extend(errors.into_iter().map(|error| error.to_string()));
            T::default()
        })
    }
    let config = Config {
        server: section(figment, "server", problems),
        store: section(figment, "store", problems),
        egress: section(figment, "egress", problems),
        secrets: section(figment, "secrets", problems),
        traces: section(figment, "traces", problems),
        manifest: section(figment, "manifest", problems),
        log: section(figment, "log", problems),
    };
    if let Ok(known) = serde_json::to_value(&config)
        && let Ok(all) = figment.extract::<serde_json::Map<String, serde_json::Value>>()
    {
        for name in all.keys().filter(|name| known.get(name).is_none()) {
            problems.push(format!("there is no section {name:?}"));
        }
    }
    config
}

/// Variables that look like ours and are none: a typo in a safety switch should not pass in silence.
pub fn unknown_variables() -> Vec<String> {
    let known = [
        "TOOLCRIB_CONFIG",
        "TOOLCRIB_SERVER",
        "TOOLCRIB_TOKEN",
        "TOOLCRIB_EGRESS_HOSTS",
        "TOOLCRIB_EGRESS_ALLOW_HTTP",
        "TOOLCRIB_EGRESS_ALLOW_PRIVATE",
    ];
    // Kubernetes gives these to every pod beside a service called toolcrib.
    let of_kubernetes = |name: &str| {
        name.contains("_SERVICE_")
            || name == "TOOLCRIB_PORT"
            || name.starts_with("TOOLCRIB_PORT_")
            || name.contains("_TCP")
    };
    crate::secrets::variables()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("TOOLCRIB_") && !name.contains("__") && !name.starts_with("TOOLCRIB_SECRET_"))
        .filter(|name| !known.contains(&name.as_str()) && !of_kubernetes(name))
        .collect()
}

/// `TOOLCRIB_SECTION__KEY`, and the short names of the main egress switches. Everything else that
/// begins with `TOOLCRIB_` belongs to somebody else: secrets, and the command line's own.
fn environment() -> Env {
    Env::raw()
        .filter_map(|key| {
            let key = key.as_str().to_ascii_uppercase();
            let rest = key.strip_prefix("TOOLCRIB_")?;
            let name = match rest {
                "EGRESS_HOSTS" | "EGRESS_ALLOW_HTTP" | "EGRESS_ALLOW_PRIVATE" => rest.replacen('_', ".", 1),
                _ if rest.starts_with("SECRET_") || !rest.contains("__") => return None,
                _ => rest.replacen("__", ".", 1),
            };
            Some(name.to_ascii_lowercase().into())
        })
        .ignore_empty_values()
}

trait IgnoreEmpty {
    fn ignore_empty_values(self) -> Self;
}

impl IgnoreEmpty for Env {
    /// A variable that is set to nothing is one that is not set: compose files write them so.
    fn ignore_empty_values(self) -> Self {
        let empty: Vec<String> =
            self.iter().filter(|(_, value)| value.is_empty()).map(|(key, _)| key.to_string()).collect();
        self.filter(move |key| !empty.iter().any(|name| key == name.as_str()))
    }
}

/// A provider under another name, for `config show`.
struct Named<P>(&'static str, P);

impl<P: figment::Provider> figment::Provider for Named<P> {
    fn metadata(&self) -> figment::Metadata {
        figment::Metadata::named(self.0)
    }

    fn data(&self) -> Result<figment::value::Map<figment::Profile, figment::value::Dict>, figment::Error> {
        self.1.data()
    }
}

impl Config {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Err(error) = self.bind_address() {
            problems.push(format!("{error:#}"));
        } else if let Err(error) = self.check_exposure() {
            problems.push(format!("{error:#}"));
        }
        if self.server.tls_cert.is_some() != self.server.tls_key.is_some() {
            problems.push("server.tls_cert and server.tls_key go together".to_owned());
        }
        if let Err(error) = self.policy() {
            problems.push(format!("{error:#}"));
        }
        for (key, value, most) in [
            ("server.header_timeout", self.server.header_timeout, 3_600),
            ("server.drain", self.server.drain, 86_400),
            ("server.max_connections", self.server.max_connections as u64, 1_000_000),
            ("egress.connect_timeout", self.egress.connect_timeout, 600),
            ("egress.first_byte_timeout", self.egress.first_byte_timeout, 600),
            ("egress.max_body", self.egress.max_body as u64, 1 << 30),
            ("egress.in_flight_per_host", self.egress.in_flight_per_host as u64, 100_000),
            ("store.poll", self.store.poll, 3_600_000),
            ("traces.days", self.traces.days, 36_500),
        ] {
            if value == 0 || value > most {
                problems.push(format!("{key} is {value}, and has to be from 1 to {most}"));
            }
        }
        if !matches!(self.log.format.as_str(), "text" | "json") {
            problems.push(format!("log.format is text or json, not {:?}", self.log.format));
        }
        problems
    }

    /// The address to listen on.
    ///
    /// # Errors
    /// When `server.bind` is no address with a port.
    pub fn bind_address(&self) -> anyhow::Result<SocketAddr> {
        let bind = self.server.bind.replace("localhost:", "127.0.0.1:");
        bind.parse().with_context(|| {
            format!("server.bind {:?} is no address and port, such as 127.0.0.1:8470", self.server.bind)
        })
    }

    /// Refuses to send tokens over a network in the clear by accident.
    fn check_exposure(&self) -> anyhow::Result<()> {
        let address = self.bind_address()?;
        if address.ip().is_loopback() || self.server.tls_cert.is_some() || self.server.allow_plain_http.0 {
            return Ok(());
        }
        bail!(
            "server.bind {address} is not loopback, and tokens would cross the network in the clear: set server.tls_cert \
             and server.tls_key, or server.allow_plain_http = true when a proxy in front does TLS"
        )
    }

    /// The egress policy.
    ///
    /// # Errors
    /// When a host, network or port can't be read.
    pub fn policy(&self) -> anyhow::Result<Policy> {
        let egress = &self.egress;
        let hosts = |list: &List| list.0.iter().map(|host| Ok(host.parse()?)).collect::<anyhow::Result<Vec<_>>>();
        let nets = |key: &str, list: &List| {
            let net = |text: &String| {
                // An address alone is the network of that address.
                let alone = text.parse::<std::net::IpAddr>().map(ipnet::IpNet::from);
                alone.or_else(|_| text.parse()).with_context(|| {
                    format!("egress.{key}: {text:?} is no network, such as 10.1.0.0/16, and no address")
                })
            };
            list.0.iter().map(net).collect::<anyhow::Result<Vec<_>>>()
        };
        if egress.hosts.as_ref().is_some_and(|hosts| hosts.0.is_empty()) {
            bail!("egress.hosts is an empty list, so nothing could be called; name hosts, or leave it out");
        }
        let port = |text: &String| text.parse::<u16>().with_context(|| format!("egress.ports: {text:?} is no port"));
        Ok(Policy {
            allow_http: egress.allow_http.0,
            hosts: egress.hosts.as_ref().map(hosts).transpose().context("egress.hosts")?,
            deny_hosts: hosts(&egress.deny_hosts).context("egress.deny_hosts")?,
            ports: egress.ports.as_ref().map(|list| list.0.iter().map(port).collect()).transpose()?,
            deny_cidrs: nets("deny_cidrs", &egress.deny_cidrs)?,
            allow_cidrs: nets("allow_cidrs", &egress.allow_cidrs)?,
            allow_private: egress.allow_private.0,
            nat64: egress.nat64.0,
            path_param: if egress.strict_paths.0 { PathParam::Strict } else { PathParam::Encode },
            ..Policy::default()
        })
    }

    /// The bounds of an exchange.
    pub fn limits(&self) -> Limits {
        Limits {
            connect: Duration::from_secs(self.egress.connect_timeout),
            first_byte: Duration::from_secs(self.egress.first_byte_timeout),
            body_bytes: self.egress.max_body,
            in_flight_per_host: self.egress.in_flight_per_host,
            ..Limits::default()
        }
    }

    /// The certificate authorities that upstreams are checked against.
    ///
    /// # Errors
    /// When `egress.ca_file` can't be read.
    pub fn trust_roots(&self) -> anyhow::Result<TrustRoots> {
        let mut roots = TrustRoots::system();
        if let Some(path) = &self.egress.ca_file {
            let pem =
                std::fs::read(path).with_context(|| format!("egress.ca_file {} can't be read", path.display()))?;
            roots.extra_pem.push(pem);
        }
        Ok(roots)
    }

    /// Bounds of the serving side.
    pub fn server_settings(&self) -> ServerSettings {
        ServerSettings {
            header_timeout: Duration::from_secs(self.server.header_timeout),
            drain: Duration::from_secs(self.server.drain),
            max_connections: self.server.max_connections,
            ..ServerSettings::default()
        }
    }

    /// How traces are queued and kept.
    pub fn recorder_settings(&self) -> RecorderSettings {
        let age = Duration::from_secs(self.traces.days.saturating_mul(24 * 3600));
        RecorderSettings { retention: Retention { age, count: self.traces.count }, ..RecorderSettings::default() }
    }
}
