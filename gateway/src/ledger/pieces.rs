//! Pieces: a file read line by line, where a line that is too long comes in several and none is held longer than a limit.

use std::io::{self, BufRead};

/// A line, or a part of one that is too long to be a ledger's.
pub(super) struct Piece<'a> {
    /// Counted from 1.
    pub(super) line: u64,
    /// Without the line feed.
    pub(super) bytes: &'a [u8],
    pub(super) ends_in_line_feed: bool,
    /// The bytes are the line, all of it, with its line feed.
    pub(super) is_whole: bool,
}

pub(super) struct Pieces<R> {
    reader: R,
    buffer: Vec<u8>,
    line: u64,
    is_inside: bool,
}

impl<R: BufRead> Pieces<R> {
    pub(super) const fn new(reader: R) -> Self {
        Self::after(reader, 0)
    }

    /// Of a file that has so many lines before what the reader yields.
    pub(super) const fn after(reader: R, lines: u64) -> Self {
        Self { reader, buffer: Vec::new(), line: lines, is_inside: false }
    }

    pub(super) fn next_piece(&mut self) -> io::Result<Option<Piece<'_>>> {
        self.buffer.clear();
        let is_start = !self.is_inside;
        while self.buffer.len() < LIMIT && self.buffer.last() != Some(&b'\n') {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                break;
            }
            let room = available.len().min(LIMIT - self.buffer.len());
            let part = available[..room].split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
            self.buffer.extend_from_slice(part);
            let taken = part.len();
            self.reader.consume(taken);
        }
        if self.buffer.is_empty() {
            return Ok(None);
        }
        self.line += u64::from(is_start);
        let ends_in_line_feed = self.buffer.last() == Some(&b'\n');
        self.is_inside = !ends_in_line_feed;
        let bytes = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        Ok(Some(Piece { line: self.line, bytes, ends_in_line_feed, is_whole: is_start && ends_in_line_feed }))
    }
}

/// What is longer is no line.
pub(super) const LIMIT: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::{LIMIT, Pieces};

    #[test]
    fn a_line_without_end_is_read_in_pieces_of_one_line() {
        let mut text = vec![b'x'; LIMIT + 10];
        text.extend_from_slice(b"\nshort\ntorn");
        let mut pieces = Pieces::new(BufReader::new(&text[..]));
        let mut seen = Vec::new();
        while let Some(piece) = pieces.next_piece().expect("memory reads") {
            seen.push((piece.line, piece.bytes.len(), piece.ends_in_line_feed, piece.is_whole));
        }
        assert_eq!(seen, [(1, LIMIT, false, false), (1, 10, true, false), (2, 5, true, true), (3, 4, false, false)]);
    }
}
