//! One client connection: to a door, a proxy, or the origin itself; then TLS, then HTTP/1.1 by hand.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use nix::time::{ClockId, clock_gettime};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Where a connection goes first.
#[derive(Clone)]
pub enum Entrance {
    /// To a server of TLS itself.
    Tls(SocketAddr),
    /// To a proxy that is asked by CONNECT.
    Proxy(SocketAddr),
    /// The same by a unix socket.
    Door(PathBuf),
}

/// How a subject is reached.
#[derive(Clone)]
pub struct Route {
    pub entrance: Entrance,
    /// The port that CONNECT names.
    pub port: u16,
    /// The user name of `Proxy-Authorization`, where one is asked for.
    pub token: Option<String>,
    /// What the client sends as its own credential.
    pub authorization: String,
    pub tls: Arc<ClientConfig>,
}

impl Route {
    /// The same way, without the run's own credential: no stand-in may go to strangers.
    #[must_use]
    pub fn to_strangers(&self) -> Self {
        Self { authorization: "nobody".to_owned(), ..self.clone() }
    }
}

/// A byte stream below TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// An open connection.
pub struct Connection {
    stream: TlsStream<Box<dyn Stream>>,
    /// What was read and not yet used.
    buffer: Vec<u8>,
    authorization: String,
    host: String,
}

/// How long a body is.
enum Body {
    Length(usize),
    Chunked,
}

impl Connection {
    /// Connects, asks for the tunnel where there is one, and shakes hands.
    ///
    /// # Errors
    ///
    /// When one of these is refused.
    pub async fn open(route: &Route, host: &str) -> Result<Self> {
        let (mut stream, tunnel): (Box<dyn Stream>, bool) = match &route.entrance {
            Entrance::Tls(address) => (Box::new(tcp(*address).await?), false),
            Entrance::Proxy(address) => (Box::new(tcp(*address).await?), true),
            Entrance::Door(path) => (Box::new(UnixStream::connect(path).await.context("connect the door")?), true),
        };
        if tunnel {
            ask(&mut stream, route, host).await?;
        }
        let name = ServerName::try_from(host.to_owned()).context("read the host's name")?;
        let stream = TlsConnector::from(route.tls.clone()).connect(name, stream).await.context("shake hands")?;
        Ok(Self {
            stream,
            buffer: Vec::with_capacity(BUFFER),
            authorization: route.authorization.clone(),
            host: host.to_owned(),
        })
    }

    /// Sends a GET and reads the whole answer; gives the length of its body.
    ///
    /// # Errors
    ///
    /// When the answer is not 200, or does not come whole.
    pub async fn get(&mut self, path: &str) -> Result<usize> {
        self.get_each(path, |_| ()).await
    }

    /// The same, and shows each piece of the body as it comes.
    ///
    /// # Errors
    ///
    /// As for [`Connection::get`].
    pub async fn get_each(&mut self, path: &str, each: impl FnMut(&[u8])) -> Result<usize> {
        let head = self.head("GET", path, "");
        self.send(head.as_bytes()).await?;
        self.answer(each).await
    }

    /// Sends a prompt of this length, whole JSON as a model's provider takes it, and reads the answer; tells each piece
    /// that was sent.
    ///
    /// # Errors
    ///
    /// As for [`Connection::get`].
    pub async fn post(&mut self, path: &str, length: usize, mut each: impl FnMut(usize)) -> Result<usize> {
        let head = self.head("POST", path, &format!("content-length: {length}\r\n"));
        self.send(head.as_bytes()).await?;
        let mut left =
            length.checked_sub(PROMPT.0.len() + PROMPT.1.len()).context("a body has a beginning and an end")?;
        self.stream.write_all(PROMPT.0).await.context("send a body")?;
        while left > 0 {
            let piece = left.min(PIECE.len());
            self.stream.write_all(&PIECE[..piece]).await.context("send a body")?;
            each(piece);
            left -= piece;
        }
        self.stream.write_all(PROMPT.1).await.context("send a body")?;
        self.stream.flush().await.context("send a body")?;
        self.answer(|_| ()).await
    }

