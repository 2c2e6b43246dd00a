//! Health: what the operator hears of the ledger, and what the writer last did.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::chain::Receipt;
use super::history::History;

/// A snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LedgerHealth {
    /// Whether the last thing tried went well. While it is not, everything is refused.
    pub writable: bool,
    /// What went wrong last; kept after it went well again.
    pub last_error: Option<String>,
    /// The last line written.
    pub head: Receipt,
    /// Lines written since the start.
    pub lines: u64,
    pub alarms: u64,
    /// Refusals, each one counted, whether it got a line of its own or not.
    pub refusals: u64,
    /// Refusals and alarms that found no place and are in the ledger as a number only.
    pub unrecorded: u64,
    /// Lines that wait to be closed.
    pub open: u64,
    /// Lines that wait to be written.
    pub waiting: u64,
    /// Whether what stood in the file before the start was read.
    pub history: History,
}

#[derive(Debug)]
pub(super) struct Health {
    pub(super) lines: AtomicU64,
    pub(super) alarms: AtomicU64,
    pub(super) refusals: AtomicU64,
    pub(super) unrecorded: AtomicU64,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    writable: bool,
    last_error: Option<String>,
    head: Receipt,
    history: History,
}

impl Health {
    pub(super) const fn new(head: Receipt) -> Self {
        let state = State { writable: true, last_error: None, head, history: History::Read };
        Self {
            lines: AtomicU64::new(0),
            alarms: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            unrecorded: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }

    pub(super) fn head(&self) -> Receipt {
        self.with(|state| state.head)
    }

    pub(super) fn wrote(&self, lines: u64, head: Receipt) {
        self.lines.fetch_add(lines, Ordering::Relaxed);
        self.with(|state| state.head = head);
    }

    pub(super) fn set_history(&self, history: History) {
        self.with(|state| state.history = history);
    }

    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether this is news.
    pub(super) fn went_down(&self, error: &str) -> bool {
        self.with(|state| {
            state.last_error = Some(error.to_owned());
            std::mem::replace(&mut state.writable, false)
        })
    }

    /// A line was not written in time. Whether this is news; if it is not, the error that came first says more.
    pub(super) fn is_late(&self) -> bool {
        self.with(|state| {
            if state.writable {
                state.last_error = Some("a line was not written within the deadline".to_owned());
            }
            std::mem::replace(&mut state.writable, false)
        })
    }

    /// Whether this is news.
    pub(super) fn came_back(&self) -> bool {
        self.with(|state| !std::mem::replace(&mut state.writable, true))
    }

    pub(super) fn snapshot(&self, open: usize, waiting: usize) -> LedgerHealth {
        let State { writable, last_error, head, history } = self.with(|state| state.clone());
        LedgerHealth {
            writable,
            last_error,
            head,
            lines: self.lines.load(Ordering::Relaxed),
            alarms: self.alarms.load(Ordering::Relaxed),
            refusals: self.refusals.load(Ordering::Relaxed),
            unrecorded: self.unrecorded.load(Ordering::Relaxed),
            open: open as u64,
            waiting: waiting as u64,
            history,
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
