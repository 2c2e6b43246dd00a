//! A door that listens: a unix socket of one box, or an address of the house in one box's network.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::config::DoorConfig;
use crate::files::{self, FileError};

/// The listener of one box.
pub struct DoorListener {
    listener: Listener,
    name: String,
    /// When it was last said that no connection is accepted.
    complained: Mutex<Option<Instant>>,
}

enum Listener {
    /// The folder that holds it is the lock; the socket itself is open to all who reach it.
    Socket(UnixListener, PathBuf),
    Network(TcpListener),
}

/// One connection at a door.
pub enum DoorStream {
    Socket(UnixStream),
    Network(TcpStream),
}

/// A door that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorFault {
    #[error("make the folder of door {path}")]
    Folder { path: PathBuf, source: FileError },
    #[error("open door {path}: another process answers there; stop it, or give this box a door of its own")]
    Answered { path: PathBuf },
    #[error("open door {path}: it exists and is no socket; remove it or choose another path")]
    NoSocket { path: PathBuf },
    #[error("open door {path}")]
    Bind { path: PathBuf, source: io::Error },
    #[error("open door {path} to its box: something else was put in its place")]
    Mode { path: PathBuf, source: FileError },
    #[error(
        "open door {address}: no interface of the house has this address; correct `listen`, or join the box's network"
    )]
    NoAddress { address: SocketAddr, source: io::Error },
    #[error(
        "open door {address}: something else listens there; end it (`ss -ltnp` names it), or give this box another `listen`"
    )]
    InUse { address: SocketAddr },
    #[error("open door {address}")]
    Listen { address: SocketAddr, source: io::Error },
}

impl DoorListener {
    /// Opens the door of a box.
    ///
    /// # Errors
    /// See [`DoorFault`]. A door is never taken from a process that answers on it.
    pub fn open(door: &DoorConfig) -> Result<Self, DoorFault> {
        match door {
            DoorConfig::Socket(path) => Self::bind(path),
            DoorConfig::Network(door) => Self::listen(door.listen),
        }
    }

    /// Binds a socket, replacing one that nobody answers any more.
    fn bind(path: &Path) -> Result<Self, DoorFault> {
        let bind = |source| DoorFault::Bind { path: path.to_owned(), source };
        if let Some(folder) = path.parent()
            && !folder.exists()
        {
            files::create_private_dir(folder).map_err(|source| DoorFault::Folder { path: path.to_owned(), source })?;
        }
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(DoorFault::NoSocket { path: path.to_owned() }),
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                return Err(DoorFault::Answered { path: path.to_owned() });
            }
            Ok(_) => std::fs::remove_file(path).map_err(bind)?,
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(bind)?;
        files::set_socket_mode(path, 0o666).map_err(|source| DoorFault::Mode { path: path.to_owned(), source })?;
        Ok(Self {
            listener: Listener::Socket(listener, path.to_owned()),
            name: path.display().to_string(),
            complained: Mutex::default(),
        })
    }

    fn listen(address: SocketAddr) -> Result<Self, DoorFault> {
        let fault = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrNotAvailable => DoorFault::NoAddress { address, source },
            io::ErrorKind::AddrInUse => DoorFault::InUse { address },
            _ => DoorFault::Listen { address, source },
        };
        let listener = std::net::TcpListener::bind(address).map_err(fault)?;
        listener.set_nonblocking(true).map_err(fault)?;
        let listener = TcpListener::from_std(listener).map_err(fault)?;
        if address.ip().is_unspecified() {
            tracing::warn!(%address, "a door listens on every interface of the house: whoever reaches one reaches it, and the box key alone is the lock");
        }
        Ok(Self { listener: Listener::Network(listener), name: address.to_string(), complained: Mutex::default() })
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says why no connection was accepted. A shortage meets every try, so it is said once in a while.
    pub fn complain(&self, error: &io::Error) {
        let mut last = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= QUIET) {
            *last = Some(Instant::now());
            tracing::warn!(door = self.name, %error, "connections cannot be accepted; said once a minute while it lasts");
        }
    }

    /// The next connection.
    ///
    /// # Errors
    /// Descriptors have run out, or the client has left; the door goes on.
    pub async fn accept(&self) -> io::Result<DoorStream> {
        match &self.listener {
            Listener::Socket(listener, _) => listener.accept().await.map(|(stream, _)| DoorStream::Socket(stream)),
            Listener::Network(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                // A box whose host is gone says no end: its claim would hold the door for ever.
                let alive = TcpKeepalive::new().with_time(SILENCE).with_interval(PROBES_APART).with_retries(PROBES);
                let socket = SockRef::from(&stream);
                socket.set_tcp_keepalive(&alive)?;
                socket.set_tcp_user_timeout(Some(UNANSWERED))?;
                Ok(DoorStream::Network(stream))
            }
        }
    }
}

impl Drop for DoorListener {
    fn drop(&mut self) {
        // A box that waits for the house to come back retries a missing socket as it does a dead one.
        if let Listener::Socket(_, path) = &self.listener {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Calls one of the two, pinned.
macro_rules! of_either {
    ($itself:expr, $stream:ident => $call:expr) => {
        match $itself.get_mut() {
            DoorStream::Socket(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            DoorStream::Network(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
        }
    };
}

impl AsyncRead for DoorStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        of_either!(self, stream => stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for DoorStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        of_either!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_either!(self, stream => stream.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        of_either!(self, stream => stream.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        // So are both.
        true
    }
}

/// Between two complaints of one door.
const QUIET: Duration = Duration::from_secs(60);
/// A connection that is silent this long is asked whether it lives: with the probes a dead one is noticed in 25 s, before
/// the 30 s that its run has to come back are worth anything.
const SILENCE: Duration = Duration::from_secs(10);
const PROBES_APART: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;
/// The same for one that takes no more of what is sent.
const UNANSWERED: Duration = Duration::from_secs(25);

#[cfg(test)]
mod tests {
    use super::DoorListener;

    #[test]
    fn an_address_that_is_taken_is_named_with_the_fix() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = taken.local_addr().expect("an address");
        let said = DoorListener::listen(address).err().map(|fault| fault.to_string()).unwrap_or_default();
        for part in [address.to_string().as_str(), "something else listens there", "another `listen`"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
