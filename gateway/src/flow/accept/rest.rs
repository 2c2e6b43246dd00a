//! Rest: a connection that is silent between two requests gives its buffers back until the box says more.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use memchr::memmem::find;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::drain::Drain;

/// A stream that outlives the HTTP spoken on it.
pub struct Lent<S>(Arc<Mutex<S>>);

/// What the box has sent, reckoned against what its request is: only where both are the same to the byte has HTTP nothing of
/// it left. Where that is not certain, the connection never rests: what was read would be lost.
#[derive(Default)]
pub(super) struct Reckoning {
    came: u64,
    /// Bytes of the head, once it came.
    head: u64,
    body: Option<Body>,
    /// A request was answered.
    has_answered: bool,
    is_uncertain: bool,
}

/// The body of the request under way.
struct Body {
    length: Option<u64>,
    /// How much of it was taken.
    taken: Arc<AtomicU64>,
}

impl Reckoning {
    /// The box sent this.
    pub(super) fn came(&mut self, bytes: &[u8]) {
        // The head that comes in one piece, up to its empty line, however lines end there.
        if self.came == 0 && !self.is_uncertain {
            let ends = [find(bytes, b"\n\r\n").map(|at| at + 3), find(bytes, b"\n\n").map(|at| at + 2)];
            let end = ends.into_iter().flatten().min();
            self.is_uncertain = end.is_none();
            self.head = end.unwrap_or_default() as u64;
        }
        self.came += bytes.len() as u64;
    }

    /// A request began, with a body of which nothing is known yet.
    pub(super) fn begin(&mut self) {
        self.body = None;
    }

    /// Its body has this length, and is taken as this counts.
    pub(super) fn body(&mut self, length: Option<u64>, taken: Arc<AtomicU64>) {
        self.body = Some(Body { length, taken });
    }

    /// Its answer is over.
    pub(super) fn end(&mut self) {
        let whole = |body: Body| body.length.filter(|length| body.taken.load(Ordering::Relaxed) == *length);
        let body = self.body.take().and_then(whole);
        self.is_uncertain |= body.is_none_or(|body| self.came != self.head + body);
        self.came = 0;
        self.has_answered = true;
    }

    /// Nothing of what came is left, and something did.
    pub(super) const fn is_even(&self) -> bool {
        self.has_answered && !self.is_uncertain && self.came == 0
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lent<S> {
    pub fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    /// For the HTTP that is spoken until the next rest.
    #[must_use]
    pub fn lend(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    /// Waits until the box says something, and gives the first byte of it. `None`: it left, was silent for too long, or the
    /// house goes down; the stream is closed then.
    pub async fn wake(&mut self, silence: Duration, drain: &Drain) -> Option<u8> {
        let mut byte = [0];
        let read = tokio::select! {
            read = tokio::time::timeout(silence, self.read(&mut byte)) => read,
            () = drain.started() => Ok(Ok(0)),
        };
        if matches!(read, Ok(Ok(1))) {
            return Some(byte[0]);
        }
        // Nobody may be there to take it.
        let _ = tokio::time::timeout(LAST_WORD, self.shutdown()).await;
        None
    }

    fn lock(&self) -> MutexGuard<'_, S> {
        // One task alone uses it: the lock is never waited for.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Lent<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lent<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.lock().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_shutdown(cx)
    }
}

/// Silence after which a connection rests.
pub(super) const SETTLED: Duration = Duration::from_millis(300);
const LAST_WORD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::Reckoning;

    /// Whether it may rest after one request that came in these pieces, of whose body of this length so much was taken.
    fn rests(pieces: &[&str], length: Option<u64>, taken: u64) -> bool {
        let mut reckoning = Reckoning::default();
        after(&mut reckoning, pieces, length, taken)
    }

    fn after(reckoning: &mut Reckoning, pieces: &[&str], length: Option<u64>, taken: u64) -> bool {
        pieces[..1].iter().for_each(|piece| reckoning.came(piece.as_bytes()));
        reckoning.begin();
        reckoning.body(length, Arc::new(AtomicU64::new(taken)));
        pieces[1..].iter().for_each(|piece| reckoning.came(piece.as_bytes()));
        reckoning.end();
        reckoning.is_even()
    }

    const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    #[test]
    fn it_rests_where_all_that_came_was_the_request() {
        assert!(rests(&[GET], Some(0), 0));
        assert!(rests(&["POST / HTTP/1.1\r\n\r\nabc"], Some(3), 3));
        assert!(rests(&["POST / HTTP/1.1\r\n\r\n", "ab", "\r\n\r\n"], Some(6), 6));
        assert!(rests(&["GET / HTTP/1.1\n\n"], Some(0), 0));
    }

    #[test]
    fn it_never_rests_where_something_may_be_left() {
        for (pieces, length, taken) in [
            (&["GET / HTTP/1.1\r\n\r\nG"][..], Some(0), 0),
            (&[GET, "GET"], Some(0), 0),
            (&["POST / HTTP/1.1\r\n\r\nab"], Some(3), 2),
            (&["POST / HTTP/1.1\r\n\r\nabc"], None, 3),
            (&["GET / HT", "TP/1.1\r\n\r\n"], Some(0), 0),
            (&["\r\n\r\nGET / HTTP/1.1\r\n\r\n"], Some(0), 0),
            (&["POST / HTTP/1.1\n\nab\r\n\r\n"], Some(4), 4),
        ] {
            assert!(!rests(pieces, length, taken), "{pieces:?}");
        }
        let mut reckoning = Reckoning::default();
        reckoning.came(GET.as_bytes());
        reckoning.begin();
        reckoning.end();
        assert!(!reckoning.is_even(), "nobody said what its body was");
        assert!(!after(&mut reckoning, &[GET], Some(0), 0), "and what was uncertain stays so");
    }

    #[test]
    fn it_rests_again_and_not_while_a_head_has_begun() {
        let mut reckoning = Reckoning::default();
        assert!(!reckoning.is_even(), "HTTP that has not begun does not end");
        assert!(after(&mut reckoning, &[GET], Some(0), 0));
        assert!(after(&mut reckoning, &["POST / HTTP/1.1\r\n\r\nabc"], Some(3), 3));
        reckoning.came(b"G");
        assert!(!reckoning.is_even());
    }
}
