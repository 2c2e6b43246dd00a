//! Addresses: what a provider may fetch for a box, in the one reading that everybody has of it.

use std::fmt;

use crate::host::{Host, Target};
use crate::policy::host_pattern::HostPattern;
use crate::policy::path::{NormalPath, PathPrefix};

/// Addresses that a provider may fetch: one, or all below a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Addresses {
    scheme: &'static str,
    port: u16,
    host: HostPattern,
    path: PathPattern,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum PathPattern {
    Is(String),
    Below(PathPrefix),
}

impl Addresses {
    /// Reads `https://docs.example/guide/*`: a scheme, a host as grants spell it, and a path, or all below one.
    ///
    /// # Errors
    /// What it must look like.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = SCHEMES
            .into_iter()
            .find_map(|(scheme, port)| Some(((scheme, port), text.strip_prefix(scheme)?.strip_prefix("://")?)))
            .ok_or(FORM)?;
        let (authority, path) = rest.find('/').map(|at| rest.split_at(at)).ok_or(FORM)?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !host.ends_with(':') && !port.ends_with(']') => {
                (host, port.parse().map_err(|_| FORM)?)
            }
            _ => (authority, scheme.1),
        };
        let host = HostPattern::parse(host).map_err(|_| FORM)?;
        let path = match path.strip_suffix('*') {
            Some(below) if below.ends_with('/') => PathPattern::Below(PathPrefix::parse(below).map_err(|_| FORM)?),
            Some(_) => return Err(FORM),
            None if path.contains(['*', '?', '#']) => return Err(FORM),
            None => PathPattern::Is(PathPrefix::parse(path).map_err(|_| FORM)?.as_str().to_owned()),
        };
        Ok(Self { scheme: scheme.0, port, host, path })
    }

    pub(super) fn cover(&self, address: &str) -> bool {
        let Some(asked) = read(address) else { return false };
        let path = match &self.path {
            PathPattern::Is(path) => asked.path.is(path) && !asked.has_query,
            PathPattern::Below(prefix) => asked.path.has_prefix(prefix),
        };
        path && self.scheme == asked.scheme && self.port == asked.port && self.host.matches(&asked.host)
    }
}

impl fmt::Display for Addresses {
    /// As it is written, with the port where it is not the scheme's own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, port, host, path } = self;
        write!(f, "{scheme}://{host}")?;
        if !SCHEMES.contains(&(*scheme, *port)) {
            write!(f, ":{port}")?;
        }
        match path {
            PathPattern::Is(path) => f.write_str(path),
            PathPattern::Below(prefix) => write!(f, "{}*", prefix.as_str()),
        }
    }
}

impl Addresses {
    /// The same where only the scheme, host and port are known, as the ledger tells them; `None` where it hangs on the rest.
    pub(super) fn cover_place(&self, place: &str) -> Option<bool> {
        let is_there = read(place).is_some_and(|asked| {
            self.scheme == asked.scheme && self.port == asked.port && self.host.matches(&asked.host)
        });
        match &self.path {
            _ if !is_there => Some(false),
            PathPattern::Below(prefix) if prefix.as_str() == "/" => Some(true),
            PathPattern::Is(_) | PathPattern::Below(_) => None,
        }
    }
}

/// An address that everybody reads alike.
struct Address {
    scheme: &'static str,
    host: Host,
    port: u16,
    path: NormalPath,
    has_query: bool,
}

fn read(text: &str) -> Option<Address> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'@' | b'"' | b'<' | b'>'));
    let (scheme, rest) = text.split_once("://").filter(|_| is_plain)?;
    let (scheme, port) = SCHEMES.into_iter().find(|(known, _)| scheme.eq_ignore_ascii_case(known))?;
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (path, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let target = Target::from_authority(authority, Some(port)).ok()?;
    let path = NormalPath::parse(if path.is_empty() { "/" } else { path }).ok()?;
    Some(Address { scheme, host: target.host().clone(), port: target.port(), path, has_query: !query.is_empty() })
}

/// Where an address leads, for the ledger: without what follows the host, which is the box's own words.
#[must_use]
pub fn shown(address: &str) -> String {
    read(address).map_or_else(
        || "an address that is not plain".to_owned(),
        |asked| {
            let (scheme, host) = (asked.scheme, &asked.host);
            format!("{scheme}://{host}:{}", asked.port)
        },
    )
}

/// An address whose content stands in it (RFC 2397).
#[must_use]
pub fn is_inline(address: &str) -> bool {
    address.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

const FORM: &str = "an address to be fetched is written \"https://host/path\", or \"https://host/*\" with all below";
const SCHEMES: [(&str, u16); 2] = [("https", 443), ("http", 80)];

#[cfg(test)]
mod tests {
    use super::Addresses;
    use crate::policy::egress::Egress;

    #[test]
    fn an_address_is_fetched_only_where_every_reading_of_it_is_granted() {
        let addresses = |texts: &[&str]| Egress {
            tools: Vec::new(),
            fetch: texts.iter().map(|text| Addresses::parse(text).expect("addresses")).collect(),
        };
        let egress =
            addresses(&["https://docs.example/guide/*", "https://*.cdn.example/*", "http://one.example:8080/a.png"]);
        for address in [
            "https://docs.example/guide/",
            "https://DOCS.example/guide/a/b?q=1#f",
            "https://docs.example:443/guide/x",
            "HTTPS://docs.example./guide/x",
            "https://cdn.example/",
            "https://a.b.cdn.example",
            "http://one.example:8080/a.png",
        ] {
            assert!(egress.lets_fetch(address), "{address}");
        }
        for address in [
            "http://docs.example/guide/",
            "https://docs.example/",
            "https://docs.example/guidebook",
            "https://docs.example/guide/../secret",
            "https://docs.example/guide/%2e%2e/secret",
            "https://docs.example:8443/guide/",
            "https://docs.example@evil.example/guide/",
            "https://evil.example\\@docs.example/guide/",
            "https://docs.example.evil.example/guide/",
            "https:docs.example/guide/",
            "https:/docs.example/guide/",
            "//docs.example/guide/",
            " https://docs.example/guide/",
            "https://docs.example/guide/\n",
            "https://xcdn.example/",
            "http://one.example:8080/a.png?x",
            "ftp://docs.example/guide/",
            "",
        ] {
            assert!(!egress.lets_fetch(address), "{address:?}");
        }
        for (place, is_let) in [
            ("https://cdn.example:443", Some(true)),
            ("https://docs.example:443", None),
            ("http://docs.example:80", Some(false)),
            ("https://docs.example:8443", Some(false)),
            ("an address that is not plain", Some(false)),
        ] {
            assert_eq!(egress.lets_place(place), is_let, "{place}");
        }
        for text in [
            "docs.example",
            "https://docs.example",
            "https://docs.example/a*",
            "ftp://docs.example/",
            "https://u@d.example/*",
            "https://d.example/*/x",
            "https://d.example/a?b",
            "https://d.example/../*",
        ] {
            assert!(Addresses::parse(text).is_err(), "{text}");
        }
    }
}
