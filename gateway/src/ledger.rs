//! The ledger: append-only JSON Lines with a hash chain. What was not written down cannot be used.
//!
//! A step of the journey hands in a [`Verdict`]; [`Ledger::enter`] gives its value back only once its line is written.
//! One writer owns file, chain and lock. `docs/ledger.md` holds the format and what happens when the disk does not take it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use box_spec::RunId;
use tokio::sync::oneshot;

use crate::host::Target;
use crate::refusal::{Reason, Refusal, Told};

use self::checkpoint::Keeper;
use self::count::Counts;
use self::health::Health;
use self::paper::Sheet;
use self::past::Tallies;
use self::queue::{Note, Opening, Queue};
use self::recover::{Recovered, recover};
use self::verdict::Ruled;
use self::writer::Writer;

mod settings;
mod entry;
mod request;
mod kind;
mod shown;
mod words;
mod verdict;
mod line;
mod windows;
mod queue;
mod writer;
mod turns;
mod syncer;
mod book;
mod paper;
mod chain;
mod past;
mod checkpoint;
mod recover;
mod history;
mod health;
mod fault;
mod pieces;
pub mod count;
pub mod verify;
mod finding;
pub mod story;
pub mod tail;
pub mod lines;

pub use chain::{Receipt, ReceiptFault};
pub use entry::Entry;
pub use fault::LedgerError;
pub use health::LedgerHealth;
pub use history::History;
pub use kind::{Kind, Ruling};
pub use line::{Ended, Line, Outcome};
pub use settings::{Settings, SyncMode};
pub use verdict::Verdict;

/// A handle to the one ledger of the house; clones share it.
#[derive(Clone)]
pub struct Ledger(Arc<Handle>);

struct Handle {
    queue: Arc<Queue>,
    deadline: Duration,
    /// Changes when the writer has gone; whether it left nothing unwritten.
    gone: tokio::sync::watch::Receiver<bool>,
    /// What the ledger held of each box's last run when it was opened.
    left: Tallies,
}

impl Ledger {
    /// Locks the file, finds what an earlier gateway left in it, and starts the writer.
    ///
    /// # Errors
    /// When the file cannot be opened or read, is no ledger, or another gateway holds it.
    pub fn open(settings: &Settings) -> Result<Self, LedgerError> {
        let Settings { file, sync, deadline } = settings;
        let Recovered { book, past, skipped, jobs } = recover(Sheet::open(file)?, file)?;
        let left = past.tallies.clone();
        let queue = Arc::new(Queue::new(book.head(), past.open.len()));
        let mut writer = Writer::new(Arc::clone(&queue), book, past, *sync, *deadline).map_err(LedgerError::Start)?;
        writer.begin_with(jobs);
        writer.keep_with(Keeper::new(file, skipped.as_ref().map_or(0, |skipped| skipped.length)));
        let ledger = Self::start(queue, writer, *deadline, left)?;
        if let Some(skipped) = skipped {
            let again = std::fs::File::open(file).map_err(|source| LedgerError::Read { path: file.clone(), source })?;
            history::read_back(&ledger, again, skipped).map_err(LedgerError::Start)?;
        }
        Ok(ledger)
    }

    /// What a run had sent and been refused when the ledger was opened; nothing where its claim is not in it.
    #[must_use]
    pub fn left(&self, run: &RunId) -> Option<Counts> {
        self.0.left.of(run)
    }

    /// Opens the verdict: its value and an open line once that line is written, else the refusal.
    ///
    /// # Errors
    /// The verdict's own refusal; or an outage, if the line could not be written in time. The value is gone then.
    pub async fn enter<T>(&self, verdict: Verdict<T>) -> Result<(T, Line), Told> {
        match verdict.open() {
            Ruled::Refused { told, entry } => {
                self.refused(entry);
                Err(told)
            }
            Ruled::Allowed { value, entry } => match self.open_line(&entry).await {
                Ok(line) => Ok((value, line)),
                Err(fault) => Err(self.is_down(entry, &fault)),
            },
        }
    }

