//! The writer: owns the file; in each of its turns it takes what is queued, writes it in one go and says so.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::book::Book;
use super::chain::Receipt;
use super::checkpoint::{self, Keeper};
use super::entry::Entry;
use super::fault::{BookFault, LedgerError};
use super::health::Health;
use super::kind::Kind;
use super::line::{Line, unknown_body};
use super::paper::Paper;
use super::past::Past;
use super::queue::{Closing, Job, Note, Opening, Queue};
use super::settings::SyncMode;
use super::syncer::Syncer;
use super::words::Body;

pub(super) struct Writer<P> {
    queue: Arc<Queue>,
    book: Book<P>,
    sync: SyncMode,
    /// How long the end may wait for a disk that is full.
    patience: Duration,
    /// What must be written and could not be yet, in order. Never an opening.
    held: VecDeque<Job>,
    /// Written, but not to be used or told before it is durable.
    undurable: Undurable,
    syncer: Syncer,
    /// What the sync under way will make durable.
    syncing: Option<Undurable>,
    /// What the file holds, gathered as it is written.
    past: Past,
    /// None in a test that needs no checkpoints.
    keeper: Option<Keeper>,
    sync_at: Option<Instant>,
    retry_at: Option<Instant>,
    stop_by: Option<Instant>,
}

#[derive(Default)]
struct Undurable {
    openings: Vec<(u64, Opening)>,
    notes: Vec<(oneshot::Sender<Receipt>, Receipt)>,
}

impl<P: Paper> Writer<P> {
    /// `past` is what the book holds.
    pub(super) fn new(
        queue: Arc<Queue>,
        mut book: Book<P>,
        past: Past,
        sync: SyncMode,
        patience: Duration,
    ) -> io::Result<Self> {
        let syncer = Syncer::start(Arc::clone(&queue), book.paper().syncing()?)?;
        Ok(Self {
            queue,
            book,
            sync,
            patience,
            held: VecDeque::new(),
            undurable: Undurable::default(),
            syncer,
            syncing: None,
            past,
            keeper: None,
            sync_at: None,
            retry_at: None,
            stop_by: None,
        })
    }

    /// Lines to begin with: what the start found and put right.
    pub(super) fn begin_with(&mut self, jobs: impl IntoIterator<Item = Job>) {
        self.held.extend(jobs);
        self.retry_at = Some(Instant::now());
    }

    /// Writes checkpoints from now on.
    pub(super) fn keep_with(&mut self, keeper: Keeper) {
        self.keeper = Some(keeper);
    }

    /// One turn: writes what is queued, and what is due. Whether the end has come.
    pub(super) fn turn(&mut self) -> bool {
        let taken = self.queue.take();
        if !taken.jobs.is_empty() || self.is_retry_due() {
            self.write(taken.jobs);
        }
        self.sync_if_due();
        self.queue.next_due(self.wakes_at());
        taken.is_stopping
    }

    fn write(&mut self, fresh: Vec<Job>) {
        let mut todo = std::mem::take(&mut self.held);
        for job in fresh {
            todo.extend(self.still_wanted(job));
        }
        if todo.is_empty() && !self.book.is_sound() {
            self.put_right();
        }
        while !todo.is_empty() {
            let batch: Vec<_> = todo.drain(..todo.len().min(BATCH)).collect();
            let (left, fault) = self.append(batch);
            let Some(fault) = fault else { continue };
            for job in left.into_iter().rev() {
                todo.push_front(job);
            }
            self.stall(todo, &fault);
            break;
        }
        self.make_durable();
    }

    /// Writes a batch; gives back what is not in the file.
    fn append(&mut self, batch: Vec<Job>) -> (Vec<Job>, Option<BookFault>) {
        let receipts: Vec<_> = batch.iter().map(|job| self.stage(job)).collect();
        let committed = self.book.commit();
        if committed.lines > 0 {
            self.queue.health.wrote(committed.lines as u64, self.book.head());
        }
        let reached = self.book.head().sequence;
        let mut left = Vec::new();
        self.past.lines += committed.lines as u64;
        (self.past.length, self.past.head) = (self.book.length(), self.book.head());
        for (job, receipt) in batch.into_iter().zip(receipts) {
            if receipt.sequence <= reached && left.is_empty() {
                self.settle(job, receipt);
            } else {
                left.push(job);
            }
        }
        if committed.fault.is_none() && self.queue.health.came_back() {
            tracing::info!(sequence = reached, "the ledger can be written again");
        }
        (left, committed.fault)
    }

