//! The reader of heads, for tests that stand outside: what it makes of some bytes.

use crate::RunTag;
use crate::tag::{Body, Tagged, tag};

/// As `Tagged`, in words of this page alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    Incomplete,
    /// For the door, in these bytes.
    Door {
        head: Vec<u8>,
        consumed: usize,
    },
    /// For a server within the box; `most` bytes may follow, where that is known.
    Near {
        place: String,
        head: Vec<u8>,
        consumed: usize,
        most: Option<u64>,
    },
    Health,
    Refused(&'static str),
}

/// Reads the head at the start of `bytes`.
#[must_use]
pub fn heard(bytes: &[u8], run: &RunTag) -> Heard {
    match tag(bytes, run) {
        Tagged::Incomplete => Heard::Incomplete,
        Tagged::Pass { head, consumed } => Heard::Door { head, consumed },
        Tagged::Near { near, head, consumed, body } => {
            let most = match body {
                Body::Sized(most) => Some(most),
                Body::Tunnel | Body::Chunked => None,
            };
            Heard::Near { place: near.to_string(), head, consumed, most }
        }
        Tagged::Health => Heard::Health,
        Tagged::Refuse(why) => Heard::Refused(why),
    }
}
