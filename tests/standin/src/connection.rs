//! One connection: bytes in, each of them noted, and bytes out; waiting that notices when the client goes away.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::leg::Leg;
use crate::seen::{Book, Ended};

/// A connection, its unread bytes, and where it is noted.
pub(crate) struct Connection {
    leg: Leg,
    pub(crate) buffer: Vec<u8>,
    book: Arc<Book>,
    pub(crate) id: u64,
    keep: usize,
}

impl Connection {
    pub(crate) fn new(leg: Leg, book: Arc<Book>, id: u64, keep: usize) -> Self {
        Self { leg, buffer: Vec::new(), book, id, keep }
    }

    /// Reads what comes next; 0 at the end of the stream.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        let mut piece = [0_u8; READ];
        let read = self.leg.read(&mut piece).await;
        self.note_read(read.as_ref().map_or(&[], |fresh| &piece[..*fresh]), read.is_err());
        let fresh = read?;
        self.buffer.extend_from_slice(&piece[..fresh]);
        Ok(fresh)
    }

    /// Notes what came; nothing is the end of the stream, or a fault.
    fn note_read(&self, fresh: &[u8], is_broken: bool) {
        let keep = self.keep;
        self.book.on_connection(self.id, |seen| {
            seen.bytes += fresh.len() as u64;
            let room = keep.saturating_sub(seen.raw.len()).min(fresh.len());
            seen.raw.extend_from_slice(&fresh[..room]);
            if fresh.is_empty() {
                let end = if is_broken { Ended::Broken } else { Ended::ByPeer };
                seen.ended.get_or_insert_with(|| (Instant::now(), end));
            }
        });
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
            self.leg.write_all(bytes).await?;
            self.leg.flush().await
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
        let _unsupported_is_a_plain_close = self.leg.stream().set_zero_linger();
        self.note_our_end();
    }

    /// Ends the connection as HTTP over TLS should.
    pub(crate) async fn close(mut self) {
        self.note_our_end();
        let _gone_already = tokio::time::timeout(SEND, self.leg.shutdown()).await;
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
}

/// For what speaks something else after HTTP: first what was read ahead, then the stream, each byte noted.
impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        if !me.buffer.is_empty() {
            let have = me.buffer.len().min(out.remaining());
            out.put_slice(&me.buffer[..have]);
            me.buffer.drain(..have);
            return Poll::Ready(Ok(()));
        }
        let before = out.filled().len();
        let read = ready!(Pin::new(&mut me.leg).poll_read(cx, out));
        me.note_read(&out.filled()[before..], read.is_err());
        Poll::Ready(read)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().leg).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().leg).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().leg).poll_shutdown(cx)
    }
}

const READ: usize = 32 * 1024;
/// How much a client may send ahead while an answer waits.
const AHEAD: usize = 16 * 1024 * 1024;
/// A client that does not read for so long is given up.
pub(crate) const SEND: Duration = Duration::from_secs(60);