    fn stage(&mut self, job: &Job) -> Receipt {
        match job {
            Job::Open(Opening { body, .. }) | Job::Close(Closing { body, .. }) | Job::Aside(body) => {
                self.book.stage(body)
            }
            Job::Note(Note { body: Some(body), .. }) => self.book.stage(body),
            Job::Note(Note { body: None, .. }) | Job::Synced(..) => self.book.staged_head(),
        }
    }

    /// The job's line is in the file.
    fn settle(&mut self, job: Job, receipt: Receipt) {
        match job {
            Job::Open(opening) => {
                self.past.tallies.add(&opening.caller, opening.body.weight());
                self.past.open.insert(receipt.sequence, opening.caller.clone());
                match self.sync {
                    SyncMode::Batch => self.grant(receipt.sequence, opening),
                    SyncMode::Always => self.undurable.openings.push((receipt.sequence, opening)),
                }
            }
            Job::Close(closing) => {
                if let Some(caller) = self.past.open.remove(&closing.of) {
                    self.past.tallies.add(&caller, closing.body.weight());
                }
                self.queue.line_ended();
            }
            Job::Note(note) => {
                self.queue.note_written();
                self.weigh(note.body.as_ref());
                self.undurable.notes.push((note.reply, receipt));
            }
            Job::Aside(body) => {
                self.weigh(Some(&body));
                self.queue.aside_written();
            }
            Job::Synced(length, result) => self.sync_ended(length, result),
        }
    }

    fn weigh(&mut self, body: Option<&Body>) {
        if let Some((body, caller)) = body.and_then(|body| Some((body, body.caller()?))) {
            self.past.tallies.add(caller, body.weight());
        }
    }

    /// Hands out the line. If nobody waits for it any more, dropping it closes it.
    fn grant(&self, sequence: u64, opening: Opening) {
        let Opening { body: _, caller, asked, reply } = opening;
        let line = Line::new(sequence, caller, asked, Arc::clone(&self.queue));
        drop(reply.send(Ok(line)));
    }

    /// Nothing may be let out for these; what must be told later is held.
    fn stall(&mut self, jobs: VecDeque<Job>, fault: &BookFault) {
        // First, so that whoever hears a refusal finds the status in accord with it.
        self.went_down(fault);
        for job in jobs {
            match job {
                Job::Open(opening) => self.refuse(opening, fault),
                Job::Close(_) | Job::Note(_) | Job::Aside(_) | Job::Synced(..) => self.held.push_back(job),
            }
        }
    }

    fn refuse(&self, opening: Opening, fault: &BookFault) {
        self.queue.line_ended();
        drop(opening.reply.send(Err(LedgerError::Down(fault.to_string()))));
    }

    fn went_down(&mut self, fault: &BookFault) {
        self.retry_at = Some(Instant::now() + RETRY_EVERY);
        let sentence = fault.to_string();
        if self.queue.health.went_down(&sentence) {
            tracing::error!(alarm = ALARM, "{sentence}");
            Health::count(&self.queue.health.alarms);
            let entry = Entry::new(Kind::Alarm).into_alarm(ALARM).inside(&sentence);
            if !self.queue.aside(entry) {
                tracing::debug!("the ledger's alarm was counted with an earlier one");
            }
        }
    }

    fn make_durable(&mut self) {
        let is_awaited = !self.undurable.openings.is_empty() || !self.undurable.notes.is_empty();
        if is_awaited || self.book.unsynced() > UNSYNCED {
            self.start_sync();
        } else if self.book.unsynced() > 0 && self.sync_at.is_none() {
            self.sync_at = Some(Instant::now() + SYNC_EVERY);
        }
    }

    fn sync_if_due(&mut self) {
        if self.sync_at.is_some_and(|at| at <= Instant::now()) {
            self.start_sync();
        }
    }

    /// Asks for everything written so far. While a sync is under way or would lie, the next chance is taken instead.
    fn start_sync(&mut self) {
        self.sync_at = None;
        if self.syncing.is_some() || !self.book.is_sound() {
            return;
        }
        let length = self.book.length();
        self.syncing = Some(std::mem::take(&mut self.undurable));
        // What is held comes first: it may vouch for a torn line that the file ends in.
        let keeper = self.keeper.as_mut().filter(|_| self.held.is_empty());
        let checkpoint = keeper.and_then(|keeper| keeper.due(&self.past));
        if let Err(error) = self.syncer.ask(length, checkpoint) {
            self.sync_ended(length, Err(error));
        }
    }

