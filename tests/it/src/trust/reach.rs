//! What an isolated box can reach of its host: no file, no socket, no address; as root's box and as an ordinary user's.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use harness::files::{give, put_deep};
use harness::{BoxRun, House};
use serde_json::Value;

use super::{USER, builder, house, launch, probe};

/// The house, its state, the sockets and the home all belong to the uid of the box: only the walls are between them.
pub(super) fn nothing_of_the_user() -> Result<()> {
    let house = builder().as_user(USER).start()?;
    let launch = BoxRun::new(&house, "one")?.isolated();
    let planted = launch.home().join(".ssh/id_ed25519");
    put_deep(&planted, b"planted-secret", 0o600)?;
    let sockets = Sockets::open(USER)?;
    let launch = launch.as_user(USER)?;
    let seen = look(&launch, &house, &[planted, launch.home(), launch.session_folder().to_owned()], &sockets)?;
    ensure!(seen["uid"] == USER, "{}", seen["uid"]);
    ensure!(seen["seen"].as_array().is_some_and(Vec::is_empty), "{}", seen["seen"]);
    ensure!(seen["reached"].as_array().is_some_and(Vec::is_empty), "{}", seen["reached"]);
    Ok(())
}

pub(super) fn no_host_socket() -> Result<()> {
    let house = house()?;
    let sockets = Sockets::open(0)?;
    let launch = launch(&house, true)?;
    let seen = look(&launch, &house, &[], &sockets)?;
    ensure!(seen["uid"] != 0, "{}", seen["uid"]);
    ensure!(seen["seen"].as_array().is_some_and(Vec::is_empty), "{}", seen["seen"]);
    ensure!(seen["reached"].as_array().is_some_and(Vec::is_empty), "{}", seen["reached"]);
    Ok(())
}

pub(super) fn no_way_out() -> Result<()> {
    ways_out(&launch(&house()?, true)?)
}

pub(super) fn no_way_out_as_user() -> Result<()> {
    let house = builder().as_user(USER).start()?;
    ways_out(&launch(&house, true)?.as_user(USER)?)
}

/// Sockets of a host that a box likes to find, each with a listener behind it.
struct Sockets {
    paths: Vec<PathBuf>,
    abstract_name: String,
    tcp: u16,
    _open: (Vec<UnixListener>, UnixListener, TcpListener, Vec<tempfile::TempDir>),
}

