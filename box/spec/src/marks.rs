//! Marks: by what a box is searched for the house's secrets, without being told one.

use serde::{Deserialize, Serialize};

/// The secrets of a house as a box may know them: hashed, under a salt that no other claim has.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marks {
    /// 64 hexadecimal digits at random. Their text is what is hashed before each secret.
    pub salt: String,
    pub secrets: Vec<Mark>,
}

/// What is told of one secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// In bytes.
    pub length: u32,
    /// The first 64 bits of SHA-256 over salt and secret, 16 hexadecimal digits.
    pub digest: String,
}

/// Whether a byte can stand inside of a secret that is searched for. Text is full of the others, between its words and
/// around what it quotes.
#[must_use]
pub const fn is_of_a_secret(byte: u8) -> bool {
    byte.is_ascii_graphic()
        && !matches!(
            byte,
            b'"' | b'\'' | b'`' | b',' | b';' | b'<' | b'>' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'|' | b'\\'
        )
}

/// Whether a secret is searched for: whoever knew the hash of a shorter one could guess it.
#[must_use]
pub fn is_marked(secret: &str) -> bool {
    secret.len() >= SHORTEST && secret.bytes().all(is_of_a_secret)
}

/// Shorter secrets, in bytes, have no mark.
pub const SHORTEST: usize = 20;
/// Hexadecimal digits of a [`Mark::digest`].
pub const DIGITS: usize = 16;
