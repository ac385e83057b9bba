//! What the values become for the parts of the server, and which of them make no sense.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use toolcrib_api::{People, ServerSettings, Webhook, WebhookFormat, WebhookUrl};
use toolcrib_definition::PathParam;
use toolcrib_egress::{Client, DnsResolver, Limits, Policy, TcpDialler, TrustRoots};
use toolcrib_executor::{LedgerSettings, RecorderSettings};
use toolcrib_store::{Location, Retention};
use toolcrib_turn::{ProviderSettings, Providers, SecretLookup, TurnSettings, WireFormat};

use super::{Config, DatabaseUrl, List, ProviderConfig, WebhookConfig};

impl Config {
    pub(super) fn problems(&self) -> Vec<String> {
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
            ("ledger.quarantine", self.ledger.quarantine, 31_536_000),
            ("ledger.days", self.ledger.days, 36_500),
            ("turns.days", self.turns.days, 36_500),
            ("turns.max_running", self.turns.max_running as u64, 100_000),
            ("approvals.link_life", self.approvals.link_life, 31_536_000),
            ("approvals.expire_after", self.approvals.expire_after, 315_360_000),
            ("traces.count", self.traces.count, 1_000_000_000),
        ] {
            if value == 0 || value > most {
                problems.push(format!("{key} is {value}, and has to be from 1 to {most}"));
            }
        }
        for (i, webhook) in self.approvals.webhooks.iter().enumerate() {
            if let Err(error) = webhook.read() {
                problems.push(format!("approvals.webhooks[{i}]: {error:#}"));
            }
        }
        let names: std::collections::HashSet<&str> = self.approvals.webhooks.iter().map(|w| w.name.as_str()).collect();
        if names.len() < self.approvals.webhooks.len() {
            problems.push("approvals.webhooks: two have the same name".to_owned());
        }
        if !(500..=3_600_000).contains(&self.ledger.lease) {
            problems.push(format!("ledger.lease is {} ms, and has to be from 500 to 3600000", self.ledger.lease));
        }
        if !(500..=3_600_000).contains(&self.turns.lease) {
            problems.push(format!("turns.lease is {} ms, and has to be from 500 to 3600000", self.turns.lease));
        }
        for (name, provider) in &self.providers {
            if let Err(error) = provider.read() {
                problems.push(format!("providers.{name}: {error:#}"));
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

    /// Where the database is.
    pub fn location(&self) -> Location {
        match &self.store.url {
            Some(DatabaseUrl(location)) => location.clone(),
            None => Location::File(self.store.path.clone()),
        }
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

    /// How calls with side effects are kept, and people are asked.
    pub fn ledger_settings(&self) -> LedgerSettings {
        LedgerSettings {
            lease: Duration::from_millis(self.ledger.lease),
            quarantine: Duration::from_secs(self.ledger.quarantine),
            approval_time: Duration::from_secs(self.approvals.expire_after),
            notices: self.approvals.webhooks.iter().map(|webhook| webhook.name.clone()).collect(),
            retention: Duration::from_secs(self.ledger.days.saturating_mul(24 * 3600)),
        }
    }

    /// How people are reached. `client` is the way out for webhooks.
    pub fn people(&self, client: Client) -> People {
        // What can't be read was refused when the configuration was.
        let webhooks = self.approvals.webhooks.iter().filter_map(|webhook| webhook.read().ok()).collect();
        People {
            public_url: self.server.public_url.clone(),
            link_life: Duration::from_secs(self.approvals.link_life),
            webhooks,
            client: Some(client),
        }
    }

    /// How turns are kept.
    pub fn turn_settings(&self) -> TurnSettings {
        TurnSettings {
            lease: Duration::from_millis(self.turns.lease),
            max_running: self.turns.max_running,
            retention: Duration::from_secs(self.turns.days.saturating_mul(24 * 3600)),
            ..TurnSettings::default()
        }
    }

    /// The providers, whose keys are looked up when they are asked.
    ///
    /// # Errors
    /// When the address of one can't be used.
    pub fn build_providers(&self, secrets: &SecretLookup) -> anyhow::Result<Providers> {
        let (resolver, dialler, roots) = (Arc::new(DnsResolver::system()), Arc::new(TcpDialler), self.trust_roots()?);
        let mut providers = Providers::default();
        for (name, provider) in &self.providers {
            let settings = provider.read().with_context(|| format!("providers.{name}"))?;
            let (resolver, dialler) = (Arc::clone(&resolver), Arc::clone(&dialler));
            providers.add(name, &settings, resolver, dialler, &roots, Arc::clone(secrets))?;
        }
        Ok(providers)
    }

    /// How traces are queued and kept.
    pub fn recorder_settings(&self) -> RecorderSettings {
        let age = Duration::from_secs(self.traces.days.saturating_mul(24 * 3600));
        RecorderSettings { retention: Retention { age, count: self.traces.count }, ..RecorderSettings::default() }
    }
}

impl ProviderConfig {
    /// The settings.
    ///
    /// # Errors
    /// When the format is unknown, or a time makes no sense.
    fn read(&self) -> anyhow::Result<ProviderSettings> {
        let Some(format) = WireFormat::named(&self.format) else {
            let known = WireFormat::ALL.map(WireFormat::as_str).join(", ");
            bail!("there is no format {:?}; the formats are {known}", self.format);
        };
        for (key, seconds) in [("first_byte_timeout", self.first_byte_timeout), ("idle_timeout", self.idle_timeout)] {
            if seconds == 0 || seconds > 3_600 {
                bail!("{key} is {seconds}, and has to be from 1 to 3600");
            }
        }
        if self.retries > 10 {
            bail!("retries is {}, and has to be at most 10", self.retries);
        }
        Ok(ProviderSettings {
            base_url: self.base_url.clone().unwrap_or_else(|| format.default_base_url().to_owned()),
            api_key: self.api_key.clone(),
            allow_http: self.allow_http.0,
            allow_private: self.allow_private.0,
            first_byte_timeout: Duration::from_secs(self.first_byte_timeout),
            idle_timeout: Duration::from_secs(self.idle_timeout),
            retries: self.retries,
            ..ProviderSettings::new(format)
        })
    }
}

impl WebhookConfig {
    /// The webhook.
    ///
    /// # Errors
    /// When it has no name, not exactly one address, or an unknown format.
    fn read(&self) -> anyhow::Result<Webhook> {
        if self.name.trim().is_empty() || self.name.chars().count() > 100 {
            bail!("a webhook needs a name of at most 100 characters");
        }
        let url = match (&self.url, &self.url_secret) {
            (Some(url), None) => WebhookUrl::Plain(url.clone()),
            (None, Some(name)) => WebhookUrl::Secret(name.clone()),
            _ => bail!("a webhook has either a url or, in url_secret, the name of a secret that holds it"),
        };
        let format = match self.format.as_str() {
            "json" => WebhookFormat::Json,
            "slack" => WebhookFormat::Slack,
            other => bail!("the format is json or slack, not {other:?}"),
        };
        Ok(Webhook { name: self.name.clone(), url, format, secret: self.secret.clone() })
    }
}
