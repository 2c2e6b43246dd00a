//! Zstd (RFC 8878), one frame, block by block: what a block unpacks to is bounded, what a frame does is not.

use std::io::Read;

use ruzstd::decoding::FrameDecoder;

use super::Fault;

/// A frame under way.
pub(super) struct Zstd {
    decoder: FrameDecoder,
    /// What came and is no whole header or block yet.
    held: Vec<u8>,
    expects: Expects,
    has_checksum: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expects {
    Header,
    Block,
    Checksum,
    Nothing,
}

impl Default for Zstd {
    fn default() -> Self {
        Self { decoder: FrameDecoder::new(), held: Vec::new(), expects: Expects::Header, has_checksum: false }
    }
}

impl Zstd {
    pub(super) fn waits(&self) -> usize {
        self.held.len()
    }

    /// Unpacks all whole blocks; tells whether the frame is at its end.
    pub(super) fn unpack<E: From<Fault>>(
        &mut self,
        piece: &[u8],
        take: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.held.extend_from_slice(piece);
        let mut at = 0;
        let mut out = [0; OUT];
        loop {
            let left = &self.held[at..];
            match self.expects {
                Expects::Header => {
                    let Some(header) = Header::read(left)? else { break };
                    self.decoder.init(&left[..header.length]).map_err(|_| E::from(Fault::Malformed))?;
                    self.has_checksum = header.has_checksum;
                    self.expects = Expects::Block;
                    at += header.length;
                }
                Expects::Block => {
                    let Some((length, is_last)) = block(left)? else { break };
                    let mut read = self
                        .decoder
                        .decode_from_to(&left[..length], &mut out)
                        .map_err(|_| E::from(Fault::Malformed))?
                        .1;
                    while read > 0 {
                        take(&out[..read])?;
                        read = self.decoder.read(&mut out).map_err(|_| E::from(Fault::Malformed))?;
                    }
                    if is_last {
                        self.expects = if self.has_checksum { Expects::Checksum } else { Expects::Nothing };
                    }
                    at += length;
                }
                Expects::Checksum if left.len() >= CHECKSUM => {
                    self.expects = Expects::Nothing;
                    at += CHECKSUM;
                }
                Expects::Nothing if !left.is_empty() => return Err(E::from(Fault::Trailing)),
                Expects::Checksum | Expects::Nothing => break,
            }
        }
        self.held.drain(..at);
        Ok(self.expects == Expects::Nothing)
    }
}

/// The head of a frame (§3.1.1.1).
struct Header {
    length: usize,
    has_checksum: bool,
}

impl Header {
    /// `None` where it is not whole. A dictionary, a window larger than everybody must take (§3.1.1.1.2) and a frame to be
    /// skipped are refused.
    fn read<E: From<Fault>>(bytes: &[u8]) -> Result<Option<Self>, E> {
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err(E::from(Fault::Malformed));
        }
        let Some(&descriptor) = bytes.get(MAGIC.len()) else { return Ok(None) };
        let (is_single, has_checksum) = (descriptor & 0x20 != 0, descriptor & 0x04 != 0);
        if descriptor & 0x0b != 0 {
            return Err(E::from(Fault::Malformed));
        }
        let size = match (descriptor >> 6, is_single) {
            (0, false) => 0,
            (0, true) => 1,
            (1, _) => 2,
            (2, _) => 4,
            _ => 8,
        };
        let length = MAGIC.len() + 1 + usize::from(!is_single) + size;
        if bytes.len() < length {
            return Ok(None);
        }
        let window = if is_single {
            let told = &bytes[length - size..length];
            let told = told.iter().rev().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
            if size == 2 { told + 256 } else { told }
        } else {
            let (exponent, mantissa) = (u64::from(bytes[5] >> 3), u64::from(bytes[5] & 7));
            let base = 1 << (10 + exponent);
            base + base / 8 * mantissa
        };
        // One whole segment is as large as what is in it, which is bounded elsewhere.
        let largest = if is_single { super::LARGEST } else { LARGEST_WINDOW };
        if window > largest {
            return Err(E::from(Fault::Large));
        }
        Ok(Some(Self { length, has_checksum }))
    }
}

/// How long a block is with its head, and whether it is the last (§3.1.1.2); `None` where it is not whole.
fn block<E: From<Fault>>(bytes: &[u8]) -> Result<Option<(usize, bool)>, E> {
    let [a, b, c, ..] = *bytes else { return Ok(None) };
    let head = u32::from_le_bytes([a, b, c, 0]);
    let size = usize::try_from(head >> 3).unwrap_or(usize::MAX);
    if size > LARGEST_BLOCK {
        return Err(E::from(Fault::Malformed));
    }
    let content = match head >> 1 & 3 {
        1 => 1,
        3 => return Err(E::from(Fault::Malformed)),
        _ => size,
    };
    Ok((bytes.len() >= 3 + content).then_some((3 + content, head & 1 != 0)))
}

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const CHECKSUM: usize = 4;
const LARGEST_BLOCK: usize = 128 * 1024;
const LARGEST_WINDOW: u64 = 8 * 1024 * 1024;
const OUT: usize = 16 * 1024;
