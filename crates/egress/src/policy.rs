//! Where calls may go.

use std::net::IpAddr;
use std::sync::LazyLock;

use ipnet::IpNet;
use toolcrib_definition::PathParam;

use crate::address::{AddressClass, classify, isatap_inner, nat64_inner};
use crate::blocked::{BlockReason, Blocked};

/// Host names that never leave the machine, the cluster or the house.
pub const BUILTIN_DENIED_HOSTS: [&str; 10] = [
    "localhost",
    "*.localhost",
    "*.local",
    "*.internal",
    "*.home.arpa",
    "*.onion",
    "instance-data.ec2.internal",
    "kubernetes.default.svc",
    "*.svc",
    "*.cluster.local",
];

static BUILTIN_DENIED: LazyLock<Vec<HostPattern>> =
    LazyLock::new(|| BUILTIN_DENIED_HOSTS.iter().filter_map(|text| text.parse().ok()).collect());

/// A host, or every host below one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// This host.
    Exact(String),
    /// Every host that ends with this, which begins with a dot.
    Below(String),
}

/// A text that is no host pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no host pattern; write a host (api.example.com) or every host below one (*.example.com), without a port"
)]
pub struct InvalidHostPattern(pub String);

impl std::str::FromStr for HostPattern {
    type Err = InvalidHostPattern;

    fn from_str(text: &str) -> Result<Self, InvalidHostPattern> {
        let lower = text.trim().to_ascii_lowercase();
        let plain = |host: &str| {
            !host.is_empty()
                && !host.starts_with('.')
                && !host.ends_with('.')
                && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        let address = lower.trim_start_matches('[').trim_end_matches(']');
        if address.parse::<std::net::Ipv6Addr>().is_ok() {
            return Ok(HostPattern::Exact(address.to_owned()));
        }
        match lower.strip_prefix("*.") {
            Some(parent) if plain(parent) => Ok(HostPattern::Below(format!(".{parent}"))),
            None if plain(&lower) => Ok(HostPattern::Exact(lower)),
            _ => Err(InvalidHostPattern(text.to_owned())),
        }
    }
}

impl HostPattern {
    /// Whether a host in lower case matches.
    fn matches(&self, host: &str) -> bool {
        match self {
            HostPattern::Exact(exact) => exact == host,
            HostPattern::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
        }
    }
}

/// What to do when a name resolves to allowed and blocked addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MixedAnswers {
    /// Refuse the whole set.
    #[default]
    Deny,
    /// Go to the allowed ones only.
    Filter,
}

/// Where calls may go. The default is the product's: `https` to public addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether plain `http` is allowed beside `https`.
    pub allow_http: bool,
    /// Whether `https` is allowed.
    pub allow_https: bool,
    /// When set, only these hosts.
    pub hosts: Option<Vec<HostPattern>>,
    /// Hosts that are refused whatever `hosts` says.
    pub deny_hosts: Vec<HostPattern>,
    /// Whether [`BUILTIN_DENIED_HOSTS`] are refused too; one that is named exactly in `hosts` is not.
    pub deny_builtin_hosts: bool,
    /// When set, only these ports.
    pub ports: Option<Vec<u16>>,
    /// Whether a URL may name an address instead of a host.
    pub ip_literals: bool,
    /// What to do when only some addresses of a host are allowed.
    pub mixed_answers: MixedAnswers,
    /// Networks that are refused first of all.
    pub deny_cidrs: Vec<IpNet>,
    /// Networks that are allowed although they are not public.
    pub allow_cidrs: Vec<IpNet>,
    /// Whether private and loopback addresses are allowed. Metadata addresses stay blocked.
    pub allow_private: bool,
    /// Whether NAT64 addresses are judged as the IPv4 address inside.
    pub nat64: bool,
    /// How many redirects a reading client follows; 0 follows none.
    pub max_redirects: u8,
    /// What values in a path may hold.
    pub path_param: PathParam,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            allow_http: false,
            allow_https: true,
            hosts: None,
            deny_hosts: Vec::new(),
            deny_builtin_hosts: true,
            ports: None,
            ip_literals: true,
            mixed_answers: MixedAnswers::Deny,
            deny_cidrs: Vec::new(),
            allow_cidrs: Vec::new(),
            allow_private: false,
            nat64: false,
            max_redirects: 0,
            path_param: PathParam::Encode,
        }
    }
}

