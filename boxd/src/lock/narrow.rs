//! A network that leads to the house alone: one interface, no route beyond the network that the house is on, nobody who
//! answers as a next hop or where engines put the host, and no name server that passes questions on.
//!
//! Whoever else is on that very network boxd cannot tell: that there is nobody is for whoever made it. Docker and its like
//! put the host at the first address; since engine 28 no route names it, and in a network with an `ip_range` and no
//! `gateway` it is the first address of that range.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::SocketError;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, getsockopt, socket};

use super::{LOOPBACK, Network, Open, Routes};

/// Why the network is open, or nothing. Takes up to five seconds where somebody else than house and box could be: that
/// nobody answers there is known when the kernel has asked for it long enough.
pub(super) fn open(network: &Network, routes: &Routes, house: SocketAddr) -> Option<Open> {
    if network.interfaces.len() > 1 {
        return Some(Open::Interfaces(network.interfaces.join(", ")));
    }
    if let Some(interface) = further_6(&routes.v6, house.ip()) {
        return Some(Open::Further(interface.to_owned()));
    }
    match hops(&routes.v4, house.ip(), own_address(house)) {
        Ok(hops) => probe(hops, &servers()).unwrap_or_else(|fault| Some(Open::Unknown(fault))),
        Err(further) => Some(further),
    }
}

/// This box's address on the way to the house.
fn own_address(house: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if house.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    socket.connect(house).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// An address where nobody may answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Hop {
    address: Ipv4Addr,
    interface: String,
    /// Engines may give it to a box too: another one may be there.
    shared: bool,
}

impl Hop {
    fn open(self) -> Open {
        let Self { address, interface, shared } = self;
        if shared { Open::Neighbour { interface, address } } else { Open::NextHop { interface, hop: address } }
    }
}

/// The next hops of all routes and where an engine would put the host in the house's network, unless it is the house's or
/// the box's `own`, where no route leads past them further than that network.
fn hops(table: &str, house: IpAddr, own: Option<IpAddr>) -> Result<Vec<Hop>, Open> {
    let mut hops = Vec::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [interface, network, hop, _, _, _, _, mask, ..] = fields[..] else {
            return Err(Open::Further(line.to_owned()));
        };
        if interface == LOOPBACK {
            continue;
        }
        let further = || Open::Further(interface.to_owned());
        let [network, hop, mask] = [network, hop, mask].map(address);
        let (Some(network), Some(hop), Some(mask)) = (network, hop, mask) else { return Err(further()) };
        if !hop.is_unspecified() {
            hops.push(Hop { address: hop, interface: interface.to_owned(), shared: false });
            continue;
        }
        let IpAddr::V4(house) = house else { return Err(further()) };
        let is_houses = u32::from(house) & u32::from(mask) == u32::from(network);
        if !is_houses || u32::from(mask).leading_ones() < WIDEST {
            return Err(further());
        }
        if u32::from(mask).leading_ones() > NARROWEST {
            continue;
        }
        let first = Ipv4Addr::from(u32::from(network) | 1);
        let hosts = std::iter::once((first, false)).chain(ranges(network, mask, own).map(|first| (first, true)));
        let others = hosts.filter(|(address, _)| *address != house && Some(IpAddr::V4(*address)) != own);
        hops.extend(others.map(|(address, shared)| Hop { address, interface: interface.to_owned(), shared }));
    }
    hops.sort();
    hops.dedup_by(|later, first| later.address == first.address && later.interface == first.interface);
    Ok(hops)
}

/// The first address of every range of this network that the box's own could be given from, but the network's.
fn ranges(network: Ipv4Addr, mask: Ipv4Addr, own: Option<IpAddr>) -> impl Iterator<Item = Ipv4Addr> {
    let (network, mask) = (u32::from(network), u32::from(mask));
    let own = match own {
        Some(IpAddr::V4(own)) if u32::from(own) & mask == network => Some(u32::from(own)),
        Some(_) | None => None,
    };
    let starts = move |own: u32| (mask.leading_ones() + 1..32).map(move |length| own & u32::MAX << (32 - length));
    own.into_iter().flat_map(starts).filter(move |start| *start != network).map(Ipv4Addr::from)
}

