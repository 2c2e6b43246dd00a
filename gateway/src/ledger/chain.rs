//! The chain: each line carries the SHA-256 of the one before, and a receipt pins one line from outside.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};

/// Vouches for one line and, through the chain, for all before it. Written `SEQ:HASH`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Receipt {
    pub sequence: u64,
    /// SHA-256 of the line's bytes without its line feed.
    pub hash: [u8; 32],
}

/// The text is not `SEQ:HASH`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a receipt is a line's number, a colon and 64 hexadecimal digits")]
pub struct ReceiptFault;

impl Receipt {
    /// What stands before the first line.
    pub const NONE: Self = Self { sequence: 0, hash: [0; 32] };

    /// The hash as the 64 lower-case digits of `prev` and of run reports.
    #[must_use]
    pub fn hash_text(&self) -> String {
        hex(&self.hash)
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sequence, self.hash_text())
    }
}

impl FromStr for Receipt {
    type Err = ReceiptFault;

    fn from_str(text: &str) -> Result<Self, ReceiptFault> {
        let (sequence, hash) = text.split_once(':').ok_or(ReceiptFault)?;
        if !sequence.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ReceiptFault);
        }
        let sequence = sequence.parse().map_err(|_| ReceiptFault)?;
        Ok(Self { sequence, hash: unhex(hash).ok_or(ReceiptFault)? })
    }
}

/// The hash that the next line carries as `prev`.
pub(super) fn hash_of(line: &[u8]) -> [u8; 32] {
    let digest = digest(&SHA256, line);
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    hash
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len() * 2);
    push_hex(&mut text, bytes);
    String::from_utf8(text).expect("digits are text")
}

pub(super) fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]));
}

pub(super) fn unhex(text: &str) -> Option<[u8; 32]> {
    let text = text.as_bytes();
    if text.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let digits = (char::from(pair[0]).to_digit(16)?, char::from(pair[1]).to_digit(16)?);
        *byte = u8::try_from(digits.0 * 16 + digits.1).ok()?;
    }
    Some(bytes)
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::{Receipt, ReceiptFault};

    #[test]
    fn a_receipt_reads_back_as_it_was_written() {
        let receipt = Receipt { sequence: 42, hash: [0xa7; 32] };
        assert_eq!(receipt.to_string().parse(), Ok(receipt));
        for bad in ["", "42", "42:", ":a7", "+1:00", "x:y", &format!("1:{}", "g".repeat(64))] {
            assert_eq!(bad.parse::<Receipt>(), Err(ReceiptFault), "{bad}");
        }
    }
}
