//! Boxes on a network: a namespace with one interface that leads to this machine, TCP doors, and a relay that can be cut.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::process;

/// A network namespace whose one interface leads to an address of this machine, and nowhere else. Dropped, it goes.
pub struct Narrow {
    name: String,
    number: u8,
}

impl Narrow {
    /// # Errors
    ///
    /// When it cannot be made; it needs root and `ip`.
    pub fn make() -> Result<Self> {
        static COUNT: AtomicU8 = AtomicU8::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let narrow = Self { name: format!("boxgate-{}-{number}", std::process::id()), number };
        let (name, near, far) = (&narrow.name, narrow.interface(), narrow.house());
        ip(&["netns", "add", name])?;
        ip(&["link", "add", &near, "type", "veth", "peer", "name", "eth0", "netns", name])?;
        ip(&["address", "add", &format!("{far}/29"), "dev", &near])?;
        ip(&["link", "set", &near, "up"])?;
        narrow.ip(&["address", "add", &format!("{}/29", narrow.address(2)), "dev", "eth0"])?;
        narrow.ip(&["link", "set", "lo", "up"])?;
        narrow.ip(&["link", "set", "eth0", "up"])?;
        Ok(narrow)
    }

    /// This machine's address in the box's network.
    #[must_use]
    pub fn house(&self) -> IpAddr {
        self.address(1)
    }

    /// The addresses of the network: 1 is this machine's, 2 the box's, from 3 to 6 nobody's.
    #[must_use]
    pub fn address(&self, last: u8) -> IpAddr {
        // RFC 2544: for tests, and in nobody's network.
        IpAddr::from(Ipv4Addr::new(198, 18, 100 + self.number, last))
    }

    /// `ip` inside of it.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub fn ip(&self, arguments: &[&str]) -> Result<()> {
        ip(&[&["-n", &self.name], arguments].concat())
    }

    /// The same program, started inside of it.
    #[must_use]
    pub fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.name]).arg(command.get_program()).args(command.get_args()).env_clear();
        inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            inside.current_dir(folder);
        }
        inside
    }

    /// Gives this machine one more address of the network.
    ///
    /// # Errors
    ///
    /// When it cannot be given.
    pub fn take(&self, last: u8) -> Result<()> {
        ip(&["address", "add", &format!("{}/29", self.address(last)), "dev", &self.interface()])
    }

    fn interface(&self) -> String {
        format!("bg{}-{}", std::process::id() % 1_000_000, self.number)
    }
}

impl Drop for Narrow {
    fn drop(&mut self) {
        // The pair goes with its end inside, once the last process there is gone.
        let _gone = ip(&["link", "delete", &self.interface()]);
        let _gone = ip(&["netns", "delete", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(arguments);
    process::run(command, None, Duration::from_secs(20))?.expect_code(0).map(drop)
}

/// A port of this address that nobody has now.
///
/// # Errors
///
/// When there is none.
pub fn free_port(address: IpAddr) -> Result<SocketAddr> {
    TcpListener::bind((address, 0)).and_then(|listener| listener.local_addr()).context("find a free port")
}

/// One end of a connection to a door, of either kind.
pub enum Wire {
    Socket(UnixStream),
    Network(TcpStream),
}

impl Wire {
    /// # Errors
    ///
    /// When nobody listens there.
    #[expect(clippy::disallowed_methods, reason = "tests play the box")]
    pub fn to(address: SocketAddr) -> Result<Self> {
        TcpStream::connect(address).map(Self::Network).with_context(|| format!("connect the door {address}"))
    }

    pub(crate) fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        match self {
            Self::Socket(stream) => stream.set_read_timeout(Some(time)),
            Self::Network(stream) => stream.set_read_timeout(Some(time)),
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.read(buffer),
            Self::Network(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.write(bytes),
            Self::Network(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Socket(stream) => stream.flush(),
            Self::Network(stream) => stream.flush(),
        }
    }
}

/// A relay in front of a TCP door: keeps all bytes both ways, and can be cut. It lives as long as the test program.
pub struct Cable {
    address: SocketAddr,
    state: Arc<Mutex<CableState>>,
}

#[derive(Default)]
struct CableState {
    kept: Vec<u8>,
    open: Vec<TcpStream>,
    is_cut: bool,
}

impl Cable {
    /// Listens at this address and leads to that one.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub fn lay(at: IpAddr, to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((at, 0)).context("listen for the box")?;
        let address = listener.local_addr().context("find the relay's address")?;
        let state = Arc::new(Mutex::new(CableState::default()));
        let of_listener = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&of_listener);
                std::thread::spawn(move || carry(stream, to, &state));
            }
        });
        Ok(Self { address, state })
    }

    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks what is open; until it is mended every new connection breaks at once.
    pub fn cut(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_cut = true;
        for stream in state.open.drain(..) {
            let _gone = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn mend(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_cut = false;
    }

    /// All that passed, both ways.
    #[must_use]
    pub fn passed(&self) -> Vec<u8> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).kept.clone()
    }
}

#[expect(clippy::disallowed_methods, reason = "tests play the network")]
fn carry(client: TcpStream, to: SocketAddr, state: &Arc<Mutex<CableState>>) -> Option<()> {
    let server = TcpStream::connect(to).ok()?;
    {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_cut {
            return None;
        }
        state.open.push(client.try_clone().ok()?);
        state.open.push(server.try_clone().ok()?);
    }
    let up = (client.try_clone().ok()?, server.try_clone().ok()?);
    let of_up = Arc::clone(state);
    std::thread::spawn(move || copy(up.0, up.1, &of_up));
    copy(server, client, state);
    Some(())
}

fn copy(mut from: TcpStream, mut to: TcpStream, state: &Mutex<CableState>) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        state.lock().unwrap_or_else(PoisonError::into_inner).kept.extend_from_slice(&piece[..read]);
        if to.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    let _gone = to.shutdown(Shutdown::Write);
}

/// Why no such network can be made on this machine, or nothing.
#[must_use]
pub fn missing() -> Option<String> {
    static MISSING: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    MISSING
        .get_or_init(|| {
            if !nix::unistd::Uid::effective().is_root() {
                return Some("a network of its own needs root".to_owned());
            }
            Narrow::make().err().map(|fault| format!("this machine makes no network: {fault:#}"))
        })
        .clone()
}

/// For a claim at a TCP door: what the house says of itself, on this connection.
pub(crate) fn identity(wire: &mut io::BufReader<Wire>) -> Result<box_spec::wire::Identity> {
    wire.get_mut().write_all(b"GET /healthz HTTP/1.1\r\nHost: door\r\n\r\n").context("ask the door")?;
    let (status, length) = crate::claim::read_head(wire)?;
    ensure!(status == 200, "the door answers {status}");
    let mut body = vec![0; length.min(64 * 1024)];
    wire.read_exact(&mut body).context("read the identity")?;
    serde_json::from_slice(&body).context("parse the identity")
}
