//! What kind of address an IP address is, after the IANA special-purpose registries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// Reachable from everywhere.
    Public,
    /// This machine: `127.0.0.0/8`, `::1`.
    Loopback,
    /// A private network: RFC 1918, and the unique local addresses of RFC 4193.
    Private,
    /// The service of a cloud that hands out credentials.
    Metadata,
    /// One link only: `169.254.0.0/16`, `fe80::/10`.
    LinkLocal,
    /// Shared by carriers (RFC 6598).
    Shared,
    /// Multicast or broadcast.
    Multicast,
    /// An IPv6 address that stands for an IPv4 address by NAT64 (RFC 6052).
    Nat64,
    /// Set aside for documentation, benchmarks, protocols, old transitions, or the future.
    Reserved,
}

impl AddressClass {
    /// The word in messages and traces.
    pub fn as_str(self) -> &'static str {
        match self {
            AddressClass::Public => "public",
            AddressClass::Loopback => "loopback",
            AddressClass::Private => "private",
            AddressClass::Metadata => "cloud metadata",
            AddressClass::LinkLocal => "link-local",
            AddressClass::Shared => "shared carrier",
            AddressClass::Multicast => "multicast",
            AddressClass::Nat64 => "NAT64",
            AddressClass::Reserved => "reserved",
        }
    }
}

/// Addresses at which clouds serve instance metadata and credentials.
const METADATA: [IpAddr; 10] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 253)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// The class of an address. An IPv4 address mapped into IPv6 is judged as IPv4.
///
/// ```
/// use toolcrib_egress::{AddressClass, classify};
/// assert_eq!(classify("93.184.215.14".parse().unwrap()), AddressClass::Public);
/// assert_eq!(classify("::ffff:10.0.0.1".parse().unwrap()), AddressClass::Private);
/// assert_eq!(classify("169.254.169.254".parse().unwrap()), AddressClass::Metadata);
/// ```
pub fn classify(address: IpAddr) -> AddressClass {
    let address = address.to_canonical();
    if METADATA.contains(&address) {
        return AddressClass::Metadata;
    }
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [127, ..] => AddressClass::Loopback,
        [169, 254, ..] => AddressClass::LinkLocal,
        [100, 64..=127, ..] => AddressClass::Shared,
        [224..=239, ..] | [255, 255, 255, 255] => AddressClass::Multicast,
        [0, ..]
        | [192, 0, 0 | 2, _]
        | [192, 31, 196, _]
        | [192, 52, 193, _]
        | [192, 88, 99, _]
        | [192, 175, 48, _]
        | [198, 18..=19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [240..=255, ..] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

/// Only `2000::/3` is global unicast; of it, the special blocks are taken out.
fn classify_v6(address: Ipv6Addr) -> AddressClass {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        [0xfc00..=0xfdff, ..] => AddressClass::Private,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => AddressClass::Nat64,
        [0x2001, 0x0000..=0x01ff, ..]
        | [0x2001, 0xdb8, ..]
        | [0x2002, ..]
        | [0x2620, 0x4f, 0x8000, ..]
        | [0x3ffe, ..]
        | [0x3fff, 0x0000..=0x0fff, ..] => AddressClass::Reserved,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        _ => AddressClass::Reserved,
    }
}

/// The IPv4 address inside a NAT64 address (`64:ff9b::/96`, RFC 6052).
pub(crate) fn nat64_inner(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V6(address) if classify_v6(address) == AddressClass::Nat64 => Some(low_v4(address)),
        _ => None,
    }
}

/// The IPv4 address that an ISATAP interface identifier tunnels to (`::0:5efe:a.b.c.d` and
/// `::200:5efe:a.b.c.d`, RFC 5214).
pub(crate) fn isatap_inner(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V6(address) => match address.segments() {
            [.., 0 | 0x200, 0x5efe, _, _] => Some(low_v4(address)),
            _ => None,
        },
        IpAddr::V4(_) => None,
    }
}

fn low_v4(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every block of both registries, from a crate that is generated from them.
    #[test]
    fn no_special_purpose_block_is_public() {
        let blocks = iprfc::RFC6890.ip_nets().iter().chain(iprfc::FORWARDING_BLACKLIST.ip_nets().iter());
        let mut seen = 0;
        for block in blocks {
            seen += 1;
            for address in [block.network(), block.broadcast()] {
                assert_ne!(classify(address), AddressClass::Public, "{address} of {block}");
            }
        }
        assert!(seen > 10, "the oracle has blocks");
    }

    #[test]
    fn borders_of_blocks() {
        let check = |text: &str, class| assert_eq!(classify(text.parse().unwrap()), class, "{text}");
        check("172.15.255.255", AddressClass::Public);
        check("172.16.0.0", AddressClass::Private);
        check("172.32.0.0", AddressClass::Public);
        check("100.63.255.255", AddressClass::Public);
        check("100.128.0.0", AddressClass::Public);
        check("198.20.0.0", AddressClass::Public);
        check("2001:200::", AddressClass::Public);
        check("2001:1ff:ffff::", AddressClass::Reserved);
        check("3fff:1000::", AddressClass::Public);
        check("4000::", AddressClass::Reserved);
        check("::7f00:1", AddressClass::Reserved);
        check("fec0::1", AddressClass::Reserved);
        check("64:ff9b::7f00:1", AddressClass::Nat64);
    }
}
