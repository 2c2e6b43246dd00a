//! The door as the shim and the claim see it: a way to open one more connection, and a name for messages.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

/// One attempt to connect.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<DoorStream>> + Send>>;

/// One connection to the house.
#[derive(Debug)]
pub enum DoorStream {
    Socket(UnixStream),
    Network(TcpStream),
}

/// A way to reach the house. Cheap to clone.
#[derive(Clone)]
pub struct Door {
    name: Arc<str>,
    open: Arc<dyn Fn() -> Connecting + Send + Sync>,
}

impl Door {
    /// The door at a path: a unix socket.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        let name = path.display().to_string();
        Self::through(&name, move || {
            let path = path.clone();
            Box::pin(async move { UnixStream::connect(path).await.map(DoorStream::Socket) })
        })
    }

    /// A door that is reached in another way; `name` is what messages call it.
    #[must_use]
    pub fn through(name: &str, open: impl Fn() -> Connecting + Send + Sync + 'static) -> Self {
        Self { name: Arc::from(name), open: Arc::new(open) }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One attempt, with a deadline.
    pub async fn connect(&self) -> io::Result<DoorStream> {
        let attempt = async {
            loop {
                match (self.open)().await {
                    // A signal came in between: that says nothing about the door.
                    Err(fault) if fault.kind() == io::ErrorKind::Interrupted => yield_now().await,
                    done => return done,
                }
            }
        };
        timeout(ATTEMPT, attempt).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Attempts for as long as `patience` lasts, while the house is only away: it may be starting again.
    pub async fn connect_within(&self, patience: Duration) -> io::Result<DoorStream> {
        let until = Instant::now() + patience;
        loop {
            match self.connect().await {
                Err(fault) if is_away(&fault) && Instant::now() + PAUSE < until => {
                    sleep(PAUSE).await;
                }
                done => return done,
            }
        }
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Door({})", self.name)
    }
}

impl AsyncRead for DoorStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Socket(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Network(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for DoorStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Socket(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Network(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Socket(stream) => Pin::new(stream).poll_flush(cx),
            Self::Network(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Socket(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Network(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Whether nobody listens now, the listener's queue is full, or the house is not on the network: all pass.
fn is_away(fault: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        fault.kind(),
        Kind::ConnectionRefused
            | Kind::NotFound
            | Kind::WouldBlock
            | Kind::HostUnreachable
            | Kind::ConnectionReset
            | Kind::TimedOut
    )
}

const ATTEMPT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
