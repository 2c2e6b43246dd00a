//! The verifier: reads a ledger from its first byte and tells what was done to it. Pure, streaming, flat in memory.

use std::borrow::Cow;
use std::io::{self, BufRead};

use box_spec::{BoxId, RunId};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::refusal::Reason;

use super::chain::{Receipt, hash_of, hex, unhex};
use super::entry::Caller;
pub use super::finding::{Finding, What};
use super::past::{Past, Weight};
use super::pieces::{Piece, Pieces};

/// What a ledger holds.
#[derive(Debug)]
pub struct Verified {
    /// Lines that read as such.
    pub lines: u64,
    /// The last of them.
    pub head: Receipt,
    /// In the order of the file; those about receipts last. At most a thousand.
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub more: u64,
    /// Up to the last good line.
    pub(super) past: Past,
    /// Lines of the file, good or not, those before the reader included.
    pub(super) read: u64,
    pub(super) tail: Option<Tail>,
}

/// What stands behind the last good line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tail {
    pub(super) length: u64,
    pub(super) sha256: String,
    pub(super) ends_in_line_feed: bool,
}

/// Reads everything there is. Each receipt was given out by the gateway and kept outside of the ledger.
///
/// # Errors
/// When the reader fails; what it yields is never an error.
pub fn verify(reader: impl BufRead, receipts: &[Receipt]) -> io::Result<Verified> {
    go_on(reader, Past::NONE, receipts)
}

/// The same from behind this past, whose lines the reader does not yield again.
pub(super) fn go_on(reader: impl BufRead, past: Past, receipts: &[Receipt]) -> io::Result<Verified> {
    let mut pieces = Pieces::after(reader, past.lines);
    let mut walk = Walk::new(past, receipts);
    while let Some(piece) = pieces.next_piece()? {
        walk.step(&piece);
    }
    Ok(walk.finish())
}

impl Verified {
    /// Whether something was done to the ledger that a crash cannot explain, or that a start has not yet put right.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.findings.iter().any(|finding| finding.what.is_damage())
    }
}

struct Walk<'a> {
    receipts: &'a [Receipt],
    met: Vec<Option<[u8; 32]>>,
    at: u64,
    /// Bytes read, those of the past included.
    position: u64,
    lines: u64,
    past: Past,
    is_intact: bool,
    region: Option<Region>,
    findings: Vec<Finding>,
    more: u64,
}

/// Bytes that are no line, up to the next good one. Its last line feed does not count.
struct Region {
    line: u64,
    length: u64,
    hash: Sha256,
    ends_in_line_feed: bool,
}

/// What the verifier needs of a line.
#[derive(Deserialize)]
struct Mark<'a> {
    seq: u64,
    #[serde(borrow)]
    prev: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    open: bool,
    of: Option<u64>,
    reason: Option<String>,
    count: Option<u64>,
    #[serde(rename = "box")]
    box_id: Option<BoxId>,
    run: Option<RunId>,
    facts: Option<Facts>,
}

#[derive(Deserialize)]
struct Facts {
    fragment_bytes: Option<u64>,
    fragment_sha256: Option<String>,
}

impl<'a> Walk<'a> {
    fn new(past: Past, receipts: &'a [Receipt]) -> Self {
        Self {
            receipts,
            met: vec![None; receipts.len()],
            at: past.lines,
            position: past.length,
            lines: 0,
            past,
            is_intact: true,
            region: None,
            findings: Vec::new(),
            more: 0,
        }
    }