    fn head(&self, method: &str, path: &str, more: &str) -> String {
        let (host, authorization) = (&self.host, &self.authorization);
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\naccept: */*\r\nuser-agent: bench/1\r\ncontent-type: application/json\r\nanthropic-version: 2023-06-01\r\nauthorization: Bearer {authorization}\r\n{more}\r\n"
        )
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await.context("send a request")?;
        self.stream.flush().await.context("send a request")
    }

    async fn answer(&mut self, each: impl FnMut(&[u8])) -> Result<usize> {
        let (status, body) = self.read_head().await?;
        let mut seen = Vec::new();
        let length = match body {
            Body::Length(length) if status != 200 => self.fixed(length, |piece| seen.extend_from_slice(piece)).await?,
            Body::Length(length) => self.fixed(length, each).await?,
            Body::Chunked => self.chunked(each).await?,
        };
        ensure!(status == 200, "answered {status}: {}", String::from_utf8_lossy(&seen));
        Ok(length)
    }

    async fn read_head(&mut self) -> Result<(u16, Body)> {
        let end = loop {
            if let Some(end) = head_end(&self.buffer) {
                break end;
            }
            self.fill().await?;
        };
        let head = std::str::from_utf8(&self.buffer[..end]).context("read the answer's head")?;
        let status = head.get(9..12).and_then(|code| code.parse().ok()).context("read the status")?;
        let body = match field(head, "content-length") {
            Some(length) => Body::Length(length.parse().context("read the length")?),
            None if field(head, "transfer-encoding").is_some() => Body::Chunked,
            None => bail!("an answer without a length: {head}"),
        };
        self.buffer.drain(..end);
        Ok((status, body))
    }

    async fn fixed(&mut self, length: usize, mut each: impl FnMut(&[u8])) -> Result<usize> {
        let mut left = length;
        while left > 0 {
            if self.buffer.is_empty() {
                self.fill().await?;
            }
            let piece = left.min(self.buffer.len());
            each(&self.buffer[..piece]);
            self.buffer.drain(..piece);
            left -= piece;
        }
        Ok(length)
    }

    async fn chunked(&mut self, mut each: impl FnMut(&[u8])) -> Result<usize> {
        let mut sum = 0;
        loop {
            let line = loop {
                if let Some(at) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                    break at;
                }
                self.fill().await?;
            };
            let size = std::str::from_utf8(&self.buffer[..line]).context("read a chunk")?;
            let size = usize::from_str_radix(size.trim(), 16).context("read a chunk's size")?;
            self.buffer.drain(..line + 2);
            sum += self.fixed(size, &mut each).await?;
            self.fixed(2, |_| ()).await?;
            if size == 0 {
                return Ok(sum);
            }
        }
    }

    async fn fill(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.buffer).await.context("read an answer")?;
        ensure!(read > 0, "the connection was closed");
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "the client of a bench dials loopback")]
async fn tcp(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).await.context("connect")?;
    stream.set_nodelay(true).context("set TCP_NODELAY")?;
    Ok(stream)
}

/// Asks for a tunnel.
async fn ask(stream: &mut Box<dyn Stream>, route: &Route, host: &str) -> Result<()> {
    let credential = route.token.as_ref().map(|token| {
        let text = base64::engine::general_purpose::STANDARD.encode(format!("{token}:"));
        format!("Proxy-Authorization: Basic {text}\r\n")
    });
    let (port, credential) = (route.port, credential.unwrap_or_default());
    let head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{credential}\r\n");
    stream.write_all(head.as_bytes()).await.context("ask for a tunnel")?;
    let mut answer = Vec::with_capacity(1024);
    while head_end(&answer).is_none() {
        ensure!(stream.read_buf(&mut answer).await.context("read the tunnel's answer")? > 0, "no tunnel was given");
    }
    ensure!(answer.get(9..12) == Some(b"200"), "no tunnel: {}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// Where a head ends: behind its empty line.
pub(crate) fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// A field of a head, by its name in lower case.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    fields.into_iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// The monotonic clock of the machine, the same in every process: nanoseconds.
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or((0, 0), |time| (time.tv_sec(), time.tv_nsec()));
    u64::try_from(time.0).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.1).unwrap_or(0)
}

const BUFFER: usize = 16 * 1024;
/// What stands around a body, so that it is a request that can be judged.
const PROMPT: (&[u8], &[u8]) = (br#"{"system":""#, br#""}"#);
static PIECE: [u8; 64 * 1024] = [b'x'; 64 * 1024];
