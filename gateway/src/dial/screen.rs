//! Which addresses are never dialled on a box's word. Pure: an address in, its class out.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is screened out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Class {
    Unspecified,
    Loopback,
    Private,
    LinkLocal,
    /// Where clouds hand out credentials.
    Metadata,
    /// Shared by a carrier's customers (RFC 6598), and many an overlay network.
    CarrierGrade,
    Multicast,
    /// Broadcast, reserved, for documentation or benchmarks: nothing that a box needs.
    Reserved,
    /// IPv6 whose embedded IPv4 address would be screened out, or that tunnels to an unknown place.
    Embedded,
}

/// The class of an address that must not be dialled; `None` for one of the public internet.
#[must_use]
pub fn screen(address: IpAddr) -> Option<Class> {
    match address {
        IpAddr::V4(address) => screen_v4(address),
        IpAddr::V6(address) => screen_v6(address),
    }
}

fn screen_v4(address: Ipv4Addr) -> Option<Class> {
    match address.octets() {
        [169, 254, 169, 254] | [100, 100, 100, 200] | [192, 0, 0, 192] => Some(Class::Metadata),
        [0, ..] => Some(Class::Unspecified),
        [127, ..] => Some(Class::Loopback),
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => Some(Class::Private),
        [169, 254, ..] => Some(Class::LinkLocal),
        [100, 64..=127, ..] => Some(Class::CarrierGrade),
        [224..=239, ..] => Some(Class::Multicast),
        // IETF assignments, 6to4 relays, benchmarks, the three documentation nets, 240/4 with broadcast.
        [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18..=19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [240..=255, ..] => Some(Class::Reserved),
        _ => None,
    }
}

fn screen_v6(address: Ipv6Addr) -> Option<Class> {
    if address.is_unspecified() {
        return Some(Class::Unspecified);
    }
    if address.is_loopback() {
        return Some(Class::Loopback);
    }
    match address.segments() {
        // IPv4-mapped is the very same address; -compatible is long dead.
        [0, 0, 0, 0, 0, 0xffff, high, low] => screen_v4(join(high, low)),
        [0, 0, 0, 0, 0, 0, ..] => Some(Class::Embedded),
        // NAT64: the well-known prefix reaches what is embedded; the local one reaches who knows what.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => screen_v4(join(high, low)).map(|_| Class::Embedded),
        [0x64, 0xff9b, ..] => Some(Class::Embedded),
        // 6to4 embeds after the prefix, Teredo hides both ends: neither is a way that a public host needs.
        [0x2002, high, low, ..] => screen_v4(join(high, low)).map(|_| Class::Embedded),
        [0x2001, 0, ..] => Some(Class::Embedded),
        [0xfd00, 0xec2, ..] => Some(Class::Metadata),
        [0xfc00..=0xfdff, ..] => Some(Class::Private),
        [0xfe80..=0xfebf, ..] => Some(Class::LinkLocal),
        [0xfec0..=0xfeff, ..] => Some(Class::Private),
        [0xff00..=0xffff, ..] => Some(Class::Multicast),
        [0x2001, 0x0001..=0x01ff | 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Some(Class::Reserved),
        // ISATAP hides an IPv4 address in the interface part of any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => screen_v4(join(high, low)).map(|_| Class::Embedded),
        // Global unicast is 2000::/3; the rest is unassigned.
        [0x2000..=0x3fff, ..] => None,
        _ => Some(Class::Reserved),
    }
}

const fn join(high: u16, low: u16) -> Ipv4Addr {
    let [a, b] = high.to_be_bytes();
    let [c, d] = low.to_be_bytes();
    Ipv4Addr::new(a, b, c, d)
}

impl Class {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Metadata => "metadata",
            Self::CarrierGrade => "carrier-grade NAT",
            Self::Multicast => "multicast",
            Self::Reserved => "reserved",
            Self::Embedded => "embedded IPv4",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, screen};

    #[test]
    fn every_address_that_is_not_public_is_screened_out() {
        use Class::{CarrierGrade, Embedded, LinkLocal, Loopback, Metadata, Multicast, Private, Reserved, Unspecified};
        for (address, class) in [
            ("0.0.0.0", Unspecified),
            ("0.1.2.3", Unspecified),
            ("127.0.0.1", Loopback),
            ("127.255.255.254", Loopback),
            ("10.0.0.1", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("169.254.1.1", LinkLocal),
            ("169.254.169.254", Metadata),
            ("100.100.100.200", Metadata),
            ("100.64.0.1", CarrierGrade),
            ("100.127.255.255", CarrierGrade),
            ("224.0.0.1", Multicast),
            ("239.255.255.255", Multicast),
            ("255.255.255.255", Reserved),
            ("240.0.0.1", Reserved),
            ("192.0.0.8", Reserved),
            ("192.0.2.1", Reserved),
            ("198.18.0.1", Reserved),
            ("198.19.255.255", Reserved),
            ("198.51.100.1", Reserved),
            ("203.0.113.1", Reserved),
            ("::", Unspecified),
            ("::1", Loopback),
            ("::ffff:127.0.0.1", Loopback),
            ("::ffff:169.254.169.254", Metadata),
            ("::127.0.0.1", Embedded),
            ("::8.8.8.8", Embedded),
            ("64:ff9b::10.0.0.1", Embedded),
            ("64:ff9b::169.254.169.254", Embedded),
            ("64:ff9b:1::1", Embedded),
            ("2002:7f00:1::", Embedded),
            ("2002:a9fe:a9fe::1", Embedded),
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Embedded),
            ("2607:f8b0::5efe:10.0.0.1", Embedded),
            ("fd00::1", Private),
            ("fc00::1", Private),
            ("fd00:ec2::254", Metadata),
            ("fe80::1", LinkLocal),
            ("fec0::1", Private),
            ("ff02::1", Multicast),
            ("2001:db8::1", Reserved),
            ("3fff::1", Reserved),
            ("100::1", Reserved),
            ("4000::1", Reserved),
        ] {
            assert_eq!(screen(address.parse().expect("an address")), Some(class), "{address}");
        }
    }

    #[test]
    fn public_addresses_pass_also_at_the_borders() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1",
            "2001:4860:4860::8888",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "::ffff:8.8.8.8",
        ] {
            assert_eq!(screen(address.parse().expect("an address")), None, "{address}");
        }
    }
}
