//! What was seen: requests and connections, kept to the byte.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sha2::{Digest, Sha256};

use crate::decode::decoded;

/// One request as it came. A message over a WebSocket is one as well: its method is `WS`, it has the path of the handshake
/// and no head.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When its head was complete.
    pub at: Instant,
    /// The connection it came on, counted from 1.
    pub connection: u64,
    /// The head to the byte, the empty line included.
    pub head: Vec<u8>,
    pub method: String,
    /// The request target, query included.
    pub path: String,
    /// In order, names as they were spelled.
    pub headers: Vec<(String, String)>,
    /// When the first and the last byte of the body came.
    pub body_first: Option<Instant>,
    pub body_last: Option<Instant>,
    pub body_len: u64,
    /// 64 lower-case hexadecimal digits.
    pub body_sha256: String,
    /// Its first bytes, up to [`crate::Options::keep`].
    pub body: Vec<u8>,
    /// Header lines after a chunked body, as they came.
    pub trailers: Vec<u8>,
    /// All of the body came.
    pub complete: bool,
    /// It carried one credential, a real one. Over a WebSocket, the handshake did.
    pub real: bool,
    /// It asks a model for an answer.
    pub model: bool,
    /// The status it was answered with, once that was begun.
    pub answered: Option<u16>,
}

/// One connection.
#[derive(Clone, Debug)]
pub struct SeenConnection {
    pub id: u64,
    pub at: Instant,
    /// The server name that the client asked for.
    pub sni: Option<String>,
    pub alpn: Option<String>,
    pub tls: Option<String>,
    /// Why no TLS came about.
    pub tls_failed: Option<String>,
    /// The first bytes after TLS, up to [`crate::Options::keep`].
    pub raw: Vec<u8>,
    pub bytes: u64,
    pub ended: Option<(Instant, Ended)>,
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The client closed it.
    ByPeer,
    /// The client reset it, or it broke.
    Broken,
    /// The stand-in closed it.
    ByUs,
}

/// All that was seen.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    seen: Vec<Seen>,
    connections: Vec<SeenConnection>,
}

/// The body of a request while it comes in.
pub(crate) struct Intake {
    digest: Sha256,
    keep: usize,
}

impl Seen {
    /// What has just begun to come on a connection.
    pub(crate) fn begun(connection: u64, method: &str, path: &str, real: bool, model: bool) -> Self {
        Self {
            at: Instant::now(),
            connection,
            head: Vec::new(),
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body_first: None,
            body_last: None,
            body_len: 0,
            body_sha256: String::new(),
            body: Vec::new(),
            trailers: Vec::new(),
            complete: false,
            real,
            model,
            answered: None,
        }
    }

    /// The values of a header, whatever its spelling.
    #[must_use]
    pub fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).collect()
    }

    /// The body as text, as far as it was kept; unpacked where that is possible.
    #[must_use]
    pub fn text(&self) -> String {
        let encoding = self.header("content-encoding").first().copied();
        let plain = decoded(encoding, &self.body).unwrap_or(Cow::Borrowed(&self.body));
        String::from_utf8_lossy(&plain).into_owned()
    }
}

impl Book {
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.open().seen.clone()
    }

    pub(crate) fn connections(&self) -> Vec<SeenConnection> {
        self.open().connections.clone()
    }

    pub(crate) fn forget(&self) {
        self.open().seen.clear();
    }

    pub(crate) fn connect(&self) -> u64 {
        let mut pages = self.open();
        let id = pages.connections.len() as u64 + 1;
        pages.connections.push(SeenConnection {
            id,
            at: Instant::now(),
            sni: None,
            alpn: None,
            tls: None,
            tls_failed: None,
            raw: Vec::new(),
            bytes: 0,
            ended: None,
        });
        id
    }

    pub(crate) fn on_connection(&self, id: u64, change: impl FnOnce(&mut SeenConnection)) {
        let index = usize::try_from(id).unwrap_or(usize::MAX).wrapping_sub(1);
        if let Some(connection) = self.open().connections.get_mut(index) {
            change(connection);
        }
    }

    pub(crate) fn begin(&self, seen: Seen) {
        self.open().seen.push(seen);
    }

    /// Changes the newest request of a connection.
    pub(crate) fn on_request(&self, connection: u64, change: impl FnOnce(&mut Seen)) {
        if let Some(seen) = self.open().seen.iter_mut().rev().find(|seen| seen.connection == connection) {
            change(seen);
        }
    }

    fn open(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intake {
    pub(crate) fn new(keep: usize) -> Self {
        Self { digest: Sha256::new(), keep }
    }

    pub(crate) fn take(&mut self, seen: &mut Seen, bytes: &[u8]) {
        let now = Instant::now();
        seen.body_first.get_or_insert(now);
        seen.body_last = Some(now);
        seen.body_len += bytes.len() as u64;
        self.digest.update(bytes);
        let room = self.keep.saturating_sub(seen.body.len()).min(bytes.len());
        seen.body.extend_from_slice(&bytes[..room]);
    }

    pub(crate) fn finish(self, seen: &mut Seen) {
        seen.body_sha256 = hex(&self.digest.finalize());
        seen.complete = true;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
