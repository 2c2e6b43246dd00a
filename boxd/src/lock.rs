//! Whether the box is locked: no interface but loopback is up, and no route leads anywhere else. Where the door is an
//! address, one interface may be up, and it may lead to the house alone.

mod narrow;

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::sys;

/// Why the box is not locked, or why nobody can tell: both count as open.
#[derive(Debug, Error)]
pub(crate) enum Open {
    #[error("the network interface {0} is up")]
    Interface(String),
    #[error("there is a route through {0}")]
    Route(String),
    #[error("more than one interface is up: {0}")]
    Interfaces(String),
    #[error("a route through {0} leads further than the house")]
    Further(String),
    #[error(
        "something answers at {hop} on {interface}, the next hop of a route or the first address of the house's network"
    )]
    NextHop { interface: String, hop: std::net::Ipv4Addr },
    #[error(
        "somebody else than the house answers at {address} on {interface}, an address that an `ip_range` of the house's network may begin with: the host, where that network has no `gateway` (Docker 28 and newer), or another box"
    )]
    Neighbour { interface: String, address: std::net::Ipv4Addr },
    #[error("the name server {0} answers: names, and what is written into them, leave the box")]
    NameServer(std::net::IpAddr),
    #[error("look at the network")]
    Unknown(#[source] io::Error),
    #[error("read {path}")]
    Unreadable { path: &'static str, source: io::Error },
}

/// What the box has of a network beside loopback.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network {
    /// Interfaces that are up.
    pub(crate) interfaces: Vec<String>,
    /// Interfaces that a route leads through.
    pub(crate) routes: Vec<String>,
}

/// Looks at the box's own network, and says why it is open. `house` is the one address that it may reach.
pub(crate) fn look(house: Option<SocketAddr>) -> (Network, Option<Open>) {
    match seen() {
        Ok((network, routes)) => {
            let open = match house {
                None => network.open(),
                Some(house) => narrow::open(&network, &routes, house),
            };
            (network, open)
        }
        Err(unreadable) => (Network::default(), Some(unreadable)),
    }
}

/// What to do about a box that is open.
pub(crate) const fn fix(over_network: bool) -> &'static str {
    match over_network {
        false => {
            "Let boxd make the box (boxd --isolate … run …), give yours no network but loopback (network_mode: none)"
        }
        true => {
            "Give the box one network that only the house shares: in Docker internal, with inhibit_ipv4 and gateway_mode_ipv4 isolated, and dns 127.0.0.1 (compose.network.yaml), or let boxd make the box (boxd --isolate … run …)"
        }
    }
}

/// The kernel's tables of routes, as it writes them.
struct Routes {
    v4: String,
    v6: String,
}

impl Network {
    fn open(&self) -> Option<Open> {
        let interface = self.interfaces.first().map(|name| Open::Interface(name.clone()));
        interface.or_else(|| self.routes.first().map(|name| Open::Route(name.clone())))
    }
}

fn seen() -> Result<(Network, Routes), Open> {
    let up = |name: &&str| *name != LOOPBACK && sys::interface_is_up(name).unwrap_or(true);
    let interfaces = interfaces(&read(DEVICES)?).filter(up).map(ToOwned::to_owned).collect();
    let v4 = read(ROUTES)?;
    let v6 = match read(ROUTES_6) {
        Err(Open::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    let all = route_interfaces(&v4).chain(route_6_interfaces(&v6));
    let mut routes: Vec<String> = all.filter(|name| *name != LOOPBACK).map(ToOwned::to_owned).collect();
    routes.dedup();
    Ok((Network { interfaces, routes }, Routes { v4, v6 }))
}

fn read(path: &'static str) -> Result<String, Open> {
    std::fs::read_to_string(path).map_err(|source| Open::Unreadable { path, source })
}

fn interfaces(text: &str) -> impl Iterator<Item = &str> {
    text.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim)
}

fn route_interfaces(text: &str) -> impl Iterator<Item = &str> {
    text.lines().skip(1).filter_map(|line| line.split_whitespace().next())
}

fn route_6_interfaces(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.split_whitespace().next_back())
}

const LOOPBACK: &str = "lo";
const DEVICES: &str = "/proc/net/dev";
const ROUTES: &str = "/proc/net/route";
const ROUTES_6: &str = "/proc/net/ipv6_route";

#[cfg(test)]
mod tests {
    use super::{interfaces, route_6_interfaces, route_interfaces};

    #[test]
    fn interfaces_and_routes_are_read_as_the_kernel_writes_them() {
        let devices = "Inter-|   Receive\n face |bytes\n    lo:     0       0\n  eth0: 1 2\n";
        assert_eq!(interfaces(devices).collect::<Vec<_>>(), ["lo", "eth0"]);
        let routes = "Iface\tDestination\tGateway\neth0\t00000000\t010011AC\n";
        assert_eq!(route_interfaces(routes).collect::<Vec<_>>(), ["eth0"]);
        let routes_6 = "00000000000000000000000000000000 00 0 00 0 ffffffff 00000001 00000000 00200200       lo\nfe80 40 0 00 0 1 1 0 1     eth0\n";
        assert_eq!(route_6_interfaces(routes_6).collect::<Vec<_>>(), ["lo", "eth0"]);
    }
}
