//! Resolving, screening and connecting: the very address that was screened is the one that is dialled.

pub mod screen;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::config::{ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::Name;
use hickory_resolver::{ResolverBuilder, TokioResolver};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::host::{Host, Target};

pub use screen::Class;

/// `[dial]`: how the gateway reaches the world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DialConfig {
    /// Asked instead of the system's; none takes the system's.
    pub nameservers: Vec<SocketAddr>,
    /// For looking up and connecting together.
    pub connect_timeout: Duration,
}

/// Reaches targets. One resolver with one bounded cache for the whole house.
#[derive(Debug)]
pub struct Dialer {
    /// `None` where the system has no usable resolver: then no name is found.
    resolver: Option<TokioResolver>,
    connect_timeout: Duration,
}

/// Why a target was not reached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum DialFault {
    #[error("its name was not found")]
    NotFound,
    #[error("its address {address} is screened out ({class})")]
    Screened { address: IpAddr, class: Class },
    #[error("none of its addresses takes a connection")]
    Unreachable,
    #[error("it did not take a connection in time")]
    TimedOut,
}

impl Default for DialConfig {
    fn default() -> Self {
        Self { nameservers: Vec::new(), connect_timeout: Duration::from_secs(10) }
    }
}

impl Dialer {
    /// Must be called where a tokio runtime is.
    #[must_use]
    pub fn new(config: &DialConfig) -> Self {
        let DialConfig { nameservers, connect_timeout } = config;
        let resolver = resolver(nameservers)
            .map_err(|error| tracing::error!(%error, "no name can be looked up: the resolver cannot be set up"))
            .ok();
        Self { resolver, connect_timeout: *connect_timeout }
    }

    /// Connects to the target. `instead` is what a grant names by itself (`Grant::dial_instead`): it is dialled as it is, unscreened.
    pub async fn dial(&self, target: &Target, instead: Option<SocketAddr>) -> Result<TcpStream, DialFault> {
        let deadline = Instant::now() + self.connect_timeout;
        timeout_at(deadline, self.reach(target, instead)).await.unwrap_or(Err(DialFault::TimedOut))
    }

