//! Recovery: what an earlier gateway left is found at the start, kept, and told in lines of its own.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::path::Path;

use super::book::Book;
use super::chain::Receipt;
use super::checkpoint::{self, Kept};
use super::entry::{Caller, Entry};
use super::fault::LedgerError;
use super::kind::Kind;
use super::line::unknown_body;
use super::paper::Sheet;
use super::past::Past;
use super::queue::{Closing, Job};
use super::verify::{Tail, Verified, go_on};

/// The book, ready to go on, and the lines it begins with.
pub(super) struct Recovered {
    pub(super) book: Book<Sheet>,
    /// What the book holds.
    pub(super) past: Past,
    /// What was taken from a checkpoint and not read.
    pub(super) skipped: Option<Past>,
    pub(super) jobs: Vec<Job>,
}

/// Reads what stands behind the checkpoint, or the whole file. Nothing in it is changed: a torn tail gets a line feed in
/// front of the next line.
pub(super) fn recover(sheet: Sheet, path: &Path) -> Result<Recovered, LedgerError> {
    let at = |source| LedgerError::Read { path: path.to_owned(), source };
    let mut file = sheet.reader().map_err(at)?;
    let kept = checkpoint::read(path, &file).map_err(at)?;
    let mut jobs = Vec::new();
    let skipped = usable(kept, &file, &mut jobs);
    let before = skipped.clone().unwrap_or(Past::NONE);
    file.seek(SeekFrom::Start(before.length)).map_err(at)?;
    let found = go_on(BufReader::with_capacity(BUFFER, &file), before, &[]).map_err(at)?;
    let length = file.stream_position().map_err(at)?;
    let is_empty = skipped.is_none() && found.lines == 0;
    if is_empty && found.tail.as_ref().is_some_and(|tail| !may_be_torn_first_line(tail)) {
        return Err(LedgerError::NotALedger { path: path.to_owned() });
    }
    let ends_fragment = found.tail.as_ref().is_some_and(|tail| !tail.ends_in_line_feed);
    tell(&found, &mut jobs);
    let past = Past { length, lines: found.read, ..found.past };
    Ok(Recovered { book: Book::new(sheet, length, past.head, ends_fragment), past, skipped, jobs })
}

/// The past that need not be read now. A ledger that lost what its checkpoint was written at was cut or replaced.
fn usable(kept: Kept, file: &File, jobs: &mut Vec<Job>) -> Option<Past> {
    match kept {
        Kept::Fits(past) => Some(past),
        Kept::Nothing => None,
        Kept::Useless(why) => {
            tracing::warn!("the whole ledger is read, since its checkpoint cannot be used: {why}");
            None
        }
        Kept::Differs(receipt) => {
            let length = file.metadata().map(|data| data.len()).unwrap_or_default();
            let inside = format!(
                "the ledger does not hold line {} that its checkpoint was written at: its tail was cut off, or the file was replaced",
                receipt.sequence
            );
            jobs.push(alarm(&inside, Some((receipt, length))));
            None
        }
    }
}

fn tell(found: &Verified, jobs: &mut Vec<Job>) {
    if let Some(tail) = &found.tail {
        // In front of all others, since it vouches for what stands right before it.
        jobs.insert(0, Job::Aside(fragment(tail).body()));
    }
    let damage = found.findings.iter().find(|finding| finding.what.is_damage() && !finding.what.is_torn_tail());
    if let Some(finding) = damage {
        jobs.push(alarm(&finding.to_string(), None));
    }
    let unknown = "the gateway ended before this did; what became of it is not known";
    let closing = |(of, caller): (&u64, &Caller)| Closing { of: *of, body: unknown_body(*of, caller, unknown) };
    jobs.extend(found.past.open.iter().map(closing).map(Job::Close));
}

fn alarm(inside: &str, lost: Option<(Receipt, u64)>) -> Job {
    tracing::error!(alarm = DAMAGED, "{inside}");
    let entry = Entry::new(Kind::Alarm).into_alarm(DAMAGED).inside(inside);
    let entry = match lost {
        Some((receipt, length)) => entry.fact("receipt", receipt.to_string()).fact("length", length),
        None => entry,
    };
    Job::Aside(entry.body())
}

fn fragment(tail: &Tail) -> Entry {
    Entry::new(Kind::Recovered)
        .inside("the ledger ended in a torn line; it is kept as it was")
        .fact("fragment_bytes", tail.length)
        .fact("fragment_sha256", tail.sha256.clone())
}

const fn may_be_torn_first_line(tail: &Tail) -> bool {
    !tail.ends_in_line_feed && tail.length < FIRST_LINE
}

/// The alarm of a ledger that is not what a gateway wrote.
pub(super) const DAMAGED: &str = "ledger-damaged";
/// How much is read at once.
pub(super) const BUFFER: usize = 256 * 1024;
const FIRST_LINE: u64 = 64 * 1024;
