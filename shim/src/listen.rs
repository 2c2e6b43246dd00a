//! Listening: one loopback port, a bounded number of connections, one task for each.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::door::Door;
use crate::pass;
use crate::tag::RunTag;

/// A port on 127.0.0.1. It cannot hold any other address, so the shim cannot listen anywhere else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loopback {
    port: u16,
}

/// A shim that listens already: whoever holds it may start the agent.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    at: Loopback,
    door: Door,
    tag: RunTag,
}

/// Why there is no shim.
#[derive(Debug, Error)]
pub enum ShimFault {
    #[error("listen on 127.0.0.1:{port}: is loopback up in this box?")]
    Listen { port: u16, source: io::Error },
    #[error("accept on the shim's port")]
    Accept { source: io::Error },
}

impl Loopback {
    #[must_use]
    pub const fn port(port: u16) -> Self {
        Self { port }
    }

    #[must_use]
    pub const fn number(self) -> u16 {
        self.port
    }

    const fn address(self) -> SocketAddr {
        SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port))
    }
}

/// Listens at `wanted`, or at any free port where that one is busy.
pub async fn listen(wanted: Loopback, door: Door, tag: RunTag) -> Result<Listening, ShimFault> {
    let listener = match TcpListener::bind(wanted.address()).await {
        Err(fault) if fault.kind() == io::ErrorKind::AddrInUse => TcpListener::bind(Loopback::port(0).address()).await,
        bound => bound,
    };
    let fault = |source| ShimFault::Listen { port: wanted.port, source };
    let listener = listener.map_err(fault)?;
    let port = listener.local_addr().map_err(fault)?.port();
    Ok(Listening { listener, at: Loopback::port(port), door, tag })
}

impl Listening {
    /// Where it listens: the number that goes into the proxy variables.
    #[must_use]
    pub const fn at(&self) -> Loopback {
        self.at
    }

    /// Serves until accepting fails for good, which ends the run.
    pub async fn serve(self) -> ShimFault {
        self.serve_up_to(CONNECTIONS).await
    }

    pub(crate) async fn serve_up_to(self, most: usize) -> ShimFault {
        let slots = Arc::new(Semaphore::new(most));
        let full = pass::full(&self.tag, most);
        let (at, shared) = (self.at, Arc::new((self.door, self.tag)));
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(fault) if passes_by(&fault) => {
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
                Err(source) => return ShimFault::Accept { source },
            };
            let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                turn_away(&stream, &full);
                continue;
            };
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                pass::carry(stream, at, &shared.0, &shared.1).await;
                drop(slot);
            });
        }
    }
}

/// Whether an accept error says something about one connection or a passing shortage, not about the listener.
fn passes_by(fault: &io::Error) -> bool {
    !matches!(fault.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotConnected | io::ErrorKind::Unsupported)
}

/// Best effort: a socket just accepted has room for these few bytes.
fn turn_away(stream: &TcpStream, full: &[u8]) {
    let _ = stream.try_write(full);
}

/// Connections of one box at once; above it a connection is answered 503.
const CONNECTIONS: usize = 512;
/// Between two tries to accept when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