/// As the kernel writes an address: the memory of it as one number.
fn address(hex: &str) -> Option<Ipv4Addr> {
    u32::from_str_radix(hex, 16).ok().map(|number| Ipv4Addr::from(number.to_ne_bytes()))
}

/// The interface of a route that leads further than the house's own network. What the kernel gives every interface by
/// itself (link-local, multicast) leads nowhere.
fn further_6(table: &str, house: IpAddr) -> Option<&str> {
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [network, length, _, _, hop, _, _, _, flags, interface] = fields[..] else { return Some(line) };
        let read = (address_6(network), number(length), address_6(hop), number(flags));
        let (Some(network), Some(length), Some(hop), Some(flags)) = read else { return Some(interface) };
        let own = interface == LOOPBACK || flags & (OWN | REJECTED) != 0;
        let nowhere = network.is_multicast() || network.is_unicast_link_local();
        let houses = match house {
            IpAddr::V6(house) => length >= WIDEST_6 && prefix(house, length) == u128::from(network),
            IpAddr::V4(_) => false,
        };
        let stays = own || hop.is_unspecified() && (nowhere || houses);
        (!stays).then_some(interface)
    })
}

fn number(hex: &str) -> Option<u32> {
    u32::from_str_radix(hex, 16).ok()
}

fn address_6(hex: &str) -> Option<Ipv6Addr> {
    u128::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 32).map(Ipv6Addr::from)
}

fn prefix(address: Ipv6Addr, length: u32) -> u128 {
    u128::from(address) & u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0)
}

/// The name servers that the image is told of, and the one that Docker puts into every network that a person made.
fn servers() -> Vec<IpAddr> {
    let told = std::fs::read_to_string(RESOLVER).unwrap_or_default();
    let named = told.lines().filter_map(|line| line.trim().strip_prefix("nameserver")?.trim().parse().ok());
    let mut servers: Vec<IpAddr> = named.take(MOST).chain([IpAddr::from(EMBEDDED)]).collect();
    servers.sort();
    servers.dedup();
    servers
}

/// One socket whose fate tells something.
enum Probe {
    /// A connection that must fail because nobody is there.
    Hop(OwnedFd, Hop),
    /// A question that must not be answered.
    Question(UdpSocket, IpAddr),
}

fn probe(hops: Vec<Hop>, servers: &[IpAddr]) -> io::Result<Option<Open>> {
    let mut waiting = Vec::new();
    for hop in hops {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let stream = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
        match connect(stream.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(hop.address, DISCARD))) {
            Err(Errno::EINPROGRESS) => waiting.push(Probe::Hop(stream, hop)),
            Err(Errno::EHOSTUNREACH | Errno::ENETUNREACH) => {}
            Ok(()) | Err(_) => return Ok(Some(hop.open())),
        }
    }
    // What cannot be asked does not answer.
    waiting.extend(servers.iter().filter_map(|server| Some(Probe::Question(ask(*server).ok()?, *server))));
    let began = Instant::now();
    while !waiting.is_empty() {
        // A question may go unanswered; a hop that is not settled in time is no proof.
        let hops = waiting.iter().any(|probe| matches!(probe, Probe::Hop(..)));
        let left = if hops { HOP_TIME } else { ANSWER_TIME }.saturating_sub(began.elapsed());
        if left.is_zero() {
            break;
        }
        wait(&waiting, left)?;
        let mut next = Vec::new();
        for probe in waiting {
            match settle(probe)? {
                Settled::Waits(probe) => next.push(probe),
                Settled::Closed => {}
                Settled::Open(open) => return Ok(Some(open)),
            }
        }
        waiting = next;
    }
    Ok(waiting.into_iter().find_map(|probe| match probe {
        Probe::Hop(_, hop) => Some(hop.open()),
        Probe::Question(..) => None,
    }))
}

