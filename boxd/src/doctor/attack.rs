//! The attack list: what a hostile agent tries, tried from where it would stand, against the boxd that started it.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::kill;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{Pid, getppid};

use crate::sys;

/// One attempt and what came of it: `None` is that it was let in.
pub(super) struct Attempt {
    pub(super) what: String,
    pub(super) refused: Option<Errno>,
}

/// Enters the scope as an agent does, and tries everything once. The parent is boxd.
pub(super) fn attempts(scope: Option<&OwnedFd>) -> io::Result<Vec<Attempt>> {
    if let Some(scope) = scope {
        sys::harden::enter_scope(scope.as_fd())?;
    }
    let boxd = getppid();
    let mut all: Vec<Attempt> = sys::attempt::calls(boxd).map(|(what, came)| attempt(what, came)).collect();
    all.extend(other_processes(boxd));
    all.extend(sockets());
    all.extend(ways_out());
    all.extend(places());
    Ok(all)
}

fn other_processes(boxd: Pid) -> Vec<Attempt> {
    let file = |name: &str| read(&format!("/proc/{boxd}/{name}"));
    let looked = std::fs::read_link(format!("/proc/{boxd}/fd/0")).map(drop);
    vec![
        attempt("boxd is signalled", kill(boxd, None)),
        attempt("boxd's memory is opened", file("mem")),
        attempt("boxd's environment is read", file("environ")),
        attempt("boxd's descriptors are looked at", errno(looked)),
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
    ]
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

/// Docker's resolver listens on loopback in networks that a person made.
fn name_server() -> Result<(), Errno> {
    let asked = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).and_then(|socket| {
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.connect(SocketAddr::from(([127, 0, 0, 11], 53)))?;
        socket.send(&QUESTION)?;
        socket.recv(&mut [0; 512]).map(drop)
    });
    errno(asked)
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
    ENGINES.iter().map(connect).chain(DEVICES.iter().map(open)).chain(SETTINGS.iter().map(write)).collect()
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
    )
}

fn errno(came: io::Result<()>) -> Result<(), Errno> {
    came.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}

const ADDRESSES: [(&str, &str); 6] = [
    ("the internet", "192.0.2.1"),
    ("the internet by IPv6", "2001:db8::1"),
    ("the cloud's metadata", "169.254.169.254"),
    ("the cloud's metadata by IPv6", "fd00:ec2::254"),
    ("the host on the engine's bridge", "172.17.0.1"),
    ("a private network", "10.0.0.1"),
];
const ENGINES: [&str; 4] =
    ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock"];
const DEVICES: [&str; 6] = ["/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/fuse", "/proc/kcore"];
const SETTINGS: [&str; 3] = ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/sys/kernel/uevent_helper"];
const DISCARD: u16 = 9;
const MOST: usize = 64;
const PATIENCE: Duration = Duration::from_millis(300);
/// Who is `localhost`: an A query (RFC 1035 section 4.1).
const QUESTION: [u8; 27] = *b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x09localhost\0\0\x01\0\x01";