    async fn reach(&self, target: &Target, instead: Option<SocketAddr>) -> Result<TcpStream, DialFault> {
        if let Some(address) = instead {
            return connect_first(vec![address]).await;
        }
        let found = match target.host() {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.look_up(name).await?,
        };
        let addresses = screened(&found)?;
        connect_first(addresses.into_iter().map(|address| SocketAddr::new(address, target.port())).collect()).await
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, DialFault> {
        let resolver = self.resolver.as_ref().ok_or(DialFault::NotFound)?;
        let mut name = Name::from_ascii(name).map_err(|_| DialFault::NotFound)?;
        // Otherwise the host's search domains would be tried: another name than the one that was judged.
        name.set_fqdn(true);
        let found = resolver.lookup_ip(name).await.map_err(|error| {
            tracing::debug!(%error, "look up a name");
            DialFault::NotFound
        })?;
        Ok(found.iter().collect())
    }
}

/// The addresses that may be dialled; if none may, the class of the first.
fn screened(found: &[IpAddr]) -> Result<Vec<IpAddr>, DialFault> {
    let open: Vec<_> =
        found.iter().copied().filter(|address| screen::screen(*address).is_none()).take(MOST_ADDRESSES).collect();
    if !open.is_empty() {
        return Ok(open);
    }
    let first = found
        .iter()
        .find_map(|address| screen::screen(*address).map(|class| DialFault::Screened { address: *address, class }));
    Err(first.unwrap_or(DialFault::NotFound))
}

/// Connects to the addresses in their order, the next one after a short head start or as soon as one fails; the first to answer wins.
async fn connect_first(addresses: Vec<SocketAddr>) -> Result<TcpStream, DialFault> {
    let mut waiting = addresses.into_iter();
    let mut attempts = JoinSet::new();
    loop {
        let started = waiting.next().map(|address| attempts.spawn(connect(address))).is_some();
        let joined = if started {
            tokio::time::timeout(HEAD_START, attempts.join_next()).await
        } else {
            Ok(attempts.join_next().await)
        };
        match joined {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            // Failed, or given a head start long enough: the next one.
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => return Err(DialFault::Unreachable),
        }
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A silent stream may be silent for long, and is healthy as long as the other end is there: the kernel asks it.
    SockRef::from(&socket).set_tcp_keepalive(
        &TcpKeepalive::new().with_time(PROBED_AFTER).with_interval(PROBE_INTERVAL).with_retries(PROBES),
    )?;
    socket.set_nodelay(true)?;
    socket.connect(address).await
}

fn resolver(nameservers: &[SocketAddr]) -> Result<TokioResolver, hickory_resolver::net::NetError> {
    let mut builder: ResolverBuilder<TokioRuntimeProvider> = if nameservers.is_empty() {
        TokioResolver::builder_tokio()?
    } else {
        let servers = nameservers.iter().map(nameserver).collect();
        let mut builder = TokioResolver::builder_with_config(
            ResolverConfig::from_parts(None, Vec::new(), servers),
            TokioRuntimeProvider::default(),
        );
        builder.options_mut().use_hosts_file = ResolveHosts::Never;
        builder
    };
    let options = builder.options_mut();
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.cache_size = CACHED_NAMES;
    options.positive_max_ttl = Some(LONGEST_TTL);
    options.negative_max_ttl = Some(LONGEST_NEGATIVE_TTL);
    builder.build()
}

fn nameserver(address: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}

/// Between the starts of two attempts (RFC 8305 advises 250 ms).
const HEAD_START: Duration = Duration::from_millis(250);
/// Silence until the kernel asks whether the other end is there, between two such questions, and how many go unanswered
/// until it is given up: a host that is gone costs two minutes. The system's own first question comes after two hours.
const PROBED_AFTER: Duration = Duration::from_secs(60);
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PROBES: u32 = 4;
/// Of one name; what a resolver says beyond it is not tried.
const MOST_ADDRESSES: usize = 8;
const CACHED_NAMES: u64 = 1024;
const LONGEST_TTL: Duration = Duration::from_secs(300);
const LONGEST_NEGATIVE_TTL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::net::{TcpListener, UdpSocket};

    use socket2::SockRef;

    use super::{Class, DialConfig, DialFault, Dialer, PROBE_INTERVAL, PROBED_AFTER, PROBES, connect_first, screened};
    use crate::host::Target;

    fn target(authority: &str) -> Target {
        Target::from_authority(authority, None).expect("a target")
    }

    /// A nameserver that answers every A question with one address, and counts what it was asked.
    async fn nameserver(answer: [u8; 4]) -> (SocketAddr, Arc<AtomicUsize>) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("bound");
        let address = socket.local_addr().expect("an address");
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        tokio::spawn(async move {
            let mut packet = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                count.fetch_add(1, Ordering::Relaxed);
                let _ = socket.send_to(&reply(&packet[..length], answer), from).await;
            }
        });
        (address, asked)
    }

    fn reply(query: &[u8], address: [u8; 4]) -> Vec<u8> {
        let name_end = 12 + query[12..].iter().position(|byte| *byte == 0).expect("a name") + 1;
        let is_a = query[name_end..name_end + 2] == [0, 1];
        let mut reply = query[..name_end + 4].to_vec();
        reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
        if is_a {
            reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            reply.extend(address);
        }
        reply
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_a_screened_address_is_never_dialled() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let (server, asked) = nameserver([127, 0, 0, 1]).await;
        let dialer = Dialer::new(&DialConfig { nameservers: vec![server], connect_timeout: Duration::from_secs(5) });
        let said = dialer.dial(&target(&format!("rebound.test:{port}")), None).await.expect_err("screened");
        assert_eq!(said, DialFault::Screened { address: IpAddr::from([127, 0, 0, 1]), class: Class::Loopback });
        assert!(asked.load(Ordering::Relaxed) > 0, "the name was looked up");
        assert!(
            tokio::time::timeout(Duration::from_millis(100), listener.accept()).await.is_err(),
            "nothing connected"
        );
    }

    #[tokio::test]
    async fn an_address_is_screened_too_unless_its_grant_names_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let dialer = Dialer::new(&DialConfig::default());
        let said = dialer.dial(&target(&address.to_string()), None).await.expect_err("screened");
        assert!(matches!(said, DialFault::Screened { class: Class::Loopback, .. }));
        let said =
            dialer.dial(&target(&format!("[::ffff:127.0.0.1]:{}", address.port())), None).await.expect_err("screened");
        assert!(matches!(said, DialFault::Screened { class: Class::Loopback, .. }));
        let stream = dialer.dial(&target("api.ok.test:443"), Some(address)).await.expect("dialled instead");
        assert_eq!(stream.peer_addr().expect("a peer"), address);
        assert!(stream.nodelay().expect("an option"));
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().expect("an option"));
        assert_eq!(
            (
                socket.tcp_keepalive_time().expect("an option"),
                socket.tcp_keepalive_interval().expect("an option"),
                socket.tcp_keepalive_retries().expect("an option"),
            ),
            (PROBED_AFTER, PROBE_INTERVAL, PROBES)
        );
    }

    #[tokio::test]
    async fn the_next_address_is_tried_when_one_fails_and_all_that_fail_are_unreachable() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let good = listener.local_addr().expect("an address");
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("bound").local_addr().expect("an address");
        let stream = connect_first(vec![closed, good]).await.expect("connected");
        assert_eq!(stream.peer_addr().expect("a peer"), good);
        assert_eq!(connect_first(vec![closed]).await.err(), Some(DialFault::Unreachable));
        assert_eq!(connect_first(Vec::new()).await.err(), Some(DialFault::Unreachable));
    }

    #[tokio::test]
    async fn a_name_that_nobody_answers_for_ends_by_the_deadline() {
        let silent = UdpSocket::bind("127.0.0.1:0").await.expect("bound");
        let config = DialConfig {
            nameservers: vec![silent.local_addr().expect("an address")],
            connect_timeout: Duration::from_millis(200),
        };
        let said = Dialer::new(&config).dial(&target("silent.test:443"), None).await.expect_err("no answer");
        assert_eq!(said, DialFault::TimedOut);
    }

    #[test]
    fn of_mixed_answers_the_public_ones_stay() {
        let mixed = ["10.0.0.1", "1.1.1.1", "::1"].map(|address| address.parse::<IpAddr>().expect("an address"));
        assert_eq!(screened(&mixed), Ok(vec![mixed[1]]));
        assert_eq!(screened(&[]), Err(DialFault::NotFound));
        assert!(matches!(screened(&mixed[..1]), Err(DialFault::Screened { class: Class::Private, .. })));
    }
}