enum Settled {
    Waits(Probe),
    Closed,
    Open(Open),
}

fn settle(probe: Probe) -> io::Result<Settled> {
    match probe {
        Probe::Hop(stream, hop) => {
            if !is_ready(&stream, PollFlags::POLLOUT)? {
                return Ok(Settled::Waits(Probe::Hop(stream, hop)));
            }
            Ok(match Errno::from_raw(getsockopt(&stream, SocketError)?) {
                Errno::EHOSTUNREACH | Errno::ENETUNREACH => Settled::Closed,
                _ => Settled::Open(hop.open()),
            })
        }
        Probe::Question(asked, server) => {
            let mut answer = [0; 512];
            Ok(match asked.recv(&mut answer) {
                // RFC 1035 section 4.1.1: the code of the answer is in the fourth byte.
                Ok(length) if length > 3 && !matches!(answer[3] & 0xf, SERVER_FAILURE | REFUSED) => {
                    Settled::Open(Open::NameServer(server))
                }
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => {
                    Settled::Waits(Probe::Question(asked, server))
                }
                Ok(_) | Err(_) => Settled::Closed,
            })
        }
    }
}

fn wait(waiting: &[Probe], time: Duration) -> io::Result<()> {
    let mut all = Vec::with_capacity(waiting.len());
    for probe in waiting {
        all.push(match probe {
            Probe::Hop(stream, ..) => PollFd::new(stream.as_fd(), PollFlags::POLLOUT),
            Probe::Question(asked, _) => PollFd::new(asked.as_fd(), PollFlags::POLLIN),
        });
    }
    match poll(&mut all, PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX)) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn is_ready(stream: &OwnedFd, events: PollFlags) -> io::Result<bool> {
    let mut one = [PollFd::new(stream.as_fd(), events)];
    poll(&mut one, PollTimeout::ZERO)?;
    Ok(one[0].any().unwrap_or(false))
}

/// Asks for a name that nobody has (RFC 6761 section 6.4), so that nothing is told by asking.
fn ask(server: IpAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let asked = UdpSocket::bind(SocketAddr::new(any, 0))?;
    asked.set_nonblocking(true)?;
    asked.connect(SocketAddr::new(server, 53))?;
    asked.send(&QUESTION)?;
    Ok(asked)
}

const RESOLVER: &str = "/etc/resolv.conf";
const EMBEDDED: [u8; 4] = [127, 0, 0, 11];
const DISCARD: u16 = 9;
const MOST: usize = 8;
/// The widest network that may be the house's own: Docker's are no wider.
const WIDEST: u32 = 16;
const WIDEST_6: u32 = 48;
/// The narrowest network that has a place for somebody beside house and box.
const NARROWEST: u32 = 30;
/// RTF_LOCAL and RTF_ANYCAST: the interface's own addresses.
const OWN: u32 = 0x8010_0000;
const REJECTED: u32 = 0x0200;
const SERVER_FAILURE: u8 = 2;
const REFUSED: u8 = 5;
const HOP_TIME: Duration = Duration::from_secs(5);
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// Who is `boxgate.invalid`: an A query (RFC 1035 section 4.1).
const QUESTION: [u8; 33] = *b"\x0b\x09\x01\0\0\x01\0\0\0\0\0\0\x07boxgate\x07invalid\0\0\x01\0\x01";

#[cfg(test)]
mod tests {
    use super::{Hop, further_6, hops};

    const HEAD: &str = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n";
    const HOUSE: &str = "172.31.250.2";
    const OWN: &str = "172.31.250.4";

    fn of(lines: &str) -> Result<Vec<String>, String> {
        among(lines, HOUSE, OWN)
    }

