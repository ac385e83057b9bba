//! A refusal of the policy: what, why, and how to allow it.

use std::fmt;

use crate::address::AddressClass;

/// Why the policy refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockReason {
    /// The URL is not one that every reader reads alike.
    Url,
    /// The scheme is not allowed.
    Scheme,
    /// The URL holds credentials.
    Userinfo,
    /// The host is not written in its canonical form, or can't be a host.
    Host,
    /// The host is denied.
    HostDenied,
    /// The host is not on the allowlist.
    HostNotAllowed,
    /// The port is not allowed.
    Port,
    /// Addresses instead of names are not allowed.
    IpLiteral,
    /// The address is of a class that is not allowed.
    Address(AddressClass),
    /// The network of the address is denied.
    NetworkDenied,
    /// A redirect is not followed.
    Redirect,
}

impl BlockReason {
    /// The stable code.
    pub fn code(self) -> &'static str {
        match self {
            BlockReason::Url => "egress.url",
            BlockReason::Scheme => "egress.scheme",
            BlockReason::Userinfo => "egress.userinfo",
            BlockReason::Host => "egress.host",
            BlockReason::HostDenied => "egress.host_denied",
            BlockReason::HostNotAllowed => "egress.host_not_allowed",
            BlockReason::Port => "egress.port",
            BlockReason::IpLiteral => "egress.ip_literal",
            BlockReason::Address(AddressClass::Metadata) => "egress.metadata_address",
            BlockReason::Address(AddressClass::Loopback) => "egress.loopback_address",
            BlockReason::Address(AddressClass::Private) => "egress.private_address",
            BlockReason::Address(_) => "egress.special_address",
            BlockReason::NetworkDenied => "egress.network_denied",
            BlockReason::Redirect => "egress.redirect",
        }
    }
}

/// The codes of [`BlockReason`] with what they mean, for the reference.
pub const BLOCK_CODES: &[(&str, &str)] = &[
    ("egress.url", "The URL is not one that every reader reads alike: visible ASCII, a scheme, an authority."),
    ("egress.scheme", "Only https is allowed, unless plain http is allowed too."),
    ("egress.userinfo", "The URL holds credentials."),
    ("egress.host", "The host is not written in its canonical form, or can't be a host."),
    ("egress.host_denied", "The host is on a deny list."),
    ("egress.host_not_allowed", "There is an allowlist of hosts, and the host is not on it."),
    ("egress.port", "The port is not among the allowed ones."),
    ("egress.ip_literal", "The URL names an address, and only names are allowed."),
    ("egress.metadata_address", "The address is a cloud metadata service; it is blocked always."),
    ("egress.loopback_address", "The address is this machine."),
    ("egress.private_address", "The address is in a private network."),
    ("egress.special_address", "The address is link-local, shared, multicast, reserved or a tunnel."),
    ("egress.network_denied", "The network of the address is denied."),
    ("egress.redirect", "A redirect is not followed, or leads where the policy does not allow."),
];

/// A refusal of the policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Blocked {
    /// Why.
    pub reason: BlockReason,
    /// The host, address or URL part that was refused.
    pub subject: String,
    /// What to do about it, for the operator.
    pub detail: &'static str,
}

impl Blocked {
    pub(crate) fn new(reason: BlockReason, subject: &str, detail: &'static str) -> Self {
        Self { reason, subject: subject.to_owned(), detail }
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blocked by the egress policy: {}: {}", self.subject, self.detail)
    }
}
