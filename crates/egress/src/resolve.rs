//! Name resolution as a parameter.

use std::net::IpAddr;

use async_trait::async_trait;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolveHosts};

/// A name could not be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ResolveError {
    /// What the resolver says.
    pub reason: String,
}

/// Resolves names to addresses.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// All addresses of an absolute name, given without its final dot.
    ///
    /// # Errors
    /// [`ResolveError`] when the name has none or the resolver can't be asked.
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError>;
}

/// The DNS servers of the machine. Neither the hosts file nor a search list is used, so a name
/// means the same everywhere.
#[derive(Clone)]
pub struct DnsResolver {
    resolver: Result<TokioResolver, ResolveError>,
}

impl DnsResolver {
    /// Reads the machine's resolver configuration. Without a usable one, every resolution fails
    /// with the reason, and addresses in URLs go on working.
    pub fn system() -> Self {
        let build = || {
            let mut builder = TokioResolver::builder_tokio()?;
            let options = builder.options_mut();
            options.use_hosts_file = ResolveHosts::Never;
            options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
            builder.build()
        };
        let failed = |error| ResolveError { reason: format!("the DNS configuration can't be used: {error}") };
        Self { resolver: build().map_err(failed) }
    }
}

#[async_trait]
impl Resolve for DnsResolver {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let resolver = self.resolver.as_ref().map_err(Clone::clone)?;
        match resolver.lookup_ip(format!("{host}.")).await {
            Ok(found) => Ok(found.iter().collect()),
            Err(error) => Err(ResolveError { reason: format!("{host} does not resolve: {error}") }),
        }
    }
}
