//! Reply: the body of an answer to the box; one that is relayed closes its line when it ends.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::echo::Scan;
use crate::flow::relay::Lease;
use crate::ledger::{Ended, Line, Outcome};
use crate::live::Place;
use crate::refusal::Reason;

use super::echo::Bell;

/// What the box is sent.
pub enum Reply {
    /// The house's own words.
    Said(Full<Bytes>),
    Relayed(Box<Recorded>),
}

/// A body from upstream with the line of its request. Streamed as it comes; nothing is held back but what may be the
/// beginning of a credential that comes back.
pub struct Recorded {
    body: Incoming,
    look: Option<Look>,
    line: Option<Line>,
    lease: Option<Lease>,
    _place: OwnedSemaphorePermit,
    live: Place,
    /// As that one, set where nothing is there.
    withdrawn: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Set where nothing is there, and so for few.
    alarm: Option<Pin<Box<Sleep>>>,
    idle_limit: Duration,
    /// When the last of it came.
    last: Instant,
    /// The body said that nothing more comes.
    is_over: bool,
    received: u64,
    facts: Facts,
}

/// A look at what passes.
struct Look {
    bell: Bell,
    scan: Scan,
    /// Comes after what was held.
    next: Option<Frame<Bytes>>,
}

/// What is known of an answer before its body came.
pub struct Facts {
    pub status: u16,
    pub sent: Arc<AtomicU64>,
    pub timings: Vec<(&'static str, Duration)>,
    pub over: CancellationToken,
}

/// Why a relayed body broke off.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error("read the answer")]
    Upstream(#[source] hyper::Error),
    #[error("read the answer: nothing came for too long")]
    Idle,
    #[error("read the answer: what allowed it was withdrawn")]
    Withdrawn,
}

impl Reply {
    #[must_use]
    pub fn empty() -> Self {
        Self::Said(Full::default())
    }

    #[must_use]
    pub fn json(body: Vec<u8>) -> Self {
        Self::Said(Full::new(Bytes::from(body)))
    }
}

impl Recorded {
    pub fn new(
        body: Incoming,
        line: Line,
        lease: Lease,
        held: (OwnedSemaphorePermit, Place),
        idle_limit: Duration,
        bell: Option<Bell>,
        facts: Facts,
    ) -> Self {
        let (place, live) = held;
        let mut recorded = Self {
            body,
            look: bell.map(|bell| Look { bell, scan: Scan::default(), next: None }),
            line: Some(line),
            lease: Some(lease),
            _place: place,
            live,
            withdrawn: None,
            alarm: None,
            idle_limit,
            last: Instant::now(),
            is_over: false,
            received: 0,
            facts,
        };
        // A body that ended with its head is never polled.
        if recorded.body.is_end_stream() {
            recorded.whole();
        }
        recorded
    }

    fn whole(&mut self) {
        self.close(Ended::Complete, None, None);
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }

    fn close(&mut self, ended: Ended, reason: Option<Reason>, inside: Option<String>) {
        if let Some(line) = self.line.take() {
            line.close(Outcome {
                status: Some(self.facts.status),
                bytes_up: self.facts.sent.load(Ordering::Relaxed),
                bytes_down: self.received,
                ended,
                reason,
                inside,
                injected: Vec::new(),
                timings: std::mem::take(&mut self.facts.timings),
            });
        }
    }

    fn cut(&mut self) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let inside = "a reload withdrew what allowed it".to_owned();
        self.close(Ended::Cut, Some(Reason::GrantWithdrawn), Some(inside));
        Poll::Ready(Some(Err(Broken::Withdrawn)))
    }

    fn is_end(&self) -> bool {
        self.body.is_end_stream() && self.look.as_ref().is_none_or(|look| look.next.is_none() && !look.scan.holds())
    }

