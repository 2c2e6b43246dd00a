//! The attack list: what a hostile agent tries, tried from where it would stand, against the boxd that started it.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::kill;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, connect, setsockopt, socket, sockopt,
};
use nix::sys::stat::{Mode, SFlag, fchmod, makedev, mknod};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::{AccessFlags, Pid, access, getppid};
use shim::Door;

use crate::reach::Reach;
use crate::sys;

/// One attempt and what came of it: `None` is that it was let in.
pub(super) struct Attempt {
    pub(super) what: String,
    pub(super) refused: Option<Errno>,
}

/// Enters the scope as an agent does, and tries everything once. The parent is boxd.
pub(super) fn attempts(scope: Option<&OwnedFd>, door: &Door, reach: &[Reach]) -> io::Result<Vec<Attempt>> {
    if let Some(scope) = scope {
        sys::harden::enter_scope(scope.as_fd())?;
    }
    let boxd = getppid();
    let mut all: Vec<Attempt> = sys::attempt::calls(boxd).map(|(what, came)| attempt(what, came)).collect();
    all.extend(other_processes(boxd));
    all.extend(sockets());
    all.extend(ways_out());
    all.extend(places());
    all.extend(own_folders(door));
    all.extend(reach.iter().map(reached));
    Ok(all)
}

fn other_processes(boxd: Pid) -> Vec<Attempt> {
    let file = |name: &str| read(&format!("/proc/{boxd}/{name}"));
    let look = |path: &str| errno(std::fs::read_link(path).map(drop));
    vec![
        attempt("boxd is signalled", kill(boxd, None)),
        attempt("boxd's memory is opened", file("mem")),
        attempt("boxd's environment is read", file("environ")),
        attempt("boxd's descriptors are looked at", look(&format!("/proc/{boxd}/fd/0"))),
        attempt("boxd's root is entered", look(&format!("/proc/{boxd}/root"))),
        attempt("process 1's environment is read", read("/proc/1/environ")),
        attempt("process 1's memory is opened", read("/proc/1/mem")),
        attempt("process 1's descriptors are looked at", look("/proc/1/fd/0")),
        attempt("process 1's root is entered", look("/proc/1/root")),
    ]
}

fn sockets() -> Vec<Attempt> {
    let open = |family, kind, protocol: Option<SockProtocol>| socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol);
    let marked =
        memfd_create("marked", MFdFlags::MFD_CLOEXEC).and_then(|file| fchmod(file, Mode::S_ISUID | Mode::S_IRWXU));
    vec![
        attempt("a raw socket", open(AddressFamily::Inet, SockType::Raw, Some(SockProtocol::Icmp)).map(drop)),
        attempt("a raw IPv6 socket", open(AddressFamily::Inet6, SockType::Raw, Some(SockProtocol::IcmpV6)).map(drop)),
        attempt("a packet socket", open(AddressFamily::Packet, SockType::Raw, None).map(drop)),
        attempt("a socket to the hypervisor", open(AddressFamily::Vsock, SockType::Stream, None).map(drop)),
        attempt("an abstract socket of another", abstract_sockets()),
        attempt("a set-uid program", marked),
        attempt("a device node", device_node()),
    ]
}

/// The zero device, by another name; removed again where it could be made.
fn device_node() -> Result<(), Errno> {
    let path = std::env::temp_dir().join(format!(".boxd-device-{}", std::process::id()));
    let made = mknod(&path, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 5));
    if made.is_ok() {
        let _best_effort = std::fs::remove_file(&path);
    }
    made
}

/// Nothing is sent: whether there is a way is known when a datagram socket is given its peer.
fn ways_out() -> Vec<Attempt> {
    let mut all: Vec<Attempt> = ADDRESSES
        .iter()
        .map(|(what, address)| {
            attempt(format!("{what} ({address})"), address.parse().map_err(|_| Errno::EINVAL).and_then(way_to))
        })
        .collect();
    all.push(attempt("the engine's name server (127.0.0.11)", name_server()));
    all
}

fn way_to(address: IpAddr) -> Result<(), Errno> {
    let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let opened = UdpSocket::bind(SocketAddr::new(any, 0));
    errno(opened.and_then(|socket| socket.connect(SocketAddr::new(address, DISCARD))))
}

/// Docker's resolver listens on loopback in networks that a person made. One that finds no way to ask for a name of
/// the outside says so; any other answer came from there.
fn name_server() -> Result<(), Errno> {
    let asked = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).and_then(|socket| {
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.connect(SocketAddr::from(([127, 0, 0, 11], 53)))?;
        socket.send(&QUESTION)?;
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer)?;
        Ok(answer[..length].get(3).map(|flags| flags & 0x0f))
    });
    match errno(asked)? {
        Some(SERVER_FAILURE | REFUSED) => Err(Errno::EHOSTUNREACH),
        _ => Ok(()),
    }
}

fn abstract_sockets() -> Result<(), Errno> {
    let listed = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let names = listed.lines().filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix('@'));
    let mut came = Err(Errno::ENOENT);
    for name in names.take(MOST) {
        came = errno(
            UnixAddress::from_abstract_name(name).and_then(|address| UnixStream::connect_addr(&address)).map(drop),
        );
        if came.is_ok() {
            break;
        }
    }
    came
}

