//! The queue between those who write lines and the writer: bounded, and a closing always has its place.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::chain::Receipt;
use super::entry::{Caller, Entry, Repeats};
use super::fault::LedgerError;
use super::health::{Health, LedgerHealth};
use super::kind::Kind;
use super::line::Line;
use super::windows::Windows;
use super::words::Body;

/// One thing for the writer.
pub(super) enum Job {
    Open(Opening),
    Close(Closing),
    Note(Note),
    /// A line without anyone waiting for it: a refusal, an alarm, a count of repeats.
    Aside(Body),
    /// The file is durable up to this length, or not.
    Synced(u64, io::Result<()>),
}

pub(super) struct Opening {
    pub(super) body: Body,
    pub(super) caller: Caller,
    pub(super) asked: Instant,
    pub(super) reply: oneshot::Sender<Result<Line, LedgerError>>,
}

pub(super) struct Closing {
    pub(super) of: u64,
    pub(super) body: Body,
}

pub(super) struct Note {
    /// None asks only that everything before it be durable.
    pub(super) body: Option<Body>,
    pub(super) reply: oneshot::Sender<Receipt>,
}

pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    windows: Mutex<Windows>,
    pub(super) health: Health,
}

/// What the writer is given.
pub(super) struct Taken {
    pub(super) jobs: Vec<Job>,
    /// No more openings come; what is here is the rest.
    pub(super) is_stopping: bool,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    openings: usize,
    /// Lines open or about to be; each has a place for its closing.
    open: usize,
    notes: usize,
    asides: usize,
    unrecorded: Option<Repeats>,
    /// Someone waits for what is queued, or there is no reason that it should wait.
    is_urgent: bool,
    turns: Turns,
    is_stopping: bool,
    is_shut: bool,
}

/// Who takes the writer's turns, and when: a task where there is one, and the ledger's thread for all that the task does not.
#[derive(Default)]
struct Turns {
    has_task: bool,
    /// The task's, while it waits.
    waker: Option<Waker>,
    /// The task's turn, while it lasts.
    began: Option<Instant>,
    /// The task found the writer in the thread's hands: the next turn is the thread's.
    is_handed: bool,
    /// When the writer wants a turn, whatever comes.
    due: Option<Instant>,
    /// A turn was taken since the thread looked last.
    has_acted: bool,
    /// What is queued was there when the thread looked last.
    has_lain: bool,
    /// The thread waits until it is told, and does not look every now and then.
    is_asleep: bool,
}

/// For those who write lines.
impl Queue {
    /// For a book with this head, in which so many lines await their closing.
    pub(super) fn new(head: Receipt, open: usize) -> Self {
        let waiting = Mutex::new(Waiting { open, ..Waiting::default() });
        Self { waiting, wake: Condvar::new(), windows: Mutex::default(), health: Health::new(head) }
    }

    pub(super) fn open_line(&self, opening: Opening) -> Result<(), LedgerError> {
        let mut waiting = self.lock();
        if waiting.is_stopping {
            return Err(LedgerError::Closed);
        }
        if waiting.openings >= OPENINGS || waiting.open >= OPEN_LINES {
            return Err(LedgerError::Full);
        }
        waiting.openings += 1;
        waiting.open += 1;
        self.push(waiting, Job::Open(opening));
        Ok(())
    }

    /// After the writer has gone, the line has been closed by it or will be by the next gateway. Nobody waits for it: it goes
    /// with the next line that somebody waits for, or at the end of the writer's nap.
    pub(super) fn close_line(&self, closing: Closing) {
        let mut waiting = self.lock();
        if waiting.is_shut {
            return;
        }
        if waiting.jobs.len() >= COMPANY {
            self.push(waiting, Job::Close(closing));
        } else {
            waiting.jobs.push_back(Job::Close(closing));
            self.keep_awake(&mut waiting);
        }
    }

