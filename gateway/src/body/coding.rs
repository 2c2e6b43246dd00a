//! Coding: a packed request body (RFC 9110 §8.4) unpacked as it passes, only to be read; what goes out stays as it came. Bounded in
//! memory whatever is packed: the window of the coding, and one piece of what comes out.

mod zstd;

use std::io::Write;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::write::GzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use zstd::Zstd;

/// A body's coding, as far as it was unpacked.
pub struct Coding {
    packing: Packing,
    unpacked: u64,
    ended: bool,
}

enum Packing {
    None,
    Gzip(Box<GzDecoder<Vec<u8>>>),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(Box<Zstd>),
}

/// Why a body is not unpacked on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    #[error("its coding is none of gzip, br and zstd, alone")]
    Unknown,
    #[error("it is not packed as it says, or in a form that not all can read")]
    Malformed,
    #[error("it goes on after the end of what is packed")]
    Trailing,
    #[error("it ends before what is packed is whole")]
    Unfinished,
    #[error("it unpacks to more than {LARGEST} bytes")]
    Large,
}

impl Coding {
    /// The one coding that a head tells.
    ///
    /// # Errors
    /// It tells another, or several.
    pub fn of(headers: &HeaderMap) -> Result<Self, Fault> {
        let mut named = headers.get_all(CONTENT_ENCODING).into_iter();
        let name = named.next().map_or(&b"identity"[..], |value| value.as_bytes());
        if named.next().is_some() {
            return Err(Fault::Unknown);
        }
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let packing = if is("identity") {
            Packing::None
        } else if is("gzip") {
            Packing::Gzip(Box::new(GzDecoder::new(Vec::new())))
        } else if is("br") {
            let alloc = StandardAlloc::default;
            Packing::Brotli(Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())))
        } else if is("zstd") {
            Packing::Zstd(Box::default())
        } else {
            return Err(Fault::Unknown);
        };
        Ok(Self { packing, unpacked: 0, ended: false })
    }

    /// What was never packed.
    #[must_use]
    pub const fn none() -> Self {
        Self { packing: Packing::None, unpacked: 0, ended: false }
    }

    /// Unpacks what came, and gives on what comes out, in pieces of a bounded size.
    ///
    /// # Errors
    /// It cannot be unpacked, or is a bomb; or the taker's own.
    pub fn unpack<E: From<Fault>>(
        &mut self,
        piece: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (unpacked, is_packed) = (&mut self.unpacked, !matches!(self.packing, Packing::None));
        let mut take = |bytes: &[u8]| {
            *unpacked += bytes.len() as u64;
            if is_packed && *unpacked > LARGEST { Err(E::from(Fault::Large)) } else { take(bytes) }
        };
        match &mut self.packing {
            // What is not packed is no bomb, however large.
            Packing::None => take(piece),
            _ if self.ended && !piece.is_empty() => Err(E::from(Fault::Trailing)),
            Packing::Gzip(decoder) => gzip(decoder, piece, &mut take),
            Packing::Brotli(state) => brotli(state, piece, &mut self.ended, &mut take),
            Packing::Zstd(decoder) => {
                self.ended = decoder.unpack(piece, &mut take)?;
                Ok(())
            }
        }
    }

    /// Whether it comes in another form than it is read in.
    #[must_use]
    pub const fn is_packed(&self) -> bool {
        !matches!(self.packing, Packing::None)
    }

    /// How many bytes at the end of what came are not unpacked yet.
    #[must_use]
    pub fn waits(&self) -> usize {
        match &self.packing {
            Packing::Zstd(decoder) => decoder.waits(),
            Packing::None | Packing::Gzip(_) | Packing::Brotli(_) => 0,
        }
    }

    /// The end of the body; gives on what is left.
    ///
    /// # Errors
    /// What is packed is not whole; or the taker's own.
    pub fn end<E: From<Fault>>(&mut self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        match &mut self.packing {
            Packing::None => Ok(()),
            Packing::Gzip(decoder) => {
                decoder.try_finish().map_err(|_| E::from(Fault::Unfinished))?;
                let left = std::mem::take(decoder.get_mut());
                self.unpacked += left.len() as u64;
                if self.unpacked > LARGEST { Err(E::from(Fault::Large)) } else { take(&left) }
            }
            Packing::Brotli(_) | Packing::Zstd(_) if self.ended => Ok(()),
            Packing::Brotli(_) | Packing::Zstd(_) => Err(E::from(Fault::Unfinished)),
        }
    }
}

fn gzip<E: From<Fault>>(
    decoder: &mut GzDecoder<Vec<u8>>,
    piece: &[u8],
    take: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    // One byte unpacks to a thousand at most.
    for mut left in piece.chunks(GZIP_PIECE) {
        while !left.is_empty() {
            let read = decoder.write(left).map_err(|_| E::from(Fault::Malformed))?;
            take(decoder.get_ref())?;
            decoder.get_mut().clear();
            if read == 0 {
                return Err(E::from(Fault::Trailing));
            }
            left = &left[read..];
        }
    }
    Ok(())
}

fn brotli<E: From<Fault>>(
    state: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    piece: &[u8],
    ended: &mut bool,
    take: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut out = [0; OUT];
    let (mut left, mut at, mut total) = (piece.len(), 0, 0);
    loop {
        let (mut room, mut written) = (OUT, 0);
        let result =
            BrotliDecompressStream(&mut left, &mut at, piece, &mut room, &mut written, &mut out, &mut total, state);
        take(&out[..written])?;
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::NeedsMoreInput => return Ok(()),
            BrotliResult::ResultFailure => return Err(E::from(Fault::Malformed)),
            BrotliResult::ResultSuccess if left > 0 => return Err(E::from(Fault::Trailing)),
            BrotliResult::ResultSuccess => {
                *ended = true;
                return Ok(());
            }
        }
    }
}

/// What a packed body may unpack to, in bytes.
pub const LARGEST: u64 = 64 * 1024 * 1024;
const GZIP_PIECE: usize = 512;
const OUT: usize = 16 * 1024;

#[cfg(test)]
mod tests;
