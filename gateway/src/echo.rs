//! Echo: a credential that was put into a request, found in what comes back, whatever common form it was given, and blotted
//! out before the box reads it.

mod framed;

use std::fmt;

use aho_corasick::{AhoCorasick, Anchored, Input, MatchKind, StartKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::{Bytes, BytesMut};
use zeroize::Zeroizing;

pub use framed::FramedScan;

/// The forms of one credential that are looked for: as it is, percent-encoded (RFC 3986 §2.1), as a JSON string writes it
/// (RFC 8259 §7), and within Base64 of both alphabets (RFC 4648 §4, §5) wherever it stands in what was encoded.
pub struct Needles {
    forms: Vec<Zeroizing<Vec<u8>>>,
    searcher: AhoCorasick,
    /// Whether some form begins with this byte.
    begins: [bool; 256],
    longest: usize,
}

impl Needles {
    /// `None` where there is nothing to look for: a text shorter than [`SHORTEST`] bytes would be found everywhere.
    #[must_use]
    pub fn of(secret: &str) -> Option<Self> {
        if secret.len() < SHORTEST {
            return None;
        }
        let mut forms: Vec<Zeroizing<Vec<u8>>> = Vec::new();
        let mut add = |form: Vec<u8>| {
            let form = Zeroizing::new(form);
            if form.len() >= SHORTEST && !forms.contains(&form) {
                forms.push(form);
            }
        };
        add(secret.as_bytes().to_vec());
        add(percent_encoded(secret, b"0123456789ABCDEF"));
        add(percent_encoded(secret, b"0123456789abcdef"));
        for slashed in [false, true] {
            add(json_escaped(secret, slashed));
        }
        for before in 0..3 {
            add(within_base64(&STANDARD_NO_PAD, before, secret));
            add(within_base64(&URL_SAFE_NO_PAD, before, secret));
        }
        let searcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .start_kind(StartKind::Unanchored)
            .build(forms.iter().map(|form| form.as_slice()))
            .ok()?;
        let mut begins = [false; 256];
        for form in &forms {
            begins[usize::from(form[0])] = true;
        }
        let longest = forms.iter().map(|form| form.len()).max().unwrap_or_default();
        Some(Self { forms, searcher, begins, longest })
    }

    /// Whether it is in there.
    #[must_use]
    pub fn are_in(&self, bytes: &[u8]) -> bool {
        self.searcher.is_match(bytes)
    }

    /// Writes [`BLOT`] over each, and tells how many there were. The length stays.
    pub fn blot(&self, bytes: &mut [u8]) -> u64 {
        let mut found = 0;
        let mut from = 0;
        while let Some(hit) = self.searcher.find(Input::new(&*bytes).range(from..).anchored(Anchored::No)) {
            bytes[hit.range()].fill(BLOT);
            (found, from) = (found + 1, hit.end());
        }
        found
    }

    /// How many bytes at the end could be the beginning of one.
    fn begun(&self, bytes: &[u8]) -> usize {
        let tail = bytes.len().saturating_sub(self.longest.saturating_sub(1));
        let begun = |at: &usize| {
            let rest = &bytes[*at..];
            self.begins[usize::from(rest[0])]
                && self.forms.iter().any(|form| form.len() > rest.len() && form.starts_with(rest))
        };
        (tail..bytes.len()).find(begun).map_or(0, |at| bytes.len() - at)
    }
}

impl fmt::Debug for Needles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Needles").field("forms", &self.forms.len()).finish_non_exhaustive()
    }
}

/// A search through one stream, in which a needle may be cut anywhere. What could be the beginning of one is held until the
/// next bytes tell, and nothing else is: all the rest goes on as it came.
#[derive(Debug, Default)]
pub struct Scan {
    held: BytesMut,
    found: u64,
}

impl Scan {
    /// The bytes that may go on now.
    pub fn pass(&mut self, needles: &Needles, piece: Bytes) -> Bytes {
        let mut piece = if self.held.is_empty() {
            piece
        } else {
            self.held.extend_from_slice(&piece);
            self.held.split().freeze()
        };
        if needles.are_in(&piece) {
            let mut own = piece.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
            self.found += needles.blot(&mut own);
            piece = own.freeze();
        }
        let begun = needles.begun(&piece);
        let held = piece.split_off(piece.len() - begun);
        self.held.extend_from_slice(&held);
        piece
    }

    /// What was held when the stream ended: the beginning of a needle that did not come.
    #[must_use]
    pub fn rest(&mut self) -> Bytes {
        self.held.split().freeze()
    }

    #[must_use]
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// How many were blotted out.
    #[must_use]
    pub const fn found(&self) -> u64 {
        self.found
    }
}

fn percent_encoded(text: &str, digits: &[u8; 16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend([b'%', digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]);
        }
    }
    out
}

/// Some writers escape the slash too.
fn json_escaped(text: &str, slashed: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if matches!(byte, b'"' | b'\\') || (slashed && byte == b'/') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

/// The characters that depend on the text alone, where `before` bytes (modulo 3) stand before it.
fn within_base64(engine: &impl Engine, before: usize, text: &str) -> Vec<u8> {
    let bytes = Zeroizing::new([&[0; 2][..before], text.as_bytes()].concat());
    let encoded = Zeroizing::new(engine.encode(&*bytes));
    let first = (before * 8).div_ceil(6);
    let whole = bytes.len() * 8 / 6;
    encoded.as_bytes()[first..whole].to_vec()
}

/// Shorter needles are found by chance.
pub const SHORTEST: usize = 8;
const BLOT: u8 = b'*';

#[cfg(test)]
mod tests;
