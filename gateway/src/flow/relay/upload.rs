//! Upload: the body of a request on its way out, counted and never held. Fields after it go nowhere: nobody judged them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::flow::accept;

/// The request body as the box sends it.
pub(super) struct Upload {
    /// Gone once it ended.
    body: Option<Incoming>,
    sent: Arc<AtomicU64>,
}

impl Upload {
    pub(super) fn new(body: Incoming, sent: Arc<AtomicU64>) -> Self {
        Self { body: Some(body), sent }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                // They come when the head was written down and sent; RFC 9110 §6.5.1 lets them be dropped.
                let Some(bytes) = frame.data_ref() else {
                    self.body = None;
                    return Poll::Ready(None);
                };
                self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            Some(Err(_)) | None => self.body = None,
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
        if let Some(body) = self.body.take() {
            accept::discard(body);
        }
    }
}
