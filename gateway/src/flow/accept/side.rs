//! Side: the box's end of an HTTP connection, with what hyper does not do by itself.
//!
//! A head has a deadline while silence between requests has a longer one; informational answers (RFC 9110 §15.2) are put
//! in before the answer they belong to; and a connection that the house ends is read on for a moment, so that an answer
//! to a box that is still writing is not lost to a reset (RFC 9112 §9.6).

mod handle;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use handle::Then;

pub use handle::{SideHandle, Waits};

/// A stream from a box, watched.
pub struct Side<S> {
    stream: S,
    /// Was read before, and comes first.
    ahead: Option<u8>,
    handle: SideHandle,
    alarm: Pin<Box<Sleep>>,
    /// What is being put in between hyper's own bytes.
    between: Bytes,
    /// Everything that hyper wrote so far is a whole number of messages.
    clean: bool,
    /// All of it is with the kernel.
    is_flushed: bool,
    linger: Option<Linger>,
}

struct Linger {
    end: Pin<Box<Sleep>>,
    last: Instant,
    left: usize,
}

impl<S> Side<S> {
    /// `prompt`: the first head must begin at once; otherwise the box may be silent first.
    pub fn new(stream: S, waits: Waits, prompt: bool) -> (Self, SideHandle) {
        let handle = SideHandle::new(waits, prompt);
        let side = Self {
            stream,
            ahead: None,
            handle: handle.clone(),
            alarm: Box::pin(tokio::time::sleep_until(Instant::now())),
            between: Bytes::new(),
            clean: true,
            is_flushed: true,
            linger: None,
        };
        (side, handle)
    }

    /// This was read before: a head has begun.
    #[must_use]
    pub(super) fn after(mut self, byte: u8) -> Self {
        self.ahead = Some(byte);
        self
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

    /// All is written, and hyper reads no more until something wakes it.
    fn settle(&mut self, cx: &mut Context<'_>) {
        let Some((deadline, _)) = self.handle.deadline(cx.waker(), self.is_flushed) else { return };
        self.alarm.as_mut().reset(deadline);
        if self.alarm.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    /// The head did not come in time: says so, as far as the box takes it at once.
    fn too_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.handle.is_late();
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
        let ahead = this.ahead.take();
        buffer.put_slice(ahead.as_slice());
        let polled = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            this.handle.came(&buffer.filled()[before..]);
        }
        match polled {
            Poll::Ready(read) => return Poll::Ready(read),
            Poll::Pending if ahead.is_some() => return Poll::Ready(Ok(())),
            Poll::Pending => {}
        }
        let Some((deadline, then)) = this.handle.deadline(cx.waker(), this.is_flushed) else { return Poll::Pending };
        if this.alarm.deadline() != deadline {
            this.alarm.as_mut().reset(deadline);
        }
        ready!(this.alarm.as_mut().poll(cx));
        match then {
            Then::TooLate => this.too_late(cx),
            // Silence that lasted too long ends the connection as its own end would.
            Then::End => Poll::Ready(Ok(())),
            Then::Rest => {
                this.handle.rest();
                Poll::Pending
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Side<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_between(cx))?;
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        this.clean = false;
        this.is_flushed = false;
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
        this.is_flushed = false;
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
        ready!(Pin::new(&mut this.stream).poll_flush(cx))?;
        if !this.is_flushed {
            this.is_flushed = true;
            this.settle(cx);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.handle.is_at_rest() {
            return Poll::Ready(Ok(()));
        }
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        // What comes is no request any more that an answer could be lost to, and is not for this side to throw away.
        if this.handle.has_switched() {
            return Poll::Ready(Ok(()));
        }
        this.poll_linger(cx)
    }
}

const TOO_LATE: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nx-boxgate-reason: head-late\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const LINGER: Duration = Duration::from_secs(2);
const LINGER_SILENCE: Duration = Duration::from_millis(250);
const LINGER_BYTES: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests;
