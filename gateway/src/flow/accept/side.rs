//! Side: the box's end of an HTTP connection, with what hyper does not do by itself.
//!
//! A head has a deadline while silence between requests has a longer one; informational answers (RFC 9110 §15.2) are put
//! in before the answer they belong to; and a connection that the house ends is read on for a moment, so that an answer
//! to a box that is still writing is not lost to a reset (RFC 9112 §9.6).

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::Method;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::exchange::Exchange;

/// A stream from a box, watched.
pub struct Side<S> {
    stream: S,
    handle: SideHandle,
    alarm: Pin<Box<Sleep>>,
    /// What is being put in between hyper's own bytes.
    between: Bytes,
    /// Everything that hyper wrote so far is a whole number of messages.
    clean: bool,
    linger: Option<Linger>,
}

/// What the rest of the house says to a watched stream, and asks of it.
#[derive(Clone)]
pub struct SideHandle {
    shared: Arc<Mutex<Shared>>,
    waits: Waits,
}

/// How long the box may be silent, and how long its head may take.
#[derive(Clone, Copy)]
pub struct Waits {
    pub silence: Duration,
    pub head: Duration,
}

struct Shared {
    phase: Phase,
    since: Instant,
    hints: VecDeque<Bytes>,
    waker: Option<Waker>,
    /// The stream is no longer HTTP: its end is the business of what it became.
    switched: bool,
    afterwards: Option<Afterwards>,
    /// Who waits for the hints to be out.
    waiter: Option<Waker>,
    late: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Between requests.
    Silent,
    /// A head has begun, or must begin at once.
    Head,
    /// A request is under way, or the stream is no longer HTTP.
    Busy,
}

/// What a connection becomes when its HTTP is over.
pub type Afterwards = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Linger {
    end: Pin<Box<Sleep>>,
    last: Instant,
    left: usize,
}

impl<S> Side<S> {
    /// `prompt`: the first head must begin at once; otherwise the box may be silent first.
    pub fn new(stream: S, waits: Waits, prompt: bool) -> (Self, SideHandle) {
        let now = Instant::now();
        let phase = if prompt { Phase::Head } else { Phase::Silent };
        let shared = Shared {
            phase,
            since: now,
            hints: VecDeque::new(),
            waker: None,
            switched: false,
            afterwards: None,
            waiter: None,
            late: false,
        };
        let handle = SideHandle { shared: Arc::new(Mutex::new(shared)), waits };
        let side = Self {
            stream,
            handle: handle.clone(),
            alarm: Box::pin(tokio::time::sleep_until(now)),
            between: Bytes::new(),
            clean: true,
            linger: None,
        };
        (side, handle)
    }
}

impl SideHandle {
    /// A request came; the head's deadline is met. The exchange lasts until its answer was written.
    #[must_use]
    pub fn begin(&self, method: &Method) -> Exchange {
        self.turn(Phase::Busy);
        Exchange::new(self.clone(), method)
    }

    /// The answer was written: the next head may come.
    pub(super) fn end(&self) {
        self.turn(Phase::Silent);
    }

    /// The answer switched protocols.
    pub(super) fn switched(&self) {
        self.lock().switched = true;
    }

    /// Sets what the connection becomes when its HTTP is over; the last word counts.
    pub fn afterwards(&self, afterwards: impl Future<Output = ()> + Send + 'static) {
        let before = self.lock().afterwards.replace(Box::pin(afterwards));
        drop(before);
    }

    /// What was set, once.
    #[must_use]
    pub fn take_afterwards(&self) -> Option<Afterwards> {
        self.lock().afterwards.take()
    }

