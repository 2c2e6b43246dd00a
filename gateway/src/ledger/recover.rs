//! Recovery: what an earlier gateway left is found at the start, kept, and told in lines of its own.

use std::io::{BufReader, Seek};
use std::path::Path;

use super::book::Book;
use super::entry::Entry;
use super::fault::LedgerError;
use super::kind::Kind;
use super::line::unknown_body;
use super::paper::Sheet;
use super::verify::{Tail, Verified, verify};
use super::words::Body;

/// The book, ready to go on, and the lines it begins with.
pub(super) struct Recovered {
    pub(super) book: Book<Sheet>,
    pub(super) bodies: Vec<Body>,
}

/// Reads the whole file once. Nothing in it is changed: a torn tail gets a line feed in front of the next line.
pub(super) fn recover(sheet: Sheet, path: &Path) -> Result<Recovered, LedgerError> {
    let at = |source| LedgerError::Read { path: path.to_owned(), source };
    let mut file = sheet.reader().map_err(at)?;
    let found = verify(BufReader::with_capacity(BUFFER, &file), &[]).map_err(at)?;
    let length = file.stream_position().map_err(at)?;
    if found.lines == 0 && found.tail.as_ref().is_some_and(|tail| !may_be_torn_first_line(tail)) {
        return Err(LedgerError::NotALedger { path: path.to_owned() });
    }
    let ends_fragment = found.tail.as_ref().is_some_and(|tail| !tail.ends_in_line_feed);
    let bodies = told(&found);
    Ok(Recovered { book: Book::new(sheet, length, found.head, ends_fragment), bodies })
}

fn told(found: &Verified) -> Vec<Body> {
    let mut bodies = Vec::new();
    if let Some(tail) = &found.tail {
        bodies.push(fragment(tail).body());
    }
    let damage = found.findings.iter().find(|finding| finding.what.is_damage() && !finding.what.is_torn_tail());
    if let Some(finding) = damage {
        tracing::error!(alarm = ALARM, "{finding}");
        bodies.push(Entry::new(Kind::Alarm).into_alarm(ALARM).inside(&finding.to_string()).body());
    }
    let unknown = "the gateway ended before this did; what became of it is not known";
    bodies.extend(found.open.iter().map(|(of, caller)| unknown_body(*of, caller, unknown)));
    bodies
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

const ALARM: &str = "ledger-damaged";
const BUFFER: usize = 256 * 1024;
const FIRST_LINE: u64 = 64 * 1024;