    /// One complete line, durable before this returns.
    ///
    /// # Errors
    /// When it is not durable within the deadline; it may become so later, and nobody may act on it.
    pub async fn note(&self, entry: Entry) -> Result<Receipt, LedgerError> {
        self.send_note(Some(entry.body())).await
    }

    /// A refusal outside of a verdict. Never waits; those alike are counted and told in one line.
    pub fn refused(&self, entry: Entry) {
        Health::count(&self.0.queue.health.refusals);
        self.0.queue.aside(entry.into_refused());
    }

    /// Something that should not happen, with its code word: a line, an error in the log, a count in the status.
    pub fn alarm(&self, code: &'static str, entry: Entry) {
        Health::count(&self.0.queue.health.alarms);
        let entry = entry.into_alarm(code);
        let inside = entry.inside_sentence().to_owned();
        let caller = entry.caller().clone();
        if self.0.queue.aside(entry) {
            let box_id = caller.box_id.as_ref().map(box_spec::BoxId::as_str);
            let run_id = caller.run_id.as_ref().map(RunId::as_str);
            tracing::error!(alarm = code, r#box = box_id, run = run_id, "{inside}");
        }
    }

    /// The last line written.
    #[must_use]
    pub fn head(&self) -> Receipt {
        self.0.queue.health.head()
    }

    #[must_use]
    pub fn health(&self) -> LedgerHealth {
        self.0.queue.snapshot()
    }

    /// Returns when everything handed in before is durable.
    ///
    /// # Errors
    /// When that is not so within the deadline.
    pub async fn flush(&self) -> Result<Receipt, LedgerError> {
        self.send_note(None).await
    }

    /// Writes what is left, closes the lines still open as unknown, and gives up the file.
    ///
    /// # Errors
    /// When the disk does not take it in time.
    pub async fn close(self) -> Result<(), LedgerError> {
        self.0.queue.stop();
        let mut gone = self.0.gone.clone();
        // The writer's own patience is one deadline; what it then still does is one write.
        match tokio::time::timeout(self.0.deadline * 2, gone.changed()).await {
            Ok(Ok(())) if *gone.borrow() => Ok(()),
            Ok(_) => Err(LedgerError::Lost),
            Err(_) => Err(LedgerError::Late),
        }
    }
}

impl Ledger {
    fn start<P: paper::Paper>(
        queue: Arc<Queue>,
        writer: Writer<P>,
        deadline: Duration,
        left: Tallies,
    ) -> Result<Self, LedgerError> {
        let gone = turns::start(Arc::clone(&queue), writer).map_err(LedgerError::Start)?;
        Ok(Self(Arc::new(Handle { queue, deadline, gone, left })))
    }

    async fn open_line(&self, entry: &Entry) -> Result<Line, LedgerError> {
        let (reply, answer) = oneshot::channel();
        let caller = entry.caller().clone();
        let opening = Opening { body: entry.open_body(), caller, asked: Instant::now(), reply };
        self.0.queue.open_line(opening)?;
        match tokio::time::timeout(self.0.deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(LedgerError::Closed),
            Err(_) => Err(self.is_late()),
        }
    }

    async fn send_note(&self, body: Option<words::Body>) -> Result<Receipt, LedgerError> {
        let (reply, answer) = oneshot::channel();
        self.0.queue.note(Note { body, reply })?;
        match tokio::time::timeout(self.0.deadline, answer).await {
            Ok(Ok(receipt)) => Ok(receipt),
            Ok(Err(_)) => Err(LedgerError::Closed),
            Err(_) => Err(self.is_late()),
        }
    }

    fn is_late(&self) -> LedgerError {
        if self.0.queue.health.is_late() {
            tracing::error!("the ledger did not take a line within the deadline");
        }
        LedgerError::Late
    }

    fn is_down(&self, entry: Entry, fault: &LedgerError) -> Told {
        let target: Option<Target> = entry.target_asked().cloned();
        let outside = "the request was not sent, because the house could not write it down";
        let refusal = Refusal::new(Reason::LedgerDown, outside, fault.to_string());
        self.refused(entry.refusal(&refusal));
        Told::new(target, refusal)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queue.stop();
    }
}

#[cfg(test)]
mod tests;