impl Sockets {
    fn open(owner: u32) -> Result<Self> {
        let (mut paths, mut open, mut folders) = (Vec::new(), Vec::new(), Vec::new());
        for place in ["/run", "/var/run", "/tmp", "/dev/shm"].iter().filter(|place| Path::new(place).is_dir()) {
            let folder = tempfile::Builder::new().prefix("boxgate-test-").tempdir_in(place).context("make a folder")?;
            let path = folder.path().join("docker.sock");
            open.push(UnixListener::bind(&path).context("listen like docker")?);
            give(folder.path(), owner)?;
            paths.push(path);
            folders.push(folder);
        }
        let abstract_name = format!("boxgate-test-{}-{owner}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).context("name an abstract socket")?;
        let hidden = UnixListener::bind_addr(&address).context("listen on an abstract socket")?;
        let tcp = TcpListener::bind("127.0.0.1:0").context("listen on the host's loopback")?;
        let port = tcp.local_addr()?.port();
        ensure!(paths.len() >= 3, "planted only {paths:?}");
        Ok(Self { paths, abstract_name, tcp: port, _open: (open, hidden, tcp, folders) })
    }
}

/// Tries every path and every socket from the box.
fn look(launch: &BoxRun, house: &House, more: &[PathBuf], sockets: &Sockets) -> Result<Value> {
    let of_house =
        [house.secret(), house.config(), house.state(), house.ledger_file(), house.state().join("ca/ca.key")];
    let paths: Vec<PathBuf> = [&of_house, more, &[house.door("one")], &sockets.paths].concat();
    for path in &paths {
        ensure!(path.exists(), "the test planted nothing at {}", path.display());
    }
    let named: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    probe(
        launch,
        &format!(
            "paths = {named:?}
roots = ['', '/proc/1/root', '/proc/self/root', '/proc/self/cwd/../../../../..', '/session/../..']
out['seen'] = [r + p for p in paths for r in roots if os.path.lexists(r + p)]
out['uid'] = os.getuid()
def reaches(family, address):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(2)
    try: s.connect(address); return True
    except OSError: return False
out['reached'] = [p for p in paths if reaches(socket.AF_UNIX, p)]
out['reached'] += [n for n in [{:?}] if reaches(socket.AF_UNIX, chr(0) + n)]
out['reached'] += [n for n in [{}] if reaches(socket.AF_INET, ('127.0.0.1', n))]
out['reached'] += ['vsock'] if hasattr(socket, 'AF_VSOCK') and os.path.exists('/dev/vsock') else []
for d, _, fs in os.walk('/run'): out['seen'] += [os.path.join(d, f) for f in fs]",
            sockets.abstract_name, sockets.tcp
        ),
    )
}

/// Connect by IPv4 and IPv6, send by UDP, ask for a name, open a raw socket: each fails in less than 100 ms.
fn ways_out(launch: &BoxRun) -> Result<()> {
    let on_host = UdpSocket::bind("127.0.0.1:0").context("listen for datagrams on the host")?;
    let port = on_host.local_addr()?.port();
    let seen = probe(
        launch,
        &format!(
            "def timed(deed):
    best = None
    for _ in range(3):
        began = time.time()
        try: deed(); how = 'DONE'
        except OSError as e: how = errno.errorcode.get(e.errno, 'ERROR')
        took = time.time() - began
        if best is None or took < best[1]: best = [how, took]
    return best
def tcp(family, address):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(5); s.connect(address)
def udp(family, address):
    s = socket.socket(family, socket.SOCK_DGRAM); s.sendto(b'x' * 30, address)
def raw(family, proto): socket.socket(family, socket.SOCK_RAW, proto)
I4, I6 = socket.AF_INET, socket.AF_INET6
for name, deed in dict(
    connect4=lambda: tcp(I4, ('93.184.216.34', 443)), connect6=lambda: tcp(I6, ('2606:2800:220:1::1', 443)),
    metadata=lambda: tcp(I4, ('169.254.169.254', 80)), private=lambda: tcp(I4, ('10.0.0.1', 22)),
    linklocal6=lambda: tcp(I6, ('fe80::1', 80)), udp4=lambda: udp(I4, ('8.8.8.8', 53)),
    udp6=lambda: udp(I6, ('2001:4860:4860::8888', 53)), quic=lambda: udp(I4, ('93.184.216.34', 443)),
    broadcast=lambda: udp(I4, ('255.255.255.255', 9)), multicast=lambda: udp(I4, ('224.0.0.251', 5353)),
    raw4=lambda: raw(I4, socket.IPPROTO_ICMP), packet=lambda: raw(socket.AF_PACKET, 0x300),
    name=lambda: socket.getaddrinfo('api.anthropic.com', 443), name6=lambda: socket.getaddrinfo('api.anthropic.com', 443, I6),
).items(): out[name] = timed(deed)
try: udp(I4, ('127.0.0.1', {port}))
except OSError: pass"
        ),
    )?;
    let ways = seen.as_object().context("no ways")?;
    ensure!(ways.len() == 14, "tried only {ways:?}");
    for (way, how) in ways {
        ensure!(how[0] != "DONE", "{way} is a way out: {seen}");
        ensure!(how[1].as_f64().is_some_and(|took| took < 0.1), "{way} took {} s to fail", how[1]);
    }
    on_host.set_nonblocking(true)?;
    ensure!(on_host.recv(&mut [0; 64]).is_err(), "a datagram came to the host's loopback");
    Ok(())
}
