//! A URL that the policy allows, parsed so that every reader agrees on its host.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::Uri;
use url::{Host, Url};

use crate::blocked::{BlockReason, Blocked};
use crate::policy::Policy;

/// Where a request goes: a URL that passed the policy. Its addresses are judged when it is dialled.
#[derive(Debug, Clone)]
pub struct Target {
    uri: Uri,
    url: Url,
    host: TargetHost,
    port: u16,
    authority: Arc<str>,
}

/// The host of a [`Target`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetHost {
    /// A name, to be resolved.
    Name(String),
    /// An address that the policy allows.
    Address(IpAddr),
}

impl Target {
    /// The URI that is sent.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The host.
    pub fn host(&self) -> &TargetHost {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port, by which calls in flight are counted.
    pub fn authority(&self) -> &Arc<str> {
        &self.authority
    }
}

impl Policy {
    /// Judges a URL: its form, scheme, host, port, and its address when it names one.
    ///
    /// ```
    /// use toolcrib_egress::Policy;
    /// let policy = Policy::default();
    /// assert!(policy.check_url("https://api.example.com/v1").is_ok());
    /// assert!(policy.check_url("http://api.example.com/v1").is_err());
    /// assert!(policy.check_url("https://169.254.169.254/latest").is_err());
    /// ```
    ///
    /// # Errors
    /// [`Blocked`] with the reason.
    pub fn check_url(&self, raw: &str) -> Result<Target, Blocked> {
        let blocked = |reason, detail| Blocked::new(reason, &shown(raw), detail);
        let authority = raw_authority(raw)?;
        let url = Url::parse(raw).map_err(|_| blocked(BlockReason::Url, "the URL does not parse"))?;
        let scheme_allowed = match url.scheme() {
            "https" => self.allow_https,
            "http" => self.allow_http,
            _ => false,
        };
        if !scheme_allowed {
            let detail = "the scheme is not allowed; use https, or allow plain http";
            return Err(Blocked::new(BlockReason::Scheme, url.scheme(), detail));
        }
        if authority.contains('@') {
            return Err(blocked(BlockReason::Userinfo, "a URL holds no credentials"));
        }
        let written = host_as_written(authority);
        let canonical = url.host_str().unwrap_or_default();
        if !written.eq_ignore_ascii_case(canonical) {
            return Err(blocked(BlockReason::Host, "the host is not written in its canonical form"));
        }
        let uri: Uri = raw.parse().map_err(|_| blocked(BlockReason::Url, "the URL does not parse as a URI"))?;
        if !uri.host().is_some_and(|host| host.eq_ignore_ascii_case(canonical)) {
            return Err(blocked(BlockReason::Host, "two readers disagree on the host of the URL"));
        }
        let port = url.port_or_known_default().unwrap_or_default();
        let named_port = uri.port_u16().unwrap_or(port);
        if port == 0 || named_port != port || self.ports.as_ref().is_some_and(|ports| !ports.contains(&port)) {
            return Err(Blocked::new(BlockReason::Port, &port.to_string(), "the port is not allowed"));
        }
        let host = match url.host() {
            Some(Host::Domain(name)) => {
                let name = name.to_ascii_lowercase();
                let lifted = self.allow_private && name == "localhost";
                check_name(&name, lifted || self.names_exactly(&name))?;
                self.judge_host(&name)?;
                TargetHost::Name(name)
            }
            Some(Host::Ipv4(address)) => self.literal(IpAddr::V4(address))?,
            Some(Host::Ipv6(address)) => self.literal(IpAddr::V6(address))?,
            None => return Err(blocked(BlockReason::Host, "the URL has no host")),
        };
        let authority = match &host {
            TargetHost::Name(name) => format!("{name}:{port}").into(),
            TargetHost::Address(address) => SocketAddr::new(*address, port).to_string().into(),
        };
        Ok(Target { uri, url, host, port, authority })
    }

    /// Judges the address that a redirect leads to. `hop` counts from 0.
    ///
    /// # Errors
    /// [`Blocked`] when no more redirects are followed, when it leads from https to http, or when
    /// the policy does not allow the new URL.
    pub fn check_redirect(&self, from: &Target, location: &str, hop: u8) -> Result<Target, Blocked> {
        let blocked = |detail| Blocked::new(BlockReason::Redirect, &shown(location), detail);
        if hop >= self.max_redirects {
            return Err(blocked("no more redirects are followed; use the address it names"));
        }
        let next = if has_scheme(location) {
            self.check_url(location)?
        } else {
            if !is_visible(location) {
                return Err(blocked("the redirect holds characters that a URL does not"));
            }
            let joined = from.url.join(location).map_err(|_| blocked("the redirect does not parse"))?;
            self.check_url(joined.as_str())?
        };
        if from.url.scheme() == "https" && next.url.scheme() == "http" {
            return Err(blocked("a redirect from https to http is never followed"));
        }
        Ok(next)
    }

    fn literal(&self, address: IpAddr) -> Result<TargetHost, Blocked> {
        let text = address.to_string();
        if !self.ip_literals {
            let detail = "the URL names an address; only host names are allowed";
            return Err(Blocked::new(BlockReason::IpLiteral, &text, detail));
        }
        self.judge_host(&text)?;
        self.judge_address(address)?;
        Ok(TargetHost::Address(address))
    }
}

/// What of a URL may stand in a message: no query, and no more than a line.
fn shown(raw: &str) -> String {
    let end = raw.find(['?', '#']).unwrap_or(raw.len());
    let without_userinfo = match raw[..end].rsplit_once('@') {
        Some((_, rest)) => format!("***@{rest}"),
        None => raw[..end].to_owned(),
    };
    without_userinfo.chars().filter(|ch| !ch.is_control()).take(200).collect()
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|b| (0x21..=0x7e).contains(&b) && b != b'\\')
}

/// Whether a text begins with a scheme and a colon.
fn has_scheme(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else { return false };
    scheme.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// The authority between `scheme://` and the next delimiter, of a URL of visible ASCII.
fn raw_authority(raw: &str) -> Result<&str, Blocked> {
    let blocked = |detail| Blocked::new(BlockReason::Url, &shown(raw), detail);
    if !is_visible(raw) {
        return Err(blocked("a URL holds visible ASCII only and no backslash; percent-encode the rest"));
    }
    let rest = match raw.split_once("://") {
        Some((scheme, rest)) if has_scheme(&format!("{scheme}:")) => rest,
        _ => return Err(blocked("a URL begins with its scheme: https://")),
    };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if authority.is_empty() {
        return Err(blocked("the URL has no host"));
    }
    Ok(authority)
}

/// The host of an authority, as it is written, with brackets.
fn host_as_written(authority: &str) -> &str {
    match authority.find(']') {
        Some(end) => &authority[..=end],
        None => authority.split(':').next().unwrap_or(authority),
    }
}

fn check_name(name: &str, named_exactly: bool) -> Result<(), Blocked> {
    let blocked = |detail| Err(Blocked::new(BlockReason::Host, name, detail));
    if name.ends_with('.') {
        return blocked("a host has no dot at its end");
    }
    if name.len() > 253 || name.split('.').any(|label| label.is_empty() || label.len() > 63) {
        return blocked("a host is made of labels of 1 to 63 characters, 253 in all");
    }
    if !name.contains('.') && !named_exactly {
        return blocked("a host of one label is a local name; name it in the egress hosts to allow it");
    }
    Ok(())
}