/// What of the host a box was given by mistake.
fn places() -> Vec<Attempt> {
    let connect = |path: &&str| attempt(format!("the engine ({path})"), errno(UnixStream::connect(path).map(drop)));
    let open = |path: &&str| attempt(format!("a device ({path})"), read(path));
    let write = |path: &&str| {
        let opened = File::options().write(true).open(path);
        attempt(format!("a setting of the kernel ({path})"), errno(opened.map(drop)))
    };
    let house = |path: &&str| attempt(format!("the house's own ({path})"), errno(Path::new(path).metadata().map(drop)));
    let others = DEVICES.iter().map(open).chain(SETTINGS.iter().map(write)).chain(HOUSE.iter().map(house));
    ENGINES.iter().map(connect).chain(others).collect()
}

/// What the agent is given to use and not to change.
fn own_folders(door: &Door) -> Vec<Attempt> {
    let writable = |path: Option<&Path>| {
        let path = path.ok_or(Errno::ENOENT)?;
        access(path, AccessFlags::W_OK | AccessFlags::X_OK)
    };
    let program = std::env::current_exe().ok();
    vec![
        attempt("the folder of the door is written to", writable(Path::new(door.name()).parent())),
        attempt("the folder of boxd's program is written to", writable(program.as_deref().and_then(Path::parent))),
    ]
}

/// What the caller named.
fn reached(reach: &Reach) -> Attempt {
    match reach {
        Reach::Address(address) => attempt(format!("{address} by TCP"), connected(*address)),
        Reach::Path(path) => {
            let opened = match UnixStream::connect(path) {
                Err(error) if error.raw_os_error() == Some(Errno::ECONNREFUSED as i32) => File::open(path).map(drop),
                other => other.map(drop),
            };
            attempt(path.display().to_string(), errno(opened))
        }
    }
}

fn connected(address: SocketAddr) -> Result<(), Errno> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // Linux bounds the handshake by this.
    setsockopt(
        &socket,
        sockopt::SendTimeout,
        &TimeVal::milliseconds(i64::try_from(PATIENCE.as_millis()).unwrap_or(300)),
    )?;
    match address {
        SocketAddr::V4(address) => connect(socket.as_raw_fd(), &SockaddrIn::from(address)),
        SocketAddr::V6(address) => connect(socket.as_raw_fd(), &SockaddrIn6::from(address)),
    }
}

fn read(path: &str) -> Result<(), Errno> {
    errno(File::open(path).map(drop))
}

fn attempt(what: impl Into<String>, came: Result<(), Errno>) -> Attempt {
    Attempt { what: what.into(), refused: came.err().filter(|errno| is_refusal(*errno)) }
}

/// Any other error is that of a call that was let in and found nothing to work with.
fn is_refusal(errno: Errno) -> bool {
    use Errno as E;
    matches!(
        errno,
        E::EPERM
            | E::EACCES
            | E::ENOSYS
            | E::ENOENT
            | E::ENOTDIR
            | E::ENODEV
            | E::ENXIO
            | E::EROFS
            | E::ENETUNREACH
            | E::EHOSTUNREACH
            | E::EADDRNOTAVAIL
            | E::EAFNOSUPPORT
            | E::ECONNREFUSED
            | E::EAGAIN
            | E::EINPROGRESS
            | E::ETIMEDOUT
    )
}

fn errno<T>(came: io::Result<T>) -> Result<T, Errno> {
    came.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}

const ADDRESSES: [(&str, &str); 12] = [
    ("the internet", "192.0.2.1"),
    ("the internet by IPv6", "2001:db8::1"),
    ("the cloud's metadata", "169.254.169.254"),
    ("the cloud's metadata by IPv6", "fd00:ec2::254"),
    ("the host on the engine's bridge", "172.17.0.1"),
    ("the host on a bridge of compose", "172.18.0.1"),
    ("the host of a desktop", "192.168.65.254"),
    ("a private network", "10.0.0.1"),
    ("a private network", "192.168.0.1"),
    ("a provider's own network", "100.64.0.1"),
    ("a private network by IPv6", "fd00::1"),
    ("all of a link", "224.0.0.251"),
];
const ENGINES: [&str; 4] =
    ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock"];
const DEVICES: [&str; 6] = ["/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/fuse", "/proc/kcore"];
const SETTINGS: [&str; 3] = ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/sys/kernel/uevent_helper"];
/// Where `compose.yaml` and the examples put what belongs to the house alone.
const HOUSE: [&str; 5] = ["/data", "/secrets", "/doors", "/logins", "/etc/boxgate"];
const SERVER_FAILURE: u8 = 2;
const REFUSED: u8 = 5;
const DISCARD: u16 = 9;
const MOST: usize = 64;
const PATIENCE: Duration = Duration::from_millis(300);
/// Who is `example.com`: an A query (RFC 1035 section 4.1) for a name that belongs to nobody (RFC 2606).
const QUESTION: [u8; 29] = *b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01";
