//! The handle of a watched stream: what the rest of the house says to it, and asks of it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tokio::time::Instant;

use crate::flow::accept::exchange::Exchange;
use crate::flow::accept::rest::{Reckoning, SETTLED};

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
    /// Whether the connection may rest.
    pub rests: bool,
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
    reckoning: Reckoning,
    rest: Rest,
}

#[derive(Default)]
struct Rest {
    /// The connection is to end, and the stream to stay.
    is_due: bool,
    waker: Option<Waker>,
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

/// What a wait for bytes ends with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    TooLate,
    End,
    Rest,
}

/// What a connection becomes when its HTTP is over.
pub(super) type Afterwards = Pin<Box<dyn Future<Output = ()> + Send>>;

impl SideHandle {
    /// `prompt`: the first head must begin at once.
    pub(super) fn new(waits: Waits, prompt: bool) -> Self {
        let shared = Shared {
            phase: if prompt { Phase::Head } else { Phase::Silent },
            since: Instant::now(),
            hints: VecDeque::new(),
            waker: None,
            switched: false,
            afterwards: None,
            waiter: None,
            late: false,
            reckoning: Reckoning::default(),
            rest: Rest::default(),
        };
        Self { shared: Arc::new(Mutex::new(shared)), waits }
    }

    /// A request came; the head's deadline is met. The exchange lasts until its answer was written.
    #[must_use]
    pub fn begin(&self, method: &Method) -> Exchange {
        self.turn(Phase::Busy);
        self.lock().reckoning.begin();
        Exchange::new(self.clone(), method)
    }

    /// The answer was written: the next head may come.
    pub(in crate::flow::accept) fn end(&self) {
        self.turn(Phase::Silent);
        self.lock().reckoning.end();
    }

    /// The body of the request under way has this length, and is taken as this counts.
    pub fn body(&self, length: Option<u64>, taken: Arc<AtomicU64>) {
        self.lock().reckoning.body(length, taken);
    }

    /// Resolves when the connection is to rest.
    pub(in crate::flow::accept) async fn rests(&self) {
        std::future::poll_fn(|cx| {
            let mut shared = self.lock();
            if shared.rest.is_due {
                return Poll::Ready(());
            }
            shared.rest.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Whether the connection ended in order to rest.
    pub(in crate::flow::accept) fn is_at_rest(&self) -> bool {
        let shared = self.lock();
        shared.rest.is_due && !shared.switched
    }

    /// The answer switched protocols.
    pub(in crate::flow::accept) fn switched(&self) {
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

    /// A head did not come in time.
    pub(super) fn is_late(&self) {
        self.lock().late = true;
    }

    pub(super) fn has_switched(&self) -> bool {
        self.lock().switched
    }

    fn turn(&self, phase: Phase) {
        let mut shared = self.lock();
        shared.phase = phase;
        shared.since = Instant::now();
    }

    /// Bytes came: between requests they begin a head.
    pub(super) fn came(&self, bytes: &[u8]) {
        let mut shared = self.lock();
        if self.waits.rests {
            shared.reckoning.came(bytes);
            shared.rest.is_due = false;
        }
        if shared.phase == Phase::Silent {
            shared.phase = Phase::Head;
            shared.since = Instant::now();
        }
    }

    /// When the wait for bytes ends, and what is to be done then.
    pub(super) fn deadline(&self, waker: &Waker, is_flushed: bool) -> Option<(Instant, Then)> {
        let mut shared = self.lock();
        if !shared.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            shared.waker = Some(waker.clone());
        }
        match shared.phase {
            Phase::Silent
                if self.waits.rests && is_flushed && shared.reckoning.is_even() && SETTLED < self.waits.silence =>
            {
                Some((shared.since + SETTLED, Then::Rest))
            }
            Phase::Silent => Some((shared.since + self.waits.silence, Then::End)),
            Phase::Head => Some((shared.since + self.waits.head, Then::TooLate)),
            Phase::Busy => None,
        }
    }

    pub(super) fn rest(&self) {
        let waker = {
            let mut shared = self.lock();
            shared.rest.is_due = true;
            shared.rest.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn next_hint(&self) -> Option<Bytes> {
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

const MOST_HINTS: usize = 16;
const LONGEST_HINT: usize = 16 * 1024;
/// For a box to take the hints before its answer.
const HINT_WAIT: Duration = Duration::from_secs(1);
