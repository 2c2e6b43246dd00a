//! A TCP door: its numeric address, the box key that a claim there must prove, and connections whose other end is watched.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use box_spec::wire::SHORTEST_KEY;
use hmac::{Hmac, Mac};
use nix::sys::socket::{setsockopt, sockopt};
use sha2::Sha256;
use shim::{Door, DoorStream};
use thiserror::Error;
use tokio::net::TcpSocket;

/// A TCP door, and the key for it. Whoever has the key can claim there: boxd alone holds it, and shows it to nobody.
#[derive(Clone)]
pub(crate) struct NetworkDoor {
    pub(crate) address: SocketAddr,
    key: Box<str>,
}

/// Why there is no such door: exit code 64.
#[derive(Debug, Error)]
pub(crate) enum NetworkDoorFault {
    #[error("the door {0} must be an address with its port, as in tcp://172.31.250.2:3129: boxd looks up no names")]
    Address(String),
    #[error("a tcp:// door needs the key of this box: name its file by BOXGATE_KEY_FILE")]
    NoKey,
    #[error(
        "a tcp:// door needs the house's fingerprint: give it by BOXGATE_HOUSE or BOXGATE_HOUSE_FILE; `gateway status` prints it"
    )]
    NoHouse,
    #[error("BOXGATE_HOUSE_FILE: read {path}")]
    HouseFile { path: PathBuf, source: io::Error },
    #[error("BOXGATE_HOUSE and BOXGATE_HOUSE_FILE name two houses: give one of them")]
    TwoHouses,
    #[error("BOXGATE_KEY_FILE is for a tcp:// door, and this box's is a socket: leave it out, or correct the door")]
    StrayKey,
    #[error("read the box key {path}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} must hold the box key alone: one line of at least {SHORTEST_KEY} characters of visible ASCII")]
    Malformed { path: PathBuf },
}

/// The address of a `tcp://` door; `None` for the path of a socket.
pub(crate) fn address_of(door: &Path) -> Result<Option<SocketAddr>, NetworkDoorFault> {
    let Some(address) = door.to_str().and_then(|door| door.strip_prefix(SCHEME)) else { return Ok(None) };
    let read = address.parse::<SocketAddr>().ok().filter(|read| read.port() != 0 && !read.ip().is_unspecified());
    read.map(Some).ok_or_else(|| NetworkDoorFault::Address(door.display().to_string()))
}

impl NetworkDoor {
    /// Reads the key.
    pub(crate) fn new(address: SocketAddr, key_file: Option<&Path>) -> Result<Self, NetworkDoorFault> {
        let path = key_file.ok_or(NetworkDoorFault::NoKey)?;
        let text = read_line(path).map_err(|source| NetworkDoorFault::Unreadable { path: path.to_owned(), source })?;
        let sound = text.len() >= SHORTEST_KEY && text.bytes().all(|byte| byte.is_ascii_graphic());
        match sound {
            true => Ok(Self { address, key: text.into() }),
            false => Err(NetworkDoorFault::Malformed { path: path.to_owned() }),
        }
    }

    /// The proof of the key on this text, in hexadecimal digits. The key itself is sent nowhere.
    pub(crate) fn prove(&self, text: &str) -> String {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.key.as_bytes()) else {
            // HMAC takes a key of any length.
            return String::new();
        };
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// As the launch sees it.
    pub(crate) fn door(&self) -> Door {
        let address = self.address;
        Door::through(&name(address), move || {
            Box::pin(async move {
                let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
                watch(&socket)?;
                socket.connect(address).await.map(DoorStream::Network)
            })
        })
    }
}

/// What messages call the door.
pub(crate) fn name(address: SocketAddr) -> String {
    format!("{SCHEME}{address}")
}

/// A house that is gone without a word is noticed in 25 s, by a claim that is silent for hours too.
pub(crate) fn watch(socket: &impl AsFd) -> io::Result<()> {
    setsockopt(socket, sockopt::TcpNoDelay, &true)?;
    setsockopt(socket, sockopt::KeepAlive, &true)?;
    setsockopt(socket, sockopt::TcpKeepIdle, &10)?;
    setsockopt(socket, sockopt::TcpKeepInterval, &5)?;
    setsockopt(socket, sockopt::TcpKeepCount, &3)?;
    setsockopt(socket, sockopt::TcpUserTimeout, &25_000)?;
    Ok(())
}

/// A file of one line, without the newline at its end.
pub(crate) fn read_line(path: &Path) -> io::Result<String> {
    let file = std::fs::File::open(path)?;
    let mut text = String::new();
    io::Read::read_to_string(&mut io::Read::take(file, LONGEST), &mut text)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

impl fmt::Debug for NetworkDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetworkDoor({})", self.address)
    }
}

const SCHEME: &str = "tcp://";
const LONGEST: u64 = 64 * 1024;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files there as a user would")]
mod tests {
    use std::path::Path;

    use super::{NetworkDoor, NetworkDoorFault, address_of};

    #[test]
    fn a_door_is_a_socket_or_a_numeric_address() {
        assert!(address_of(Path::new("/run/door.sock")).expect("a socket").is_none());
        for good in ["tcp://172.31.250.2:3129", "tcp://[fd00::2]:1"] {
            assert!(address_of(Path::new(good)).expect(good).is_some(), "{good}");
        }
        for bad in [
            "tcp://gateway:3129",
            "tcp://172.31.250.2",
            "tcp://172.31.250.2:0",
            "tcp://",
            "tcp://0.0.0.0:1",
            "tcp://1.2.3.4:5/x",
        ] {
            let said = address_of(Path::new(bad)).expect_err(bad).to_string();
            assert!(said.contains(bad) && said.contains("no names"), "{said}");
        }
    }

    #[test]
    fn a_key_is_one_long_line_and_its_proof_is_hmac_sha_256() {
        let folder = tempfile::tempdir().expect("a folder");
        let address = "127.0.0.1:1".parse().expect("an address");
        let path = folder.path().join("key");
        let with = |text: &str| {
            std::fs::write(&path, text).expect("written");
            NetworkDoor::new(address, Some(&path))
        };
        let good = with(&format!("{}\n", "k".repeat(32))).expect("a key");
        // By another implementation.
        assert_eq!(good.prove("text"), "8d3a9f54db4f3f1e3addef3fc62a0359d0d9d2a87c07cf465284062fded2baa2");
        assert!(!format!("{good:?}").contains("kk"));
        for bad in ["", "short", &"k k".repeat(20), &"é".repeat(40)] {
            assert!(matches!(with(bad), Err(NetworkDoorFault::Malformed { .. })), "{bad}");
        }
        assert!(matches!(NetworkDoor::new(address, None), Err(NetworkDoorFault::NoKey)));
        let missing = NetworkDoor::new(address, Some(Path::new("/nonexistent/key")));
        assert!(matches!(missing, Err(NetworkDoorFault::Unreadable { .. })));
    }
}
