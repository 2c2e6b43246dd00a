//! The book: the chained lines on their paper. A line is there whole or not at all.

use std::io;
use std::time::{Duration, Instant};

use super::chain::{Receipt, hash_of, push_hex};
use super::fault::BookFault;
use super::paper::Paper;
use super::words::{Body, push_number};

/// File, length and chain. Only what [`Book::commit`] counted is in the file.
pub(super) struct Book<P> {
    paper: P,
    /// Bytes of whole lines in the file.
    length: u64,
    head: Receipt,
    staged: Staged,
    /// Ends a fragment that an earlier gateway left; goes out before the next line.
    ends_fragment: bool,
    /// A failed write left bytes beyond the length that could not be cut off yet.
    is_torn: bool,
    /// A failed sync: what the kernel holds of `unsynced` may never reach the disk.
    is_suspect: bool,
    /// The last lines, until they are durable.
    unsynced: Vec<u8>,
    looked: Instant,
}

/// Lines that are composed and not yet written.
#[derive(Default)]
struct Staged {
    bytes: Vec<u8>,
    /// Where each line ends in the bytes, and its receipt.
    ends: Vec<(usize, Receipt)>,
}

/// What a commit did: so many lines are in the file, and why not the rest.
pub(super) struct Committed {
    pub(super) lines: usize,
    pub(super) fault: Option<BookFault>,
}

impl<P: Paper> Book<P> {
    pub(super) fn new(paper: P, length: u64, head: Receipt, ends_fragment: bool) -> Self {
        Self {
            paper,
            length,
            head,
            staged: Staged::default(),
            ends_fragment,
            is_torn: false,
            is_suspect: false,
            unsynced: Vec::new(),
            looked: Instant::now(),
        }
    }

    pub(super) const fn head(&self) -> Receipt {
        self.head
    }

    pub(super) fn staged_head(&self) -> Receipt {
        self.staged.ends.last().map_or(self.head, |(_, receipt)| *receipt)
    }

    /// Whether something must be put right before the next line.
    pub(super) const fn is_sound(&self) -> bool {
        !self.is_torn && !self.is_suspect
    }

    pub(super) const fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// Chains a line to the ones before it.
    pub(super) fn stage(&mut self, body: &Body) -> Receipt {
        let before = self.staged_head();
        let sequence = before.sequence.saturating_add(1);
        if self.staged.ends.is_empty() && self.ends_fragment {
            self.staged.bytes.push(b'\n');
        }
        let start = self.staged.bytes.len();
        let bytes = &mut self.staged.bytes;
        bytes.reserve(body.bytes().len() + LONGEST_BEGINNING);
        bytes.extend_from_slice(b"{\"seq\":");
        push_number(bytes, sequence);
        bytes.extend_from_slice(b",\"prev\":\"");
        push_hex(bytes, &before.hash);
        bytes.extend_from_slice(b"\",");
        bytes.extend_from_slice(body.bytes());
        let receipt = Receipt { sequence, hash: hash_of(&self.staged.bytes[start..]) };
        self.staged.bytes.push(b'\n');
        self.staged.ends.push((self.staged.bytes.len(), receipt));
        receipt
    }

    /// Writes what is staged. What did not go in whole is cut back and forgotten.
    pub(super) fn commit(&mut self) -> Committed {
        let staged = std::mem::take(&mut self.staged);
        if staged.ends.is_empty() {
            return Committed { lines: 0, fault: None };
        }
        if let Err(fault) = self.put_right() {
            return Committed { lines: 0, fault: Some(fault) };
        }
        if self.unsynced.len() > BEHIND {
            return Committed { lines: 0, fault: Some(BookFault::Behind { bytes: self.unsynced.len() }) };
        }
        let (written, error) = self.write(&staged.bytes);
        let lines = staged.ends.partition_point(|(end, _)| *end <= written);
        if let Some((end, head)) = lines.checked_sub(1).map(|last| staged.ends[last]) {
            self.length += end as u64;
            self.head = head;
            self.ends_fragment = false;
            self.unsynced.extend_from_slice(&staged.bytes[..end]);
        }
        let fault = error.map(|error| self.cut_back(error));
        Committed { lines, fault }
    }

    /// Another thread made everything up to this length durable.
    pub(super) fn became_durable(&mut self, length: u64) {
        let start = self.length - self.unsynced.len() as u64;
        let durable = usize::try_from(length.saturating_sub(start)).unwrap_or(usize::MAX);
        self.unsynced.drain(..durable.min(self.unsynced.len()));
    }

    /// A sync failed: the kernel may have dropped what it held, and would not say so a second time.
    pub(super) const fn distrust(&mut self) {
        self.is_suspect = true;
    }

    /// Makes everything written durable, here and now.
    pub(super) fn sync(&mut self) -> Result<(), BookFault> {
        self.put_right()?;
        if let Err(error) = self.paper.sync() {
            self.is_suspect = true;
            return Err(BookFault::Sync(error));
        }
        self.unsynced.clear();
        Ok(())
    }

    pub(super) const fn paper(&mut self) -> &mut P {
        &mut self.paper
    }

    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// Cuts what is torn, writes again what may be lost, and sees that the file is the one we wrote.
    pub(super) fn put_right(&mut self) -> Result<(), BookFault> {
        if self.is_torn {
            self.paper.cut(self.length).map_err(BookFault::Cut)?;
            self.is_torn = false;
        }
        self.look()?;
        if self.is_suspect {
            let start = self.length - self.unsynced.len() as u64;
            self.paper.rewrite(&self.unsynced, start).map_err(BookFault::Sync)?;
            self.unsynced.clear();
            self.is_suspect = false;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), BookFault> {
        match self.paper.length().map_err(BookFault::Look)? {
            None => return Err(BookFault::Replaced),
            Some(found) if found != self.length => {
                return Err(BookFault::Changed { found, written: self.length });
            }
            Some(_) => {}
        }
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        if !self.paper.is_in_place().map_err(BookFault::Look)? {
            return Err(BookFault::Replaced);
        }
        self.looked = Instant::now();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> (usize, Option<io::Error>) {
        let mut written = 0;
        while written < bytes.len() {
            match self.paper.append(&bytes[written..]) {
                Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Some(error)),
            }
        }
        (written, None)
    }

    fn cut_back(&mut self, error: io::Error) -> BookFault {
        self.is_torn = true;
        if self.paper.cut(self.length).is_ok() {
            self.is_torn = false;
        }
        BookFault::Append(error)
    }
}

/// More than this is not kept in memory for the disk; lines are refused until it has caught up.
const BEHIND: usize = 64 * 1024 * 1024;
/// Of a line, with its number, the hash before it, and its line feed.
const LONGEST_BEGINNING: usize = 112;
const LOOK_EVERY: Duration = Duration::from_secs(1);
