//! Echo: a credential that was put into a request, found in what comes back, whatever common form it was given, and blotted
//! out before the box reads it.

mod framed;
mod written;

use std::fmt;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::{Bytes, BytesMut};
use zeroize::Zeroizing;

pub use framed::{Endless, FramedScan};

/// The forms of one credential that are looked for: as it is, as addresses, JSON and HTML write it ([`written`]), and within
/// Base64 of both alphabets (RFC 4648 §4, §5) wherever it stands in what was encoded.
pub struct Needles {
    forms: Vec<Zeroizing<Vec<u8>>>,
    /// Finds where one begins. By its first bytes alone: a whole one takes some kilobytes for each of its bytes.
    beginnings: AhoCorasick,
    /// Whether some form begins with this byte.
    begins: [bool; 256],
    longest: usize,
}

/// No search can be made of a credential: an answer to it could not be looked through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no search can be made of it")]
pub struct Unsearchable;

impl Needles {
    /// Nothing is found of a text shorter than [`SHORTEST`] bytes: it would be found everywhere.
    ///
    /// # Errors
    /// No search can be made of it: it must not be sent.
    pub fn of(secret: &str) -> Result<Self, Unsearchable> {
        Self::of_all([secret])
    }

    /// One search for several.
    ///
    /// # Errors
    /// As of one.
    pub fn of_all<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Result<Self, Unsearchable> {
        let mut forms: Vec<Zeroizing<Vec<u8>>> = Vec::new();
        for secret in secrets.into_iter().filter(|secret| secret.len() >= SHORTEST) {
            let mut add = |form: Vec<u8>| {
                let form = Zeroizing::new(form);
                if form.len() >= SHORTEST && !forms.contains(&form) {
                    forms.push(form);
                }
            };
            add(secret.as_bytes().to_vec());
            written::forms(secret).for_each(&mut add);
            for before in 0..3 {
                add(within_base64(&STANDARD_NO_PAD, before, secret));
                add(within_base64(&URL_SAFE_NO_PAD, before, secret));
            }
        }
        let beginnings = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .match_kind(MatchKind::LeftmostFirst)
            .build(forms.iter().map(|form| &form[..form.len().min(BEGINNING)]))
            .map_err(|_| Unsearchable)?;
        let mut begins = [false; 256];
        for form in &forms {
            begins[usize::from(form[0])] = true;
        }
        let longest = forms.iter().map(|form| form.len()).max().unwrap_or_default();
        Ok(Self { forms, beginnings, begins, longest })
    }

    /// Whether it is in there.
    #[must_use]
    pub fn are_in(&self, bytes: &[u8]) -> bool {
        self.first(bytes, 0).is_some()
    }

    /// Whether it is in there with all letters small, as names of header fields are kept.
    #[must_use]
    pub fn are_in_folded(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|form| bytes.windows(form.len()).any(|piece| piece.eq_ignore_ascii_case(form)))
    }

    /// Writes [`BLOT`] over each, and tells how many there were. The length stays.
    pub fn blot(&self, bytes: &mut [u8]) -> u64 {
        let mut found = 0;
        let mut from = 0;
        while let Some(hit) = self.first(bytes, from) {
            bytes[hit.clone()].fill(BLOT);
            (found, from) = (found + 1, hit.end);
        }
        found
    }

    /// The first from there on; of several that begin at one place the longest.
    fn first(&self, bytes: &[u8], mut from: usize) -> Option<Range<usize>> {
        loop {
            let at = self.beginnings.find(Input::new(bytes).range(from..))?.start();
            let whole = self.forms.iter().filter(|form| bytes[at..].starts_with(form));
            if let Some(length) = whole.map(|form| form.len()).max() {
                return Some(at..at + length);
            }
            from = at + 1;
        }
    }

    /// How many bytes at the end could be the beginning of one.
    #[must_use]
    pub fn begun(&self, bytes: &[u8]) -> usize {
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
/// So many bytes of a form are looked for first: few texts have them by chance.
const BEGINNING: usize = 16;
const BLOT: u8 = b'*';

#[cfg(test)]
mod tests;
