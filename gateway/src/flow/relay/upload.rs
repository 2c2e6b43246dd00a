//! Upload: the body of a request on its way out, counted, and judged where it is read; held only until an expectation is met,
//! or as far as it cannot be judged yet. Fields after it go nowhere: nobody judged them.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::interim::Gate;
use crate::body::Reading;
use crate::flow::accept;
use crate::flow::identify::Caller;
use crate::refusal::Refusal;

/// The request body as the box sends it.
pub(super) struct Upload {
    /// Gone once it ended.
    body: Option<Incoming>,
    progress: Arc<Progress>,
    gate: Option<Gate>,
    /// Behind a pointer: a request is moved often, and few bodies are read.
    look: Option<Box<Look>>,
}

/// A body that is judged as it passes.
struct Look {
    reading: Box<Reading>,
    /// What came and is not judged yet.
    held: BytesMut,
    verdict: Verdict,
    caller: Caller,
}

/// The refusal of a body, once there is one.
#[derive(Clone, Default)]
pub(super) struct Verdict(Arc<Judged>);

#[derive(Default)]
struct Judged {
    refusal: OnceLock<Refusal>,
    /// The answer came before: who would be told has been told something else.
    answered: AtomicBool,
}

/// Why a body broke off.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrokenOff {
    #[error("read the body")]
    Box(#[source] hyper::Error),
    #[error("the body is refused")]
    Refused,
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

impl Verdict {
    /// What was refused so far; from now on nobody asks.
    pub(super) fn at_answer(&self) -> Option<Refusal> {
        self.0.answered.store(true, Ordering::Release);
        self.refusal()
    }

    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.0.refusal.get().cloned()
    }
}

impl Look {
    /// What may go on of these bytes and of those before them.
    fn pass(&mut self, bytes: Bytes, is_last: bool) -> Result<Bytes, BrokenOff> {
        let mut waits = self.judged(|reading| reading.judge(&bytes))?;
        if is_last {
            self.judged(|reading| reading.end())?;
            waits = 0;
        }
        if waits == 0 && self.held.is_empty() {
            return Ok(bytes);
        }
        self.held.extend_from_slice(&bytes);
        let free = self.held.len().saturating_sub(waits);
        Ok(self.held.split_to(free).freeze())
    }

    fn judged<T>(&mut self, judge: impl FnOnce(&mut Reading) -> Result<T, Refusal>) -> Result<T, BrokenOff> {
        judge(&mut self.reading).map_err(|refusal| {
            let Judged { refusal: told, answered } = &*self.verdict.0;
            // What is told by nobody else counts here.
            if told.set(refusal.clone()).is_ok() && answered.load(Ordering::Acquire) {
                self.reading.note(&refusal);
                if refusal.reason().counts() {
                    self.caller.run().count_refusal();
                }
            }
            BrokenOff::Refused
        })
    }
}

impl Upload {
    pub(super) fn new(
        body: Incoming,
        gate: Option<Gate>,
        reading: Option<Box<Reading>>,
        caller: &Caller,
    ) -> (Self, Verdict) {
        let whole = AtomicBool::new(body.is_end_stream());
        let verdict = Verdict::default();
        let look = reading.map(|reading| {
            let (verdict, caller) = (verdict.clone(), caller.clone());
            Box::new(Look { reading, held: BytesMut::new(), verdict, caller })
        });
        let progress = Arc::new(Progress { sent: Arc::default(), whole });
        (Self { body: Some(body), progress, gate, look }, verdict)
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        // The first poll of the body is what makes hyper tell the box to go on.
        if let Some(gate) = self.gate.as_mut() {
            ready!(gate.poll_open(cx));
            self.gate = None;
        }
        loop {
            let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
            let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
            let ended = frame.is_none() || body.is_end_stream();
            let bytes = match frame {
                // Trailers come when the head was written down and sent; RFC 9110 §6.5.1 lets them be dropped.
                Some(Ok(frame)) => frame.into_data().ok(),
                Some(Err(error)) => {
                    self.body = None;
                    return Poll::Ready(Some(Err(BrokenOff::Box(error))));
                }
                None => None,
            };
            let is_last = bytes.is_none();
            let passed = match self.look.as_mut() {
                Some(look) => look.pass(bytes.unwrap_or_default(), ended || is_last)?,
                None => bytes.unwrap_or_default(),
            };
            if ended {
                self.look = None;
            }
            self.progress.sent.fetch_add(passed.len() as u64, Ordering::Relaxed);
            self.progress.whole.fetch_or(ended || is_last, Ordering::AcqRel);
            if is_last {
                self.body = None;
            }
            if !passed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(passed))));
            }
            if ended {
                return Poll::Ready(None);
            }
        }
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
