//! Counting: the bytes of a tunnel, as they pass on its outer side.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream whose bytes are counted.
pub struct Counting<S> {
    stream: S,
    count: Arc<Bytes>,
}

/// The count of one tunnel, readable after its stream is gone.
#[derive(Default)]
pub struct TunnelCount(Arc<Bytes>);

#[derive(Default)]
struct Bytes {
    up: AtomicU64,
    down: AtomicU64,
    switched: AtomicBool,
}

impl<S> Counting<S> {
    pub fn new(stream: S, count: &TunnelCount) -> Self {
        Self { stream, count: Arc::clone(&count.0) }
    }
}

impl TunnelCount {
    /// Bytes from the box and bytes to the box.
    #[must_use]
    pub fn seen(&self) -> (u64, u64) {
        (self.0.up.load(Ordering::Relaxed), self.0.down.load(Ordering::Relaxed))
    }

    /// The tunnel became a session: a WebSocket is open in it, and nothing else can be.
    pub fn note_session(&self) {
        self.0.switched.store(true, Ordering::Relaxed);
    }

    #[must_use]
    pub fn holds_session(&self) -> bool {
        self.0.switched.load(Ordering::Relaxed)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counting<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.count.up.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counting<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = &polled {
            self.count.down.fetch_add(*written as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
