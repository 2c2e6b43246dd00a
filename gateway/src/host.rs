//! Hosts and targets in their one normal form: what is judged, minted for, looked up and dialled is this value.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::ops::Deref;
use std::sync::Arc;

use rustls_pki_types::ServerName;

/// A host: a DNS name or an address, each in one spelling.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Host {
    Name(Name),
    /// Never an IPv4-mapped IPv6 address: that is the IPv4 address it maps.
    Address(IpAddr),
}

/// A DNS name: lower case, A-labels, no trailing dot, never one that reads as a number. Made by [`Host::parse`] alone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Name(Arc<str>);

/// A host and a port from 1 to 65535.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Target {
    host: Host,
    port: NonZeroU16,
}

/// Why a text is no target. The text itself is not repeated: a box wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum TargetFault {
    #[error("the host is empty")]
    NoHost,
    #[error("the authority holds user information")]
    UserInformation,
    #[error("the host holds a percent-escape")]
    Escaped,
    #[error("the host is a number that is no plain IPv4 address")]
    OddNumber,
    #[error("the IPv6 address has a zone")]
    Zone,
    #[error("the brackets hold no IPv6 address")]
    Brackets,
    #[error("the host holds a colon and is no IPv6 address")]
    Colon,
    #[error("the host is not a valid name")]
    BadName,
    #[error("the name is longer than 253 bytes, or a label of it longer than 63")]
    TooLong,
    #[error("the port is missing")]
    NoPort,
    #[error("the port is not a number from 1 to 65535")]
    BadPort,
}

impl Target {
    #[must_use]
    pub const fn new(host: Host, port: NonZeroU16) -> Self {
        Self { host, port }
    }

    /// Reads `host:port`. Without a default, the port must be there.
    pub fn from_authority(text: &str, default_port: Option<u16>) -> Result<Self, TargetFault> {
        if text.contains('@') {
            return Err(TargetFault::UserInformation);
        }
        let (host, port) = split_authority(text)?;
        let port = match port {
            Some(digits) => parse_port(digits)?,
            None => default_port.and_then(NonZeroU16::new).ok_or(TargetFault::NoPort)?,
        };
        Ok(Self { host: Host::parse(host)?, port })
    }

    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.get()
    }
}

impl Host {
    /// Reads a host without a port. An IPv6 address may stand in brackets.
    pub fn parse(text: &str) -> Result<Self, TargetFault> {
        if let Some(inner) = text.strip_prefix('[') {
            return inner.strip_suffix(']').ok_or(TargetFault::Brackets).and_then(parse_v6).map(Self::Address);
        }
        if text.contains(':') {
            return match parse_v6(text) {
                Err(TargetFault::Brackets) => Err(TargetFault::Colon),
                parsed => parsed.map(Self::Address),
            };
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(IpAddr::V4(address)));
        }
        parse_name(text).map(Self::Name)
    }

    /// The host as text, an IPv6 address without brackets.
    #[must_use]
    pub fn as_text(&self) -> Cow<'_, str> {
        match self {
            Self::Name(name) => Cow::Borrowed(name),
            Self::Address(address) => Cow::Owned(address.to_string()),
        }
    }

    /// The name by which TLS asks for this host and checks its certificate.
    #[must_use]
    pub fn server_name(&self) -> ServerName<'static> {
        match self {
            Self::Name(name) => {
                ServerName::try_from(name.to_string()).expect("a Name was checked as a server name when it was made")
            }
            Self::Address(address) => ServerName::IpAddress((*address).into()),
        }
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Cuts the port off, if there is one. An IPv6 address must stand in brackets here: `::1:443` says two things.
fn split_authority(text: &str) -> Result<(&str, Option<&str>), TargetFault> {
    let host_end = if text.starts_with('[') {
        text.find(']').ok_or(TargetFault::Brackets)? + 1
    } else {
        text.find(':').unwrap_or(text.len())
    };
    let (host, rest) = text.split_at(host_end);
    match rest.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if rest.is_empty() => Ok((host, None)),
        None => Err(TargetFault::Brackets),
    }
}

/// Digits only, no sign and no leading zero: one spelling for one port.
fn parse_port(digits: &str) -> Result<NonZeroU16, TargetFault> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    if plain { digits.parse().map_err(|_| TargetFault::BadPort) } else { Err(TargetFault::BadPort) }
}

fn parse_v6(text: &str) -> Result<IpAddr, TargetFault> {
    if text.contains('%') {
        return Err(TargetFault::Zone);
    }
    let address: Ipv6Addr = text.parse().map_err(|_| TargetFault::Brackets)?;
    Ok(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4))
}

fn parse_name(text: &str) -> Result<Name, TargetFault> {
    if text.is_empty() || text == "." {
        return Err(TargetFault::NoHost);
    }
    if text.contains('%') {
        return Err(TargetFault::Escaped);
    }
    // Mapping first: a full-width digit or dot becomes a plain one, and only then is the text what a resolver would see.
    let mapped =
        idna::domain_to_ascii_cow(text.as_bytes(), idna::AsciiDenyList::URL).map_err(|_| TargetFault::BadName)?;
    let name = mapped.strip_suffix('.').unwrap_or(&mapped);
    check_labels(name)?;
    if reads_as_number(name) {
        return Err(TargetFault::OddNumber);
    }
    // The certificate check takes fewer names than the resolver (no label may begin or end with a hyphen).
    match ServerName::try_from(name) {
        Ok(ServerName::DnsName(_)) => Ok(Name(Arc::from(name))),
        _ => Err(TargetFault::BadName),
    }
}