    fn step(&mut self, piece: &Piece<'_>) {
        self.at = piece.line;
        self.position += piece.bytes.len() as u64 + u64::from(piece.ends_in_line_feed);
        let mark = piece.is_whole.then(|| serde_json::from_slice::<Mark<'_>>(piece.bytes).ok()).flatten();
        match mark.and_then(|mark| unhex(&mark.prev).map(|prev| (mark, prev))) {
            Some((mark, prev)) => self.line(mark, prev, piece.bytes),
            None => self.not_a_line(piece),
        }
    }

    fn line(&mut self, mark: Mark<'_>, prev: [u8; 32], bytes: &[u8]) {
        self.end_region(&mark);
        self.link(mark.seq, prev);
        self.lines += 1;
        let head = Receipt { sequence: mark.seq, hash: hash_of(bytes) };
        for (receipt, met) in self.receipts.iter().zip(&mut self.met) {
            if receipt.sequence == mark.seq {
                *met = Some(head.hash);
            }
        }
        (self.past.head, self.past.length, self.past.lines) = (head, self.position, self.at);
        let weight = Weight::of(&mark.kind, mark.reason.as_deref().and_then(Reason::of_code), mark.count);
        let caller = Caller { box_id: mark.box_id, run_id: mark.run };
        self.past.tallies.add(&caller, weight);
        if mark.open && self.past.open.len() < OPEN_LINES {
            self.past.open.insert(mark.seq, caller);
        }
        if let Some(of) = mark.of {
            self.past.open.remove(&of);
        }
    }

    /// Compares the line with what the one before it calls for.
    fn link(&mut self, sequence: u64, prev: [u8; 32]) {
        let before = self.past.head;
        let next = before.sequence.saturating_add(1);
        if sequence < next {
            self.broken(sequence, What::OutOfOrder { after: before.sequence });
        } else if sequence > next {
            self.broken(sequence, What::Removed { first: next, last: sequence - 1 });
        } else if prev != before.hash {
            self.broken(sequence, What::BrokenLink { before: before.sequence });
        }
    }

    fn not_a_line(&mut self, piece: &Piece<'_>) {
        let line = self.at;
        let region = self.region.get_or_insert_with(|| Region {
            line,
            length: 0,
            hash: Sha256::new(),
            ends_in_line_feed: false,
        });
        if region.ends_in_line_feed {
            region.add(b"\n");
        }
        region.add(piece.bytes);
        region.ends_in_line_feed = piece.ends_in_line_feed;
    }

    /// A good line follows: does it vouch for what stands before it?
    fn end_region(&mut self, mark: &Mark<'_>) {
        let Some(region) = self.region.take() else {
            return;
        };
        let tail = region.finish();
        let vouched = mark.kind == "recovered"
            && mark.facts.as_ref().is_some_and(|facts| {
                facts.fragment_bytes == Some(tail.1.length) && facts.fragment_sha256.as_deref() == Some(&tail.1.sha256)
            });
        let bytes = tail.1.length;
        let what = if vouched { What::Fragment { bytes } } else { What::NotALine { bytes } };
        self.find(Finding { line: tail.0, sequence: None, what });
    }

    fn broken(&mut self, sequence: u64, what: What) {
        self.is_intact = false;
        self.find(Finding { line: self.at, sequence: Some(sequence), what });
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }

    fn finish(mut self) -> Verified {
        let tail = self.region.take().map(Region::finish).map(|(line, tail)| {
            self.find(Finding { line, sequence: None, what: What::TornTail { bytes: tail.length } });
            tail
        });
        let unclosed: Vec<_> = self.past.open.keys().copied().collect();
        for sequence in unclosed {
            self.find(Finding { line: 0, sequence: Some(sequence), what: What::NeverClosed });
        }
        for at in 0..self.receipts.len() {
            self.weigh(self.receipts[at], self.met[at]);
        }
        let Self { lines, past, findings, more, at, .. } = self;
        Verified { lines, head: past.head, findings, more, past, read: at, tail }
    }

    fn weigh(&mut self, receipt: Receipt, met: Option<[u8; 32]>) {
        let what = match met {
            Some(hash) if hash == receipt.hash => return,
            None if receipt == Receipt::NONE => return,
            Some(_) if self.is_intact => What::Recomputed,
            Some(_) => What::NotVouched,
            None if receipt.sequence > self.past.head.sequence => What::CutTail { last: self.past.head.sequence },
            None => What::Missing,
        };
        self.find(Finding { line: 0, sequence: Some(receipt.sequence), what });
    }
}

impl Region {
    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.hash.update(bytes);
    }

    fn finish(self) -> (u64, Tail) {
        let Self { line, length, hash, ends_in_line_feed } = self;
        (line, Tail { length, sha256: hex(&hash.finalize()), ends_in_line_feed })
    }
}

const FINDINGS: usize = 1000;
const OPEN_LINES: usize = 1 << 20;
