//! Codings: what was packed comes out as it went in, wherever it is cut; what was not is told the same wherever it is cut, and
//! comes out in bounded pieces.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use gateway::body::coding::{Coding, Fault, LARGEST};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::{cut, pieces};

pub(crate) fn holds(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    let (sizes, text) = cut(rest);
    for packed in [gzip(text), compress_to_vec(text, CompressionLevel::Fastest)].iter().zip(["gzip", "zstd"]) {
        let (came, told) = unpacked(packed.1, pieces(sizes, packed.0));
        assert_eq!(told, Ok(()), "{}", packed.1);
        assert!(came.is(text), "{} gives back what went in", packed.1);
        if let Some((_, torn)) = packed.0.split_last() {
            assert!(
                unpacked(packed.1, pieces(sizes, &packed.0[..torn.len()])).1.is_err(),
                "{} without its end",
                packed.1
            );
        }
    }
    let name = ["gzip", "br", "zstd"][usize::from(kind % 3)];
    let (whole, told) = unpacked(name, pieces(&[], text));
    let (cut, again) = unpacked(name, pieces(sizes, text));
    assert_eq!(told.is_ok(), again.is_ok(), "{name}: {told:?} whole and {again:?} in pieces of {sizes:?}");
    if told.is_ok() {
        assert!(cut == whole, "{name}: other bytes in pieces of {sizes:?}");
    }
    assert!(whole.length <= LARGEST && cut.length <= LARGEST, "{name}");
}

/// What came out: its length, its beginning and a sum over all.
#[derive(PartialEq, Default)]
struct Came {
    length: u64,
    begins: Vec<u8>,
    sum: u64,
}

impl Came {
    fn take(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.begins.extend_from_slice(&bytes[..bytes.len().min(KEPT.saturating_sub(self.begins.len()))]);
        self.sum = bytes.iter().fold(self.sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    }

    fn is(&self, text: &[u8]) -> bool {
        let mut other = Self::default();
        other.take(text);
        *self == other
    }
}

fn unpacked<'a>(name: &str, pieces: impl Iterator<Item = &'a [u8]>) -> (Came, Result<(), Fault>) {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_str(name).expect("a name"));
    let mut coding = Coding::of(&headers).expect("a coding");
    let mut came = Came::default();
    let mut take = |bytes: &[u8]| {
        assert!(bytes.len() <= LARGEST_PIECE, "a piece of {} bytes", bytes.len());
        came.take(bytes);
        Ok::<(), Fault>(())
    };
    let read = || {
        for piece in pieces {
            coding.unpack(piece, &mut take)?;
        }
        coding.end(&mut take)
    };
    let told = read();
    (came, told)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory takes it")
}

const KEPT: usize = 64 * 1024;
/// A step of gzip unpacks 512 bytes to a thousand times as much at most.
const LARGEST_PIECE: usize = 640 * 1024;
