//! Pace: between two requests a tunnel may be idle for long, but a head that was begun must come whole in time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream whose heads are timed from their first byte.
pub struct Paced<S> {
    stream: S,
    turn: Turn,
    limit: Duration,
    running: Option<Pin<Box<Sleep>>>,
}

/// Whose turn it is on one connection: the box's, to send a head, or the house's, to answer.
#[derive(Clone, Default)]
pub struct Turn(Arc<AtomicBool>);

/// The body of an answer; the next head is awaited once it is gone.
pub struct Answering<B> {
    body: B,
    turn: Turn,
}

impl<S> Paced<S> {
    pub fn new(stream: S, limit: Duration) -> (Self, Turn) {
        let turn = Turn::default();
        (Self { stream, turn: turn.clone(), limit, running: None }, turn)
    }
}

impl Turn {
    /// A whole head came; the house answers now.
    pub fn answer(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Carries the turn until the answer is gone.
    pub fn until_gone<B>(&self, body: B) -> Answering<B> {
        Answering { body, turn: self.clone() }
    }

    fn is_answering(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl<B> Drop for Answering<B> {
    fn drop(&mut self) {
        self.turn.0.store(false, Ordering::Release);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if self.turn.is_answering() {
            self.running = None;
            return polled;
        }
        if buffer.filled().len() > before && self.running.is_none() {
            self.running = Some(Box::pin(tokio::time::sleep(self.limit)));
        }
        if polled.is_pending()
            && let Some(running) = self.running.as_mut()
            && running.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the head did not come whole in time")));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl<B: Body + Unpin> Body for Answering<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::Paced;

    #[tokio::test]
    async fn an_idle_connection_waits_and_a_begun_head_does_not() {
        let (mut client, server) = tokio::io::duplex(64);
        let (mut paced, turn) = Paced::new(server, LIMIT);
        let mut byte = [0];
        let idle = tokio::time::timeout(LIMIT * 4, paced.read(&mut byte)).await;
        assert!(idle.is_err(), "nothing was sent, so nothing is late");
        client.write_all(b"G").await.expect("sent");
        paced.read_exact(&mut byte).await.expect("read");
        let late = paced.read(&mut byte).await.expect_err("late");
        assert_eq!(late.kind(), std::io::ErrorKind::TimedOut);
        turn.answer();
        let answering = tokio::time::timeout(LIMIT * 4, paced.read(&mut byte)).await;
        assert!(answering.is_err(), "a body may take its time");
        drop(turn.until_gone(()));
        client.write_all(b"G").await.expect("sent");
        paced.read_exact(&mut byte).await.expect("read");
        assert!(paced.read(&mut byte).await.is_err(), "the next head is timed again");
    }

    const LIMIT: Duration = Duration::from_millis(50);
}
