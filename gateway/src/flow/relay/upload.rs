//! Upload: the body of a request on its way out, counted; held only until an expectation is met. Fields after it go
//! nowhere: nobody judged them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::interim::Gate;
use crate::flow::accept;

/// The request body as the box sends it.
pub(super) struct Upload {
    /// Gone once it ended.
    body: Option<Incoming>,
    progress: Arc<Progress>,
    gate: Option<Gate>,
}

/// How far a body got.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) sent: Arc<AtomicU64>,
    whole: AtomicBool,
}

impl Progress {
    pub(super) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }
}

impl Upload {
    pub(super) fn new(body: Incoming, gate: Option<Gate>) -> Self {
        let whole = AtomicBool::new(body.is_end_stream());
        Self { body: Some(body), progress: Arc::new(Progress { sent: Arc::default(), whole }), gate }
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // The first poll of the body is what makes hyper tell the box to go on.
        if let Some(gate) = self.gate.as_mut() {
            ready!(gate.poll_open(cx));
            self.gate = None;
        }
        let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
        let ended = frame.is_none() || body.is_end_stream();
        match &frame {
            Some(Ok(frame)) => {
                // Trailers come when the head was written down and sent; RFC 9110 §6.5.1 lets them be dropped.
                let Some(bytes) = frame.data_ref() else {
                    self.progress.whole.store(true, Ordering::Release);
                    self.body = None;
                    return Poll::Ready(None);
                };
                self.progress.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                self.progress.whole.fetch_or(ended, Ordering::AcqRel);
            }
            Some(Err(_)) => self.body = None,
            None => {
                self.progress.whole.store(true, Ordering::Release);
                self.body = None;
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Upload {
    /// An upstream that answered early reads no further, and the box must not be cut off from that answer.
    fn drop(&mut self) {
        // A box that was not told to go on must not be told so now.
        if self.gate.is_none()
            && let Some(body) = self.body.take()
        {
            accept::discard(body);
        }
    }
}
