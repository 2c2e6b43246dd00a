//! The ways into the house: each box has one, either a unix socket or an address with a box key, and no two are one.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::box_key::BoxKey;

use super::faults::{Faults, Span};
use super::raw::RawDoor;
use super::reader::At;
use super::{DoorConfig, NetworkDoor};

/// What is taken so far.
#[derive(Default)]
pub(super) struct Doors {
    sockets: BTreeMap<PathBuf, &'static str>,
    addresses: Vec<SocketAddr>,
    keys: Vec<BoxKey>,
}

impl Doors {
    /// The door of a box: of one kind, with all that belongs to it.
    pub(super) fn convert(&mut self, raw: RawDoor, base: &Path, faults: &mut Faults) -> Option<DoorConfig> {
        let RawDoor { socket, listen, key_file, house_file, unsafe_loopback } = raw;
        match (socket, listen) {
            (Some(_), Some(listen)) => {
                faults.add(listen.span, "a box has one door: keep `door` (a unix socket) or `listen` (an address)");
                None
            }
            (Some(socket), None) => {
                let stray = [("key_file", key_file), ("house_file", house_file)];
                for (key, place) in stray.into_iter().filter_map(|(key, text)| Some((key, text?.span))) {
                    faults.add(place, format!("`{key}` in [[box]] goes with `listen` alone"));
                }
                if let Some(flag) = unsafe_loopback {
                    faults.add(flag.span, "`unsafe_loopback` in [[box]] goes with `listen` alone");
                }
                let path = base.join(socket.value);
                self.add_socket(&path, &socket.span, "the socket of another box or the operator's", faults);
                Some(DoorConfig::Socket(path))
            }
            (None, Some(listen)) => {
                let Some(key_file) = key_file else {
                    faults.add(
                        listen.span,
                        "`listen` needs `key_file`: a file with the box key, which only this box is given beside the house",
                    );
                    return None;
                };
                let allowed = unsafe_loopback.is_some_and(|flag| flag.value);
                let address = self.address(&listen, allowed, faults);
                let key = self.key(&key_file, base, faults);
                let house_file = house_file.map(|file| base.join(file.value));
                Some(DoorConfig::Network(NetworkDoor { listen: address?, key: key?, house_file }))
            }
            // Told already: `[[box]]` needs one of the two.
            (None, None) => None,
        }
    }

    pub(super) fn add_socket(&mut self, path: &Path, span: &Span, whose: &'static str, faults: &mut Faults) {
        let length = path.as_os_str().as_bytes().len();
        if length > LONGEST_SOCKET {
            faults.add(
                span.clone(),
                format!(
                    "{} has {length} bytes, and the path of a unix socket at most {LONGEST_SOCKET}",
                    path.display()
                ),
            );
        }
        if let Some(other) = self.sockets.insert(path.to_owned(), whose) {
            faults.add(span.clone(), format!("{} is already {other}: each needs a socket of its own", path.display()));
        }
    }

    fn address(&mut self, listen: &At<String>, loopback_allowed: bool, faults: &mut Faults) -> Option<SocketAddr> {
        let read = listen.value.parse::<SocketAddr>().ok();
        let Some(address) = read.filter(|read| read.port() != 0 && !is_nobodys(read.ip())) else {
            faults.add(
                listen.span.clone(),
                "`listen` must be an address of the house in the box's network, with its port: \"172.31.250.2:3129\", \"[fd00::2]:3129\"",
            );
            return None;
        };
        if address.ip().to_canonical().is_loopback() && !loopback_allowed {
            faults.add(
                listen.span.clone(),
                "a box has a loopback of its own and does not reach this one: listen on the house's address in the box's network; for boxes that share the house's loopback (a box that boxd makes in the same pod), set `unsafe_loopback = true`, or use `door`",
            );
        }
        if let Some(other) = self.addresses.iter().find(|other| overlap(**other, address)) {
            faults.add(
                listen.span.clone(),
                format!("another box listens on {other} already: the address says which box, so each needs one that no other answers"),
            );
        }
        self.addresses.push(address);
        Some(address)
    }

    fn key(&mut self, file: &At<String>, base: &Path, faults: &mut Faults) -> Option<BoxKey> {
        let key = faults.take(&file.span, BoxKey::read(&base.join(&file.value)))?;
        if self.keys.contains(&key) {
            faults.add(file.span.clone(), "this is the key of another box: each needs a key of its own");
        }
        self.keys.push(key.clone());
        Some(key)
    }
}

/// An address that no interface has.
fn is_nobodys(address: IpAddr) -> bool {
    address.is_multicast() || address == IpAddr::from([255; 4])
}

/// Whether one connection could come to both.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    one.port() == other.port() && (a == b || a.is_unspecified() || b.is_unspecified())
}

/// `sun_path` has 108 bytes, the last of them zero.
const LONGEST_SOCKET: usize = 107;