    fn sync_ended(&mut self, length: u64, result: io::Result<()>) {
        let waited = self.syncing.take().unwrap_or_default();
        match result {
            Ok(()) => {
                self.book.became_durable(length);
                self.release(waited);
            }
            Err(error) => {
                self.book.distrust();
                self.distrust(waited, &BookFault::Sync(error));
            }
        }
    }

    /// What was written is durable.
    fn release(&self, waited: Undurable) {
        let Undurable { openings, notes } = waited;
        for (sequence, opening) in openings {
            self.grant(sequence, opening);
        }
        for (reply, receipt) in notes {
            // Who asked may have given up; the line stands anyway.
            let _ = reply.send(receipt);
        }
    }

    /// Openings that are written but may not last are refused and closed; notes wait on.
    fn distrust(&mut self, waited: Undurable, fault: &BookFault) {
        self.went_down(fault);
        let Undurable { openings, mut notes } = waited;
        notes.append(&mut self.undurable.notes);
        self.undurable.notes = notes;
        let later = std::mem::take(&mut self.undurable.openings);
        for (sequence, opening) in openings.into_iter().chain(later) {
            let body = unknown_body(sequence, &opening.caller, "the line could not be made durable; nothing was sent");
            self.held.push_back(Job::Close(Closing { of: sequence, body }));
            drop(opening.reply.send(Err(LedgerError::Down(fault.to_string()))));
        }
    }

    fn put_right(&mut self) {
        match self.book.put_right() {
            Ok(()) => {
                self.queue.health.came_back();
                let waited = std::mem::take(&mut self.undurable);
                self.release(waited);
            }
            Err(fault) => self.went_down(&fault),
        }
    }

    fn still_wanted(&mut self, job: Job) -> Option<Job> {
        match job {
            Job::Open(opening) if opening.reply.is_closed() => {
                self.queue.line_ended();
                None
            }
            Job::Synced(length, result) => {
                self.sync_ended(length, result);
                None
            }
            Job::Open(_) | Job::Close(_) | Job::Note(_) | Job::Aside(_) => Some(job),
        }
    }

    fn is_retry_due(&self) -> bool {
        self.needs_retry() && self.retry_at.is_none_or(|at| at <= Instant::now())
    }

    fn needs_retry(&self) -> bool {
        !self.held.is_empty() || !self.book.is_sound()
    }

    pub(super) fn wakes_at(&self) -> Option<Instant> {
        let retry = if self.needs_retry() { self.retry_at } else { None };
        [retry, self.sync_at, self.queue.next_window_end()].into_iter().flatten().min()
    }

    /// Whether the end is reached. A disk that stays full is waited for within limits.
    pub(super) fn finish(&mut self) -> bool {
        let stop_by = *self.stop_by.get_or_insert_with(|| Instant::now() + self.patience);
        self.queue.tell_repeats(true);
        if (self.needs_retry() || self.syncing.is_some()) && Instant::now() < stop_by {
            std::thread::sleep(STOP_PAUSE);
            self.retry_at = None;
            return false;
        }
        self.queue.shut()
    }

    /// The last lines, when no more can come.
    pub(super) fn end(mut self) -> bool {
        let why = "the gateway stopped before this ended";
        let closings = self.past.open.iter().map(|(of, caller)| (*of, unknown_body(*of, caller, why)));
        let last = closings.map(|(of, body)| Job::Close(Closing { of, body })).collect();
        self.write(last);
        let synced = self.book.sync();
        match &synced {
            Ok(()) => {
                let waited = std::mem::take(&mut self.undurable);
                self.release(waited);
            }
            Err(fault) => tracing::error!("the ledger was closed without being durable: {fault}"),
        }
        if !self.held.is_empty() {
            tracing::error!(lines = self.held.len(), "the ledger was closed with lines that could not be written");
        }
        let is_whole = synced.is_ok() && self.held.is_empty();
        if let Some(keeper) = self.keeper.as_ref().filter(|_| is_whole) {
            checkpoint::write_or_tell(keeper.path(), &self.past);
        }
        is_whole
    }
}

const BATCH: usize = 1024;
const SYNC_EVERY: Duration = Duration::from_millis(100);
const RETRY_EVERY: Duration = Duration::from_millis(250);
const STOP_PAUSE: Duration = Duration::from_millis(20);
/// More than this is made durable without waiting for the moment, so that it need not be kept in memory.
const UNSYNCED: usize = 8 * 1024 * 1024;
const ALARM: &str = "ledger-down";