    pub(super) fn note(&self, note: Note) -> Result<(), LedgerError> {
        let mut waiting = self.lock();
        if waiting.is_stopping {
            return Err(LedgerError::Closed);
        }
        if waiting.notes >= NOTES {
            return Err(LedgerError::Full);
        }
        waiting.notes += 1;
        self.push(waiting, Job::Note(note));
        Ok(())
    }

    /// A line at once, or a count in the window of its likeness. Whether it is a line.
    pub(super) fn aside(&self, entry: Entry) -> bool {
        let met = self.windows().meet(entry, Instant::now());
        met.is_some_and(|entry| self.push_aside(entry))
    }

    pub(super) fn stop(&self) {
        self.lock().is_stopping = true;
        self.wake.notify_one();
    }

    pub(super) fn snapshot(&self) -> LedgerHealth {
        let (open, waiting) = {
            let waiting = self.lock();
            (waiting.open, waiting.jobs.len())
        };
        self.health.snapshot(open, waiting)
    }
}

/// For the writer.
impl Queue {
    /// What is there now.
    pub(super) fn take(&self) -> Taken {
        let mut waiting = self.lock();
        waiting.is_urgent = false;
        waiting.turns.is_handed = false;
        waiting.turns.has_acted = true;
        waiting.openings = 0;
        Taken { jobs: waiting.jobs.drain(..).collect(), is_stopping: waiting.is_stopping }
    }

    /// When the writer wants its next turn, whatever comes.
    pub(super) fn next_due(&self, due: Option<Instant>) {
        self.lock().turns.due = due;
    }

