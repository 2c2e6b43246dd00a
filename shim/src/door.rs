//! The door as the shim and the claim see it: a way to open one more connection, and a name for messages.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

/// One attempt to connect.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<UnixStream>> + Send>>;

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
            Box::pin(async move { UnixStream::connect(path).await })
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
    pub async fn connect(&self) -> io::Result<UnixStream> {
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
    pub async fn connect_within(&self, patience: Duration) -> io::Result<UnixStream> {
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

/// Whether nobody listens now, or the listener's queue is full: both pass.
fn is_away(fault: &io::Error) -> bool {
    matches!(fault.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound | io::ErrorKind::WouldBlock)
}

const ATTEMPT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
