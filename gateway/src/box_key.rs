//! The box key of a TCP door: what a claim there must prove, and the challenge that it proves it on. The key itself never
//! crosses the network.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::{self, SHA256};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use box_spec::wire::SHORTEST_KEY;
use uuid::Uuid;

use crate::vault::{self, SourceFault};

/// A box key. Its text is not kept.
#[derive(Clone)]
pub struct BoxKey {
    key: Arc<hmac::Key>,
    /// Tells two keys apart.
    digest: [u8; 32],
}

/// Why a file gives no box key. No error holds the text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyFault {
    #[error(transparent)]
    Source(#[from] SourceFault),
    #[error("{0} holds {1} characters, and a box key at least {SHORTEST_KEY}: `openssl rand -hex 32` makes one")]
    Short(String, usize),
}

impl BoxKey {
    /// Reads a key under the rules of a secret's file.
    ///
    /// # Errors
    /// The file is missing, malformed, or its text is too short.
    pub fn read(path: &Path) -> Result<Self, KeyFault> {
        let text = vault::read_file(path)?;
        let bytes = text.expose().as_bytes();
        if bytes.len() < SHORTEST_KEY {
            return Err(KeyFault::Short(path.display().to_string(), bytes.len()));
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(digest::digest(&SHA256, bytes).as_ref());
        Ok(Self { key: Arc::new(hmac::Key::new(HMAC_SHA256, bytes)), digest })
    }

    /// Whether `proof`, in hexadecimal digits, was made with this key on `text`. Compared in constant time.
    #[must_use]
    pub fn proves(&self, text: &str, proof: &str) -> bool {
        let Some(proof) = unhex(proof) else { return false };
        hmac::verify(&self.key, text.as_bytes(), &proof).is_ok()
    }
}

impl PartialEq for BoxKey {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for BoxKey {}

impl fmt::Debug for BoxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxKey")
    }
}

/// A fresh challenge, 122 random bits: one for each connection at a TCP door.
#[must_use]
pub fn challenge() -> String {
    Uuid::new_v4().simple().to_string()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let bytes: &[u8; 64] = text.as_bytes().try_into().ok()?;
    let mut out = [0; 32];
    for (byte, pair) in out.iter_mut().zip(bytes.chunks_exact(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? * 16 + low?).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{BoxKey, KeyFault, challenge, unhex};

    fn key(text: &str) -> Result<BoxKey, KeyFault> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        crate::files::write_private(&path, text.as_bytes()).expect("written");
        BoxKey::read(&path)
    }

    #[test]
    fn a_proof_holds_for_its_key_and_text_alone() {
        // HMAC-SHA256 of "text", by another implementation.
        let proof = "8d3a9f54db4f3f1e3addef3fc62a0359d0d9d2a87c07cf465284062fded2baa2";
        let (one, two) = (key(&"k".repeat(32)).expect("a key"), key(&"l".repeat(32)).expect("a key"));
        assert!(one != two && one == key(&format!("{}\n", "k".repeat(32))).expect("the same"));
        let made = aws_lc_rs::hmac::sign(&one.key, b"text");
        let made: String = made.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(made, proof);
        assert!(one.proves("text", proof));
        for (text, proof) in [("texts", proof), ("text", &proof[1..]), ("text", ""), ("text", &"0".repeat(64))] {
            assert!(!one.proves(text, proof), "{text} {proof}");
        }
        assert!(!two.proves("text", proof));
        assert!(!one.proves("text", &format!("{}é", &proof[2..])));
    }

    #[test]
    fn a_short_key_is_refused_without_its_text() {
        let said = key("too-short-a-key").expect_err("short").to_string();
        assert!(said.contains("15 characters") && !said.contains("too-short-a-key"), "{said}");
        assert!(
            key(&"k".repeat(31)).is_err() && key("").is_err() && key("two words of thirty-two characters").is_err()
        );
    }

    #[test]
    fn no_two_challenges_are_one_and_only_digits_are_read() {
        assert_ne!(challenge(), challenge());
        assert_eq!(unhex(&"0f".repeat(32)), Some([15; 32]));
        assert!(unhex(&"0g".repeat(32)).is_none() && unhex("+f").is_none());
    }
}