fn check_labels(name: &str) -> Result<(), TargetFault> {
    if name.len() > LONGEST_NAME || name.split('.').any(|label| label.len() > LONGEST_LABEL) {
        return Err(TargetFault::TooLong);
    }
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    if name.split('.').all(|label| !label.is_empty() && label.bytes().all(fits)) {
        Ok(())
    } else {
        Err(TargetFault::BadName)
    }
}

/// A name whose last label is a number is read as an IPv4 address by `inet_aton`: `127.1`, `0x7f.1`, `2130706433`.
fn reads_as_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hexadecimal = last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hexadecimal || last.bytes().all(|byte| byte.is_ascii_digit())
}

const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

#[cfg(test)]
mod tests {
    use super::{Host, Target, TargetFault};

    fn shown(text: &str) -> Result<String, TargetFault> {
        Target::from_authority(text, None).map(|target| target.to_string())
    }

    #[test]
    fn every_spelling_of_a_target_becomes_the_one_normal_form() {
        for (given, normal) in [
            ("api.ok.test:443", "api.ok.test:443"),
            ("API.OK.TEST.:443", "api.ok.test:443"),
            ("BLOCKED.Test:443", "blocked.test:443"),
            ("bücher.test:443", "xn--bcher-kva.test:443"),
            ("BÜCHER.test:443", "xn--bcher-kva.test:443"),
            ("xn--bcher-kva.test:443", "xn--bcher-kva.test:443"),
            ("straße.test:443", "xn--strae-oqa.test:443"),
            ("api。ok。test:443", "api.ok.test:443"),
            ("host_with_underscore.test:443", "host_with_underscore.test:443"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:443", "[::1]:443"),
            ("[2001:DB8:0:0::1]:443", "[2001:db8::1]:443"),
            ("[::ffff:10.0.0.1]:443", "10.0.0.1:443"),
            ("a:65535", "a:65535"),
        ] {
            assert_eq!(shown(given).as_deref(), Ok(normal), "{given}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        use TargetFault::{
            BadName, BadPort, Brackets, Escaped, NoHost, NoPort, OddNumber, TooLong, UserInformation, Zone,
        };
        let long_label = format!("{}.test:443", "a".repeat(64));
        let long_name = format!("{}test:443", "abcdefg.".repeat(32));
        for (given, fault) in [
            ("", NoPort),
            (":443", NoHost),
            (".:443", NoHost),
            ("api.ok.test", NoPort),
            ("api.ok.test:", BadPort),
            ("api.ok.test:0", BadPort),
            ("api.ok.test:65536", BadPort),
            ("api.ok.test:+443", BadPort),
            ("api.ok.test:0443", BadPort),
            ("api.ok.test:443:443", BadPort),
            ("api.ok.test: 443", BadPort),
            ("me@api.ok.test:443", UserInformation),
            ("a:b@api.ok.test:443", UserInformation),
            ("bl%6fcked.test:443", Escaped),
            ("blocked.test..:443", BadName),
            (".blocked.test:443", BadName),
            ("[blocked.test]:443", Brackets),
            ("[[blocked.test]]:443", Brackets),
            ("[::1:443", Brackets),
            ("[::1]443", Brackets),
            ("[127.0.0.1]:443", Brackets),
            ("::1:443", BadPort),
            ("[fe80::1%eth0]:443", Zone),
            ("[fe80::1%25eth0]:443", Zone),
            ("127.1:443", OddNumber),
            ("0x7f.1:443", OddNumber),
            ("0x7f000001:443", OddNumber),
            ("2130706433:443", OddNumber),
            ("127.0.0.1.:443", OddNumber),
            ("0177.0.0.1:443", OddNumber),
            ("127.0.0.0x1:443", OddNumber),
            ("１２７.0.0.1:443", OddNumber),
            ("a b.test:443", BadName),
            ("a/b.test:443", BadName),
            ("a\\b.test:443", BadName),
            ("a\0.test:443", BadName),
            ("*.test:443", BadName),
            ("-a.test:443", BadName),
            ("xn--\u{fc}.test:443", BadName),
            (long_label.as_str(), TooLong),
            (long_name.as_str(), TooLong),
        ] {
            assert_eq!(shown(given), Err(fault), "{given}");
        }
    }

    #[test]
    fn a_missing_port_takes_the_default_only_where_there_is_one() {
        let target = Target::from_authority("[::1]", Some(80)).expect("the default port");
        assert_eq!(target.to_string(), "[::1]:80");
        assert_eq!(Target::from_authority("a.test", Some(0)), Err(TargetFault::NoPort));
    }

    #[test]
    fn a_name_of_253_bytes_is_a_server_name() {
        let name = format!("{}.{}.{}.{}", "a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61));
        let host = Host::parse(&name).expect("the longest name");
        assert_eq!(host.server_name().to_str(), name);
        assert_eq!(Host::parse("::1").expect("an address").as_text(), "::1");
        assert_eq!(Host::parse("[::1]").expect("an address").server_name().to_str(), "::1");
    }
}