    /// For the thread: waits until a turn is its own. While there is something to do it looks at least every [`NAP`], writes
    /// what nobody waits for, and says by `stuck` that the task's turn lasts too long.
    pub(super) fn turn_of_thread(&self, stuck: impl Fn()) {
        let mut waiting = self.lock();
        loop {
            let now = Instant::now();
            let Waiting { jobs, is_urgent, turns, is_stopping, .. } = &mut *waiting;
            if turns.began.is_some_and(|began| now - began > STUCK) {
                stuck();
            }
            let is_due = turns.due.is_some_and(|due| due <= now) || turns.has_lain && !jobs.is_empty();
            if *is_stopping || turns.is_handed || *is_urgent && !turns.has_task || is_due && turns.began.is_none() {
                turns.has_lain = false;
                return;
            }
            turns.has_lain = !jobs.is_empty();
            let acts = std::mem::take(&mut turns.has_acted) || turns.has_lain || turns.began.is_some();
            let nap = acts.then(|| now + NAP);
            let end = if is_due { nap } else { [nap, turns.due].into_iter().flatten().min() };
            turns.is_asleep = nap.is_none();
            waiting = match end {
                Some(end) => self.wake.wait_timeout(waiting, end - now).unwrap_or_else(PoisonError::into_inner).0,
                None => self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
            waiting.turns.is_asleep = false;
        }
    }

    /// For the task: from now on what is urgent is its business; or, at its end, the thread's.
    pub(super) fn has_task(&self, has: bool) {
        let mut waiting = self.lock();
        waiting.turns.has_task = has;
        (waiting.turns.waker, waiting.turns.began) = (None, None);
        drop(waiting);
        self.wake.notify_one();
    }

    /// For the task: until something is urgent; `false` at the end. Who has just had a turn lets others go first.
    pub(super) fn poll_urgent(&self, cx: &Context<'_>, has_had_turn: &mut bool) -> Poll<bool> {
        let mut waiting = self.lock();
        if waiting.is_shut {
            return Poll::Ready(false);
        }
        if waiting.is_urgent && !waiting.turns.is_handed {
            if std::mem::take(has_had_turn) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            waiting.turns.began = Some(Instant::now());
            return Poll::Ready(true);
        }
        waiting.turns.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The task's turn is over, or it could not be taken: then it is the thread's.
    pub(super) fn turn_ended(&self, was_taken: bool) {
        let mut waiting = self.lock();
        waiting.turns.began = None;
        if !was_taken {
            waiting.turns.is_handed = true;
            drop(waiting);
            self.wake.notify_one();
        }
    }

    pub(super) fn line_ended(&self) {
        let mut waiting = self.lock();
        waiting.open = waiting.open.saturating_sub(1);
    }

    pub(super) fn synced(&self, length: u64, result: io::Result<()>) {
        self.push(self.lock(), Job::Synced(length, result));
    }

    pub(super) fn note_written(&self) {
        let mut waiting = self.lock();
        waiting.notes = waiting.notes.saturating_sub(1);
    }

    pub(super) fn aside_written(&self) {
        let mut waiting = self.lock();
        waiting.asides = waiting.asides.saturating_sub(1);
    }

    /// Queues the counts of windows that have ended (at the end: of all), and of what found no place.
    pub(super) fn tell_repeats(&self, is_end: bool) {
        let told = if is_end { self.windows().close() } else { self.windows().ended(Instant::now()) };
        for entry in told {
            self.push_aside(entry);
        }
        let unrecorded = {
            let mut waiting = self.lock();
            if waiting.asides < ASIDES { waiting.unrecorded.take() } else { None }
        };
        if let Some(repeats) = unrecorded {
            let entry = Entry::new(Kind::Repeated)
                .inside("refusals and alarms that found no place while the ledger could not be written");
            self.push_aside(entry.into_repeated(repeats));
        }
    }

    pub(super) fn next_window_end(&self) -> Option<Instant> {
        self.windows().next_end()
    }

    /// Takes nothing more. False if something came meanwhile.
    pub(super) fn shut(&self) -> bool {
        let mut waiting = self.lock();
        waiting.is_shut = waiting.jobs.is_empty();
        waiting.is_shut
    }

    /// The writer is gone, however it came to that: whoever still waits hears so.
    pub(super) fn abandon(&self) {
        let mut waiting = self.lock();
        waiting.is_stopping = true;
        waiting.is_shut = true;
        let jobs = std::mem::take(&mut waiting.jobs);
        let waker = waiting.turns.waker.take();
        drop(waiting);
        drop(jobs);
        if let Some(waker) = waker {
            waker.wake();
        }
        self.wake.notify_one();
    }

    fn push_aside(&self, entry: Entry) -> bool {
        let mut waiting = self.lock();
        if waiting.is_shut {
            return false;
        }
        if waiting.asides >= ASIDES {
            Health::count(&self.health.unrecorded);
            waiting.count_unrecorded(&entry);
            return false;
        }
        waiting.asides += 1;
        self.push(waiting, Job::Aside(entry.body()));
        true
    }

    fn push(&self, mut waiting: MutexGuard<'_, Waiting>, job: Job) {
        waiting.jobs.push_back(job);
        let was_urgent = std::mem::replace(&mut waiting.is_urgent, true);
        let waker = waiting.turns.waker.take();
        if waiting.turns.has_task {
            self.keep_awake(&mut waiting);
        } else if !was_urgent {
            self.wake.notify_one();
        }
        drop(waiting);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The thread looks every now and then from here on.
    fn keep_awake(&self, waiting: &mut Waiting) {
        if std::mem::take(&mut waiting.turns.is_asleep) {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn count_unrecorded(&mut self, entry: &Entry) {
        let more = entry.repeats_count();
        let now = Timestamp::now();
        let counted = self.unrecorded.get_or_insert_with(|| Repeats { count: 0, first: entry.time(), last: now });
        counted.count += more;
        counted.last = now;
    }
}

/// How long a closing may wait for another line, so that one write and one waking are enough for both.
const NAP: Duration = Duration::from_millis(2);
/// A turn of the task that lasts longer holds up the thread that it runs on.
const STUCK: Duration = Duration::from_millis(20);
/// So many closings are company enough.
const COMPANY: usize = 256;
const OPENINGS: usize = 8192;
const OPEN_LINES: usize = 65_536;
const NOTES: usize = 4096;
const ASIDES: usize = 4096;
