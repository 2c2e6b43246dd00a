//! Whether the box is locked: no interface but loopback is up, and no route leads anywhere else.

use std::io;

use thiserror::Error;

use crate::sys;

/// Why the box is not locked, or why nobody can tell: both count as open.
#[derive(Debug, Error)]
pub(crate) enum Open {
    #[error("the network interface {0} is up")]
    Interface(String),
    #[error("there is a route through {0}")]
    Route(String),
    #[error("read {path}")]
    Unreadable { path: &'static str, source: io::Error },
}

/// Looks at the box's own network.
pub(crate) fn check() -> Result<(), Open> {
    for name in interfaces(&read(DEVICES)?) {
        if name != LOOPBACK && sys::interface_is_up(name).unwrap_or(true) {
            return Err(Open::Interface(name.to_owned()));
        }
    }
    let routes = read(ROUTES)?;
    let routes_6 = match read(ROUTES_6) {
        Err(Open::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    let leads_out = route_interfaces(&routes).chain(route_6_interfaces(&routes_6)).find(|name| *name != LOOPBACK);
    leads_out.map_or(Ok(()), |name| Err(Open::Route(name.to_owned())))
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
