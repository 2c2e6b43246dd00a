//! One connection: bytes in, each of them noted, and bytes out; waiting that notices when the client goes away.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::seen::{Book, Ended};

/// A connection, its unread bytes, and where it is noted.
pub(crate) struct Connection {
    leg: Leg,
    pub(crate) buffer: Vec<u8>,
    book: Arc<Book>,
    pub(crate) id: u64,
    keep: usize,
}

pub(crate) enum Leg {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    pub(crate) fn new(leg: Leg, book: Arc<Book>, id: u64, keep: usize) -> Self {
        Self { leg, buffer: Vec::new(), book, id, keep }
    }

    /// Reads what comes next; 0 at the end of the stream.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        let mut piece = [0_u8; READ];
        let read = match &mut self.leg {
            Leg::Plain(stream) => stream.read(&mut piece).await,
            Leg::Tls(stream) => stream.read(&mut piece).await,
        };
        let (fresh, end) = match read {
            Ok(0) => (0, Some(Ended::ByPeer)),
            Ok(fresh) => (fresh, None),
            Err(_) => (0, Some(Ended::Broken)),
        };
        self.buffer.extend_from_slice(&piece[..fresh]);
        let keep = self.keep;
        self.book.on_connection(self.id, |seen| {
            seen.bytes += fresh as u64;
            let room = keep.saturating_sub(seen.raw.len()).min(fresh);
            seen.raw.extend_from_slice(&piece[..room]);
            if let (Some(end), None) = (end, seen.ended) {
                seen.ended = Some((Instant::now(), end));
            }
        });
        read
    }

    /// Waits, and fails as soon as the client is gone. What comes meanwhile is kept for later, up to a limit.
    pub(crate) async fn pause(&mut self, time: Duration) -> io::Result<()> {
        let end = tokio::time::Instant::now() + time;
        loop {
            if self.buffer.len() > AHEAD {
                tokio::time::sleep_until(end).await;
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep_until(end) => return Ok(()),
                read = self.fill() => if read? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                },
            }
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sending = async {
            match &mut self.leg {
                Leg::Plain(stream) => stream.write_all(bytes).await,
                Leg::Tls(stream) => {
                    stream.write_all(bytes).await?;
                    stream.flush().await
                }
            }
        };
        tokio::time::timeout(SEND, sending).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// Reads and drops until the client ends it or the time is over.
    pub(crate) async fn drain(&mut self, time: Duration) {
        let reading = async {
            while self.fill().await.is_ok_and(|fresh| fresh > 0) {
                self.buffer.clear();
            }
        };
        let _ended_or_late = tokio::time::timeout(time, reading).await;
    }

    /// Ends the connection by RST.
    pub(crate) fn reset(self) {
        let stream = self.stream();
        let _unsupported_is_a_plain_close = stream.set_zero_linger();
        self.note_our_end();
    }

    /// Ends the connection as HTTP over TLS should.
    pub(crate) async fn close(mut self) {
        self.note_our_end();
        let closing = async {
            match &mut self.leg {
                Leg::Plain(stream) => stream.shutdown().await,
                Leg::Tls(stream) => stream.shutdown().await,
            }
        };
        let _gone_already = tokio::time::timeout(SEND, closing).await;
    }

    /// Ends the TCP connection and says nothing in TLS.
    pub(crate) fn cut(self) {
        self.note_our_end();
    }

    fn note_our_end(&self) {
        self.book.on_connection(self.id, |seen| {
            seen.ended.get_or_insert_with(|| (Instant::now(), Ended::ByUs));
        });
    }

    fn stream(&self) -> &TcpStream {
        match &self.leg {
            Leg::Plain(stream) => stream,
            Leg::Tls(stream) => stream.get_ref().0,
        }
    }
}

const READ: usize = 32 * 1024;
/// How much a client may send ahead while an answer waits.
const AHEAD: usize = 16 * 1024 * 1024;
/// A client that does not read for so long is given up.
const SEND: Duration = Duration::from_secs(60);
