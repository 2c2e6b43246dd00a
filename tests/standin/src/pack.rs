//! Answers packed as providers may send them. What is packed is not small: each packing is told in its plainest form.

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// How an answer is packed, in the words of `content-encoding`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    Gzip,
    Brotli,
    Zstd,
}

impl Packing {
    /// The value of `content-encoding`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The bytes packed.
    #[must_use]
    pub fn pack(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Gzip => gzip(bytes),
            Self::Brotli => brotli(bytes),
            Self::Zstd => compress_to_vec(bytes, CompressionLevel::Fastest),
        }
    }
}

/// RFC 1952, with the stored blocks of RFC 1951 §3.2.4.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for block in bytes.chunks(BLOCK) {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    // The last block, which is empty.
    out.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
    out.extend_from_slice(&crc32(bytes).to_le_bytes());
    let length = u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
    })
}

/// RFC 7932 §9: uncompressed meta-blocks. Fields are written from the lowest bit up.
fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        let length = u32::try_from(block.len() - 1).unwrap_or(u32::MAX);
        // Not the last (1 bit), a length of four nibbles (2 bits), length less one (16 bits), uncompressed (1 bit).
        let header = length << 3 | 1 << 19;
        // Before the first stands the window of 16 bits (1 bit).
        let header = if number == 0 { header << 1 } else { header };
        out.extend_from_slice(&header.to_le_bytes()[..3]);
        out.extend_from_slice(block);
    }
    // The last block, which is empty (2 bits); where it is the only one, the window stands before it.
    out.push(if bytes.is_empty() { 0b110 } else { 0b11 });
    out
}

const BLOCK: usize = 60_000;

#[cfg(test)]
mod tests {
    use super::{Packing, crc32};

    #[test]
    fn the_checksum_is_the_known_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_short_text_is_packed_to_the_byte() {
        assert_eq!(Packing::Brotli.pack(b""), [0b110]);
        assert_eq!(Packing::Brotli.pack(b"ab"), [0x10, 0, 0x10, b'a', b'b', 3]);
        let packed = Packing::Gzip.pack(b"ab");
        assert_eq!(packed[10..17], [0, 2, 0, 0xfd, 0xff, b'a', b'b']);
    }
}