impl Policy {
    /// Whether `hosts` names this host exactly.
    pub(crate) fn names_exactly(&self, host: &str) -> bool {
        let named = |pattern: &HostPattern| matches!(pattern, HostPattern::Exact(exact) if exact == host);
        self.hosts.iter().flatten().any(named)
    }

    /// Judges a host name in lower case, without brackets.
    pub(crate) fn judge_host(&self, host: &str) -> Result<(), Blocked> {
        if self.deny_hosts.iter().any(|pattern| pattern.matches(host)) {
            return Err(Blocked::new(BlockReason::HostDenied, host, "the host is on the deny list"));
        }
        if self.deny_builtin_hosts
            && !self.allow_private
            && !self.names_exactly(host)
            && BUILTIN_DENIED.iter().any(|pattern| pattern.matches(host))
        {
            return Err(Blocked::new(
                BlockReason::HostDenied,
                host,
                "the name is a local one; to allow it, name it in the egress hosts or allow private addresses",
            ));
        }
        match &self.hosts {
            Some(hosts) if !hosts.iter().any(|pattern| pattern.matches(host)) => Err(Blocked::new(
                BlockReason::HostNotAllowed,
                host,
                "the host is not on the egress allowlist; add it to the egress hosts",
            )),
            _ => Ok(()),
        }
    }

    /// Judges an address that is about to be dialled.
    ///
    /// # Errors
    /// [`Blocked`] with the class of the address.
    pub fn judge_address(&self, address: IpAddr) -> Result<(), Blocked> {
        let address = address.to_canonical();
        let blocked = |class: AddressClass| {
            let detail = match class {
                AddressClass::Metadata => "a cloud metadata address is never reached",
                AddressClass::Private | AddressClass::Loopback => {
                    "the address is not public; allow private addresses, or this network"
                }
                _ => "the address is not public; allow its network to reach it",
            };
            Err(Blocked::new(BlockReason::Address(class), &address.to_string(), detail))
        };
        if self.deny_cidrs.iter().any(|net| contains(net, address)) {
            return Err(Blocked::new(BlockReason::NetworkDenied, &address.to_string(), "the network is denied"));
        }
        let class = classify(address);
        if class == AddressClass::Metadata {
            let exact = |net: &IpNet| net.prefix_len() == net.max_prefix_len() && contains(net, address);
            return if self.allow_cidrs.iter().any(exact) { Ok(()) } else { blocked(class) };
        }
        if self.allow_cidrs.iter().any(|net| contains(net, address)) {
            return Ok(());
        }
        if class == AddressClass::Nat64
            && self.nat64
            && let Some(inner) = nat64_inner(address)
        {
            return self.judge_address(IpAddr::V4(inner));
        }
        match class {
            AddressClass::Public => match isatap_inner(address) {
                Some(inner) => self.judge_address(IpAddr::V4(inner)),
                None => Ok(()),
            },
            AddressClass::Private | AddressClass::Loopback if self.allow_private => Ok(()),
            other => blocked(other),
        }
    }
}

/// Whether a network holds an address; a network of mapped IPv4 addresses is an IPv4 network.
fn contains(net: &IpNet, address: IpAddr) -> bool {
    match net {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => match v6.network().to_ipv4_mapped() {
            Some(v4) => {
                ipnet::Ipv4Net::new(v4, v6.prefix_len() - 96).is_ok_and(|net| IpNet::V4(net).contains(&address))
            }
            None => net.contains(&address),
        },
        net => net.contains(&address),
    }
}