    fn poll_recorded(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            if let Some(frame) = self.look.as_mut().and_then(|look| look.next.take()) {
                return Poll::Ready(Some(Ok(frame)));
            }
            let frame = ready!(self.poll_body(cx));
            let (Some(look), Some(Ok(_)) | None) = (&mut self.look, &frame) else { return Poll::Ready(frame) };
            let passed = match frame {
                Some(Ok(frame)) => look.pass(frame, self.body.is_end_stream()),
                Some(Err(_)) | None => look.rest(None),
            };
            // Nothing to send yet: the next frame tells.
            match passed {
                Some(passed) => return Poll::Ready(Some(Ok(passed))),
                None if self.is_over => return Poll::Ready(None),
                None => {}
            }
        }
    }

    /// Ready when nothing has come for too long.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let end = self.last + self.idle_limit;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        if alarm.deadline() != end {
            alarm.as_mut().reset(end);
        }
        alarm.as_mut().poll(cx)
    }

    fn poll_withdrawn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let token = self.live.withdrawn();
        let withdrawn = self.withdrawn.get_or_insert_with(|| Box::pin(token.clone().cancelled_owned()));
        withdrawn.as_mut().poll(cx)
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        // An answer that comes without a pause is ended as well.
        if self.live.withdrawn().is_cancelled() {
            return self.cut();
        }
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.received += frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
                self.last = Instant::now();
                if self.body.is_end_stream() {
                    self.whole();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            // Its connection ends with its run.
            Poll::Ready(Some(Err(error))) if self.facts.over.is_cancelled() => {
                self.close(Ended::Cut, None, None);
                Poll::Ready(Some(Err(Broken::Upstream(error))))
            }
            Poll::Ready(Some(Err(error))) => {
                self.close(
                    Ended::Incomplete,
                    Some(Reason::UpstreamFailed),
                    Some(format!("the answer broke off: {error}")),
                );
                Poll::Ready(Some(Err(Broken::Upstream(error))))
            }
            Poll::Ready(None) => {
                self.is_over = true;
                self.whole();
                Poll::Ready(None)
            }
            Poll::Pending if self.poll_withdrawn(cx).is_ready() => self.cut(),
            Poll::Pending => {
                ready!(self.poll_idle(cx));
                self.close(
                    Ended::Incomplete,
                    Some(Reason::UpstreamFailed),
                    Some("nothing came for too long".to_owned()),
                );
                Poll::Ready(Some(Err(Broken::Idle)))
            }
        }
    }
}

impl Look {
    /// What of a frame may go on now; `None` where all of it must wait.
    fn pass(&mut self, frame: Frame<Bytes>, is_last: bool) -> Option<Frame<Bytes>> {
        let needles = &self.bell.watch().needles;
        let passed = match frame.into_data() {
            Ok(piece) => {
                let mut passed = self.scan.pass(needles, piece);
                if is_last && self.scan.holds() {
                    passed = [passed, self.scan.rest()].concat().into();
                }
                (!passed.is_empty()).then(|| Frame::data(passed))
            }
            Err(mut frame) => {
                if let Some(trailers) = frame.trailers_mut() {
                    self.bell.watch().clear(trailers);
                }
                self.rest(Some(frame))
            }
        };
        self.bell.heard(self.scan.found());
        passed
    }

    /// What was held, and then this.
    fn rest(&mut self, then: Option<Frame<Bytes>>) -> Option<Frame<Bytes>> {
        if !self.scan.holds() {
            return then;
        }
        self.next = then;
        Some(Frame::data(self.scan.rest()))
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let ended = if self.facts.over.is_cancelled() { Ended::Cut } else { Ended::Aborted };
        self.close(ended, None, None);
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Said(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(|never| match never {})))
            }
            Self::Relayed(recorded) => recorded.poll_recorded(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Said(body) => body.is_end_stream(),
            Self::Relayed(recorded) => recorded.is_end(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Said(body) => body.size_hint(),
            Self::Relayed(recorded) => recorded.body.size_hint(),
        }
    }
}