    /// Puts an informational answer in before the answer that is awaited.
    pub fn hint(&self, head: Bytes) {
        let waker = {
            let mut shared = self.lock();
            if shared.hints.len() < MOST_HINTS && head.len() <= LONGEST_HINT {
                shared.hints.push_back(head);
            }
            shared.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Resolves when every hint was put in, or cannot be; none may come after the answer has begun.
    pub async fn hinted(&self) {
        if self.lock().hints.is_empty() {
            return;
        }
        let out = std::future::poll_fn(|cx| {
            let mut shared = self.lock();
            if shared.hints.is_empty() {
                return Poll::Ready(());
            }
            shared.waiter = Some(cx.waker().clone());
            Poll::Pending
        });
        if tokio::time::timeout(HINT_WAIT, out).await.is_err() {
            self.lock().hints.clear();
        }
    }

    /// Whether a head did not come in time.
    #[must_use]
    pub fn was_late(&self) -> bool {
        self.lock().late
    }

    fn turn(&self, phase: Phase) {
        let mut shared = self.lock();
        shared.phase = phase;
        shared.since = Instant::now();
    }

    /// Bytes came: between requests they begin a head.
    fn came(&self) {
        let mut shared = self.lock();
        if shared.phase == Phase::Silent {
            shared.phase = Phase::Head;
            shared.since = Instant::now();
        }
    }

    /// When the wait for bytes ends, and whether that is a head that came late.
    fn deadline(&self, waker: &Waker) -> Option<(Instant, bool)> {
        let mut shared = self.lock();
        if !shared.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            shared.waker = Some(waker.clone());
        }
        match shared.phase {
            Phase::Silent => Some((shared.since + self.waits.silence, false)),
            Phase::Head => Some((shared.since + self.waits.head, true)),
            Phase::Busy => None,
        }
    }

    fn next_hint(&self) -> Option<Bytes> {
        let mut shared = self.lock();
        let next = shared.hints.pop_front();
        if shared.hints.is_empty()
            && let Some(waiter) = shared.waiter.take()
        {
            waiter.wake();
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Side<S> {
    /// Writes what has to come before hyper's next bytes.
    fn poll_between(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.between.is_empty() {
                let Some(next) = self.clean.then(|| self.handle.next_hint()).flatten() else {
                    return Poll::Ready(Ok(()));
                };
                self.between = next;
            }
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.between))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.between.advance(written);
        }
    }

    /// The head did not come in time: says so, as far as the box takes it at once.
    fn too_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.lock().late = true;
        if self.clean && self.between.is_empty() {
            let _ = Pin::new(&mut self.stream).poll_write(cx, TOO_LATE);
            let _ = Pin::new(&mut self.stream).poll_flush(cx);
        }
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Reads and drops what the box still sends, until it ends, falls silent, or has had its time.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let linger = self.linger.get_or_insert_with(|| Linger {
            end: Box::pin(tokio::time::sleep(LINGER_SILENCE)),
            last: Instant::now() + LINGER,
            left: LINGER_BYTES,
        });
        let mut piece = [0; 8 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut piece);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => {
                    linger.left = linger.left.saturating_sub(buffer.filled().len());
                    if linger.left == 0 {
                        return Poll::Ready(Ok(()));
                    }
                    linger.end.as_mut().reset((Instant::now() + LINGER_SILENCE).min(linger.last));
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    ready!(linger.end.as_mut().poll(cx));
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Side<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut this.stream).poll_read(cx, buffer) {
            if buffer.filled().len() > before {
                this.handle.came();
            }
            return Poll::Ready(read);
        }
        let Some((deadline, is_head)) = this.handle.deadline(cx.waker()) else { return Poll::Pending };
        if this.alarm.deadline() != deadline {
            this.alarm.as_mut().reset(deadline);
        }
        ready!(this.alarm.as_mut().poll(cx));
        // Silence that lasted too long ends the connection as its own end would.
        if is_head { this.too_late(cx) } else { Poll::Ready(Ok(())) }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Side<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_between(cx))?;
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        this.clean = false;
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_between(cx))?;
        let written = ready!(Pin::new(&mut this.stream).poll_write_vectored(cx, parts))?;
        this.clean = false;
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes only when it has nothing of its own left to write.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.clean = true;
        ready!(this.poll_between(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        // What comes is no request any more that an answer could be lost to, and is not for this side to throw away.
        if this.handle.lock().switched {
            return Poll::Ready(Ok(()));
        }
        this.poll_linger(cx)
    }
}

const TOO_LATE: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nx-boxgate-reason: head-late\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const MOST_HINTS: usize = 16;
const LONGEST_HINT: usize = 16 * 1024;
/// For a box to take the hints before its answer.
const HINT_WAIT: Duration = Duration::from_secs(1);
const LINGER: Duration = Duration::from_secs(2);
const LINGER_SILENCE: Duration = Duration::from_millis(250);
const LINGER_BYTES: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests;