    fn among(lines: &str, house: &str, own: &str) -> Result<Vec<String>, String> {
        let address = |text: &str| text.parse().expect("an address");
        let found = hops(&format!("{HEAD}{lines}"), address(house), Some(address(own)));
        let shown = |hop: &Hop| format!("{}{}", hop.address, if hop.shared { ", shared" } else { "" });
        found.map(|hops| hops.iter().map(shown).collect()).map_err(|open| open.to_string())
    }

    #[test]
    fn only_the_houses_own_network_is_on_the_link() {
        let near = "eth0 00FA1FAC 00000000 0001 0 0 0 F8FFFFFF 0 0 0\n";
        assert_eq!(of(""), Ok(vec![]));
        // As Docker 28 gives it: no route tells where the host is.
        assert_eq!(of(near), Ok(vec!["172.31.250.1".to_owned()]));
        assert_eq!(among(near, "172.31.250.1", OWN), Ok(vec![]));
        assert_eq!(among(near, HOUSE, "172.31.250.1"), Ok(vec![]));
        let pair = "eth0 02FA1FAC 00000000 0001 0 0 0 FEFFFFFF 0 0 0\n";
        assert_eq!(among(pair, HOUSE, "172.31.250.3"), Ok(vec![]));
        // With an `ip_range` the host may be where that begins, and so may another box.
        let shared = |first: &str| vec!["172.31.250.1".to_owned(), format!("{first}, shared")];
        assert_eq!(among(near, HOUSE, "172.31.250.5"), Ok(shared("172.31.250.4")));
        assert_eq!(among(near, "172.31.250.4", "172.31.250.5"), Ok(vec!["172.31.250.1".to_owned()]));
        let wide = "eth0 0000FE0A 00000000 0001 0 0 0 0000FFFF 0 0 0\n";
        assert_eq!(
            among(wide, "10.254.0.2", "10.254.130.3"),
            Ok(["10.254.0.1", "10.254.128.0, shared", "10.254.130.0, shared", "10.254.130.2, shared"]
                .map(str::to_owned)
                .into())
        );
        // As Docker 20.10 gives it: a next hop that is to be asked.
        let default = "eth0 00000000 01FA1FAC 0003 0 0 0 00000000 0 0 0\n";
        assert_eq!(of(&format!("{default}{near}")), Ok(vec!["172.31.250.1".to_owned()]));
        for (what, lines) in [
            ("another network", "eth0 0000A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"),
            ("everything, on the link", "eth0 00000000 00000000 0001 0 0 0 00000000 0 0 0\n"),
            ("too wide", "eth0 000000AC 00000000 0001 0 0 0 000000FF 0 0 0\n"),
            ("no address", "eth0 xyz 00000000 0001 0 0 0 F8FFFFFF 0 0 0\n"),
        ] {
            assert_eq!(of(lines), Err("a route through eth0 leads further than the house".to_owned()), "{what}");
        }
    }

    #[test]
    fn of_ipv6_only_what_every_interface_has_or_the_houses_own_network_will_do() {
        let zero = "00000000000000000000000000000000";
        let line = |network: &str, length: &str, hop: &str, flags: &str| {
            format!("{network} {length} {zero} 00 {hop} 00000100 00000001 00000000 {flags} eth0\n")
        };
        let link_local = line("fe800000000000000000000000000000", "40", zero, "00000001");
        let multicast = line("ff000000000000000000000000000000", "08", zero, "00000001");
        let own = line("fd000000000000000000000000000003", "80", zero, "80200001");
        let houses = line("fd000000000000000000000000000000", "40", zero, "00000001");
        let default = line(zero, "00", "fd000000000000000000000000000001", "00000003");
        let found = |table: &str, house: &str| further_6(table, house.parse().expect("an address")).map(str::to_owned);
        let good = format!("{link_local}{multicast}{own}");
        assert_eq!(found(&good, HOUSE), None);
        assert_eq!(found(&format!("{good}{houses}"), "fd00::2"), None);
        for bad in [houses, default, line(zero, "00", zero, "00000001")] {
            assert_eq!(found(&bad, HOUSE).as_deref(), Some("eth0"), "{bad}");
        }
    }
}
