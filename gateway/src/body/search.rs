//! Search: what no body may carry, found wherever pieces cut it: a real secret of the house, and the mark of a stand-in.

use std::sync::{Arc, LazyLock};

use box_spec::wire::SENTINEL_MARK;

use crate::echo::{Needles, Unsearchable};

/// Something that was found in what a box sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    Secret,
    Sentinel,
}

/// A search through one body.
#[derive(Debug)]
pub struct Search {
    secrets: Arc<Needles>,
    /// The end of what came, where it may be the beginning of something.
    begun: Vec<u8>,
}

impl Search {
    #[must_use]
    pub const fn new(secrets: Arc<Needles>) -> Self {
        Self { secrets, begun: Vec::new() }
    }

    /// Searches on.
    pub fn pass(&mut self, piece: &[u8]) -> Option<Found> {
        let joined;
        let text = if self.begun.is_empty() {
            piece
        } else {
            joined = [&self.begun, piece].concat();
            &joined
        };
        let found = found_in(&self.secrets, text);
        let begun = self.secrets.begun(text).max(SENTINELS.as_ref().map_or(0, |mark| mark.begun(text)));
        self.begun = text[text.len() - begun..].to_vec();
        found
    }

    /// How many bytes at the end may be the beginning of something.
    #[must_use]
    pub const fn waits(&self) -> usize {
        self.begun.len()
    }
}

/// What of the two is in there; a secret before a stand-in.
#[must_use]
pub fn found_in(secrets: &Needles, text: &[u8]) -> Option<Found> {
    if secrets.are_in(text) {
        return Some(Found::Secret);
    }
    has_sentinel(text).then_some(Found::Sentinel)
}

/// Whether the mark of a stand-in is in there, as it is or within Base64.
#[must_use]
pub fn has_sentinel(text: &[u8]) -> bool {
    SENTINELS.as_ref().map_or(true, |mark| mark.are_in(text))
}

static SENTINELS: LazyLock<Result<Needles, Unsearchable>> = LazyLock::new(|| Needles::of(SENTINEL_MARK));

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::{Found, Search};
    use crate::echo::Needles;

    const SECRET: &str = "sk-the/real+secret-0123456789";

    fn found(text: &[u8], size: usize) -> Option<Found> {
        let needles = Needles::of_all([SECRET, "another-secret-of-the-house"]).expect("needles");
        let mut search = Search::new(Arc::new(needles));
        text.chunks(size).filter_map(|piece| search.pass(piece)).last()
    }

    #[test]
    fn a_secret_and_a_stand_in_are_found_in_every_form_wherever_they_are_cut() {
        let sentinel = "sk-ant-oat01-boxgate-sentinel-0123";
        let packed = |before: &str, text: &str| STANDARD.encode(format!("{before}{text} and more"));
        for (text, want) in [
            (format!("a {SECRET} b"), Some(Found::Secret)),
            ("x another-secret-of-the-house x".to_owned(), Some(Found::Secret)),
            ("q=sk-the%2Freal%2Bsecret-0123456789&r".to_owned(), Some(Found::Secret)),
            ("\"sk-the\\/real+secret-0123456789\"".to_owned(), Some(Found::Secret)),
            (packed("", SECRET), Some(Found::Secret)),
            (packed("1", SECRET), Some(Found::Secret)),
            (packed("12", SECRET), Some(Found::Secret)),
            (format!("a {sentinel} b"), Some(Found::Sentinel)),
            (packed("", sentinel), Some(Found::Sentinel)),
            (packed("1", sentinel), Some(Found::Sentinel)),
            (packed("12", sentinel), Some(Found::Sentinel)),
            ("sk-the/real+secret-012345678".to_owned(), None),
            ("boxgate sentinels, boxgate-sentine".to_owned(), None),
        ] {
            for size in [1, 2, 3, 7, text.len()] {
                assert_eq!(found(text.as_bytes(), size), want, "{text} in pieces of {size}");
            }
        }
    }
}
