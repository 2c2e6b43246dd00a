//! Targets within the box. Loopback means the box's own, never the house's: what asks for it stays here.
//!
//! No name is looked up. `localhost` and names below it are loopback by their meaning (RFC 6761, section 6.3); an
//! address is loopback only in its plain spelling, and every other spelling is the house's to refuse.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::listen::Loopback;

/// A port of the box's own loopback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Near {
    host: Host,
    port: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Host {
    /// 127.0.0.1, then ::1.
    Name,
    Address(IpAddr),
}

/// Where an authority leads.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Out of the box: the house judges it, whatever it is.
    Away,
    Near(Near),
    /// Into the box, but nowhere in it. The text says why.
    Wrong(&'static str),
}

/// Reads an authority, `host:port`; `usual` is the port of one that names none.
pub(crate) fn place(authority: &str, usual: Option<u16>) -> Place {
    let (user, rest) = authority.rsplit_once('@').map_or((None, authority), |(user, rest)| (Some(user), rest));
    let (name, port) = match rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((inner, "")) => (inner, None),
        Some((inner, behind)) => match behind.strip_prefix(':') {
            Some(port) => (inner, Some(port)),
            None => return Place::Away,
        },
        None => rest.split_once(':').map_or((rest, None), |(name, port)| (name, Some(port))),
    };
    let Some(host) = host(name, rest.starts_with('[')) else {
        return Place::Away;
    };
    if user.is_some() {
        return Place::Wrong("a target within the box takes no user name");
    }
    let digits = port.filter(|port| !port.is_empty());
    let port = match digits {
        // `parse` alone would take a plus sign.
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        Some(_) => None,
        None => usual,
    };
    match port.filter(|port| *port != 0) {
        Some(port) => Place::Near(Near { host, port }),
        None => Place::Wrong("a target within the box needs a port from 1 to 65535"),
    }
}

fn host(name: &str, in_brackets: bool) -> Option<Host> {
    if in_brackets {
        let address: Ipv6Addr = name.parse().ok()?;
        let address = address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4);
        return address.is_loopback().then_some(Host::Address(address));
    }
    if let Ok(address) = name.parse::<Ipv4Addr>() {
        return address.is_loopback().then_some(Host::Address(IpAddr::V4(address)));
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    (name == "localhost" || name.ends_with(".localhost")).then_some(Host::Name)
}

impl Near {
    /// Where the shim of this box listens.
    pub(crate) const fn shim(at: Loopback) -> Self {
        Self { host: Host::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)), port: at.number() }
    }

    /// Whether the shim itself listens there, so that a connection would come back to it.
    pub(crate) const fn is_shim(self, shim: Loopback) -> bool {
        self.port == shim.number()
    }

    /// Connects within the box.
    #[expect(clippy::disallowed_methods, reason = "a loopback address by construction, in the box's own network")]
    pub(crate) async fn connect(self) -> io::Result<TcpStream> {
        let attempt = async {
            match self.host {
                Host::Address(address) => TcpStream::connect(SocketAddr::new(address, self.port)).await,
                Host::Name => match TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await {
                    Err(_) => TcpStream::connect((Ipv6Addr::LOCALHOST, self.port)).await,
                    done => done,
                },
            }
        };
        let stream = timeout(ATTEMPT, attempt).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Host::Name => write!(f, "localhost:{}", self.port),
            Host::Address(address) => SocketAddr::new(address, self.port).fmt(f),
        }
    }
}

/// Loopback answers at once; only a listener that takes nobody in lets one wait.
const ATTEMPT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::{Place, place};

    fn read(authority: &str) -> String {
        match place(authority, Some(80)) {
            Place::Away => "away".to_owned(),
            Place::Near(near) => near.to_string(),
            Place::Wrong(_) => "wrong".to_owned(),
        }
    }

    #[test]
    fn loopback_in_its_plain_spellings_is_near() {
        for (authority, want) in [
            ("127.0.0.1:7777", "127.0.0.1:7777"),
            ("127.0.0.1", "127.0.0.1:80"),
            ("127.0.0.1:", "127.0.0.1:80"),
            ("127.8.9.10:1", "127.8.9.10:1"),
            ("[::1]:7777", "[::1]:7777"),
            ("[0:0:0:0:0:0:0:1]", "[::1]:80"),
            ("[::ffff:127.0.0.1]:5", "127.0.0.1:5"),
            ("[::FFFF:7f00:2]:5", "127.0.0.2:5"),
            ("localhost:7777", "localhost:7777"),
            ("LocalHost.:7777", "localhost:7777"),
            ("app.localhost", "localhost:80"),
        ] {
            assert_eq!(read(authority), want, "{authority}");
        }
    }

    #[test]
    fn everything_else_is_the_houses_to_judge() {
        for authority in [
            "api.test:443",
            "localhost.evil.test:80",
            "notlocalhost:80",
            "127.0.0.1.evil.test:80",
            "127.0.0.1@evil.test:80",
            "localhost:1@evil.test:80",
            "128.0.0.1:80",
            "0.0.0.0:80",
            "10.0.0.1:80",
            "[::]:80",
            "[::2]:80",
            "[::ffff:10.0.0.1]:80",
            "[64:ff9b::7f00:1]:80",
            // Spellings that programs read in different ways.
            "127.1:80",
            "2130706433:80",
            "0x7f000001:80",
            "0177.0.0.1:80",
            "127.0.0.01:80",
            "::1:80",
            "[::1",
            "[::1]x:80",
            "[127.0.0.1]:80",
            "[localhost]:80",
            "localhost..:80",
            "",
        ] {
            assert_eq!(read(authority), "away", "{authority}");
        }
    }

    #[test]
    fn a_port_is_a_number_and_there_is_no_user() {
        for authority in [
            "127.0.0.1:0",
            "127.0.0.1:65536",
            "127.0.0.1:+80",
            "127.0.0.1:80:80",
            "[::1]:http",
            "me@localhost:80",
            "evil.test@127.0.0.1:80",
        ] {
            assert_eq!(read(authority), "wrong", "{authority}");
        }
        assert!(matches!(place("localhost", None), Place::Wrong(_)));
    }
}
