//! History: what a start took from the checkpoint is read afterwards, slowly, and held against it.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::entry::Entry;
use super::kind::Kind;
use super::past::Past;
use super::recover::{BUFFER, DAMAGED};
use super::verify::{Verified, verify};
use super::{Handle, Ledger};

/// How much of the ledger's past was read since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum History {
    /// All of it.
    #[default]
    Read,
    /// The rest is being read.
    Reading,
    /// It is not what a gateway wrote: there was an alarm.
    Damaged,
    /// It could not be read; the log says why.
    Unread,
}

impl History {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Reading => "reading",
            Self::Damaged => "damaged",
            Self::Unread => "unread",
        }
    }
}

/// Reads the part of the file that was skipped, in a thread of its own that ends with the ledger.
pub(super) fn read_back(ledger: &Ledger, file: File, skipped: Past) -> io::Result<()> {
    let handle = Arc::downgrade(&ledger.0);
    ledger.0.queue.health.set_history(History::Reading);
    let run = move || {
        thread::sleep(PAUSE);
        let slow = Slow { file: file.take(skipped.length), ledger: Weak::clone(&handle), worked: Instant::now() };
        let read = verify(BufReader::with_capacity(BUFFER, slow), &[]);
        if let Some(handle) = handle.upgrade() {
            end(&Ledger(handle), read, &skipped);
        }
    };
    thread::Builder::new().name("ledger-history".to_owned()).spawn(run).map(drop)
}

fn end(ledger: &Ledger, read: io::Result<Verified>, skipped: &Past) {
    let health = &ledger.0.queue.health;
    let found = match read {
        Ok(found) => found,
        Err(error) => {
            health.set_history(History::Unread);
            tracing::error!(%error, "read what the ledger's checkpoint skipped");
            return;
        }
    };
    let damage = found.findings.iter().find(|finding| finding.what.is_damage());
    let inside = match damage {
        Some(finding) => finding.to_string(),
        None if found.past != *skipped => {
            "the ledger up to the line of its checkpoint is not what the checkpoint said: one of the two was changed"
                .to_owned()
        }
        None => {
            health.set_history(History::Read);
            tracing::info!(lines = found.lines, "the ledger was read back, and is whole");
            return;
        }
    };
    health.set_history(History::Damaged);
    ledger.alarm(DAMAGED, Entry::new(Kind::Alarm).inside(&inside));
}

/// A reader that rests four times as long as is worked between its reads, so that requests hardly notice it.
struct Slow {
    file: io::Take<File>,
    ledger: Weak<Handle>,
    worked: Instant,
}

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ledger.strong_count() == 0 {
            return Err(io::ErrorKind::Other.into());
        }
        thread::sleep((self.worked.elapsed() * REST).min(LONGEST));
        self.worked = Instant::now();
        self.file.read(buffer)
    }
}

/// The first requests after a start come first.
const PAUSE: Duration = Duration::from_secs(1);
const REST: u32 = 4;
const LONGEST: Duration = Duration::from_millis(100);
