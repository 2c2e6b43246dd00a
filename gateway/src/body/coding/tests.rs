//! What is packed comes out whole wherever it is cut; bombs and what goes on after the end do not.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::{Coding, Fault, LARGEST};

fn coding(name: &'static str) -> Result<Coding, Fault> {
    let mut headers = HeaderMap::new();
    headers.insert("content-encoding", HeaderValue::from_static(name));
    Coding::of(&headers)
}

fn unpacked(name: &'static str, packed: &[u8], size: usize) -> Result<Vec<u8>, Fault> {
    let mut coding = coding(name)?;
    let mut out = Vec::new();
    let mut take = |bytes: &[u8]| {
        assert!(bytes.len() <= 1024 * 1024, "{} bytes at once", bytes.len());
        // Of a bomb nothing is kept.
        if out.len() < 1024 * 1024 {
            out.extend_from_slice(bytes);
        }
        Ok::<_, Fault>(())
    };
    for piece in packed.chunks(size) {
        coding.unpack(piece, &mut take)?;
        assert!(coding.waits() < 132 * 1024, "{} bytes wait", coding.waits());
    }
    coding.end(&mut take)?;
    Ok(out)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("into memory");
    encoder.finish().expect("into memory")
}

/// RFC 7932 §9.2: an uncompressed meta-block, then the last one, empty.
fn brotli(bytes: &[u8]) -> Vec<u8> {
    let head = (u32::try_from(bytes.len() - 1).expect("short") << 3 | 1 << 19) << 1;
    [&head.to_le_bytes()[..3], bytes, &[3]].concat()
}

fn text() -> Vec<u8> {
    (0..20_000_u32).flat_map(|number| format!("{:x},", number.wrapping_mul(2_654_435_761)).into_bytes()).collect()
}

#[test]
fn every_coding_comes_out_whole_wherever_it_is_cut() {
    let text = text();
    let zstd = compress_to_vec(&text[..], CompressionLevel::Fastest);
    for (name, packed, want) in [
        ("gzip", gzip(&text), &text[..]),
        ("GZIP", gzip(b"{}"), b"{}"),
        ("br", brotli(&text[..60_000]), &text[..60_000]),
        ("zstd", zstd, &text),
        ("zstd", compress_to_vec(&b"{}"[..], CompressionLevel::Uncompressed), b"{}"),
        ("identity", text.clone(), &text),
    ] {
        for size in [1, 2, 3, 1000, 65_536, packed.len()] {
            let out = unpacked(name, &packed, size).unwrap_or_else(|fault| panic!("{name}, {size}: {fault}"));
            assert!(out == want, "{name} in pieces of {size}: {} of {} bytes", out.len(), want.len());
        }
        for cut in [1, 2, packed.len() / 2] {
            if name != "identity" {
                let fault = unpacked(name, &packed[..packed.len() - cut], 1000).expect_err("cut short");
                assert!(matches!(fault, Fault::Unfinished), "{name} without {cut}: {fault}");
            }
        }
        for more in [&b"x"[..], &packed, b"\x50\x2a\x4d\x18\0\0\0\0"] {
            if name != "identity" {
                let fault = unpacked(name, &[&packed, more].concat(), 1000).expect_err("goes on");
                assert_eq!(fault, Fault::Trailing, "{name}");
            }
        }
    }
}

#[test]
fn a_bomb_is_refused_before_it_takes_memory() {
    // 2 GiB of zeros in 64 KiB: blocks of one byte that is repeated.
    let mut zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    for _ in 0..16 * 1024 {
        zstd.extend_from_slice(&[((128_u32 * 1024) << 3 | 1 << 1).to_le_bytes()[..3].to_vec(), vec![0]].concat());
    }
    for size in [1000, zstd.len()] {
        assert_eq!(unpacked("zstd", &zstd, size).map(drop), Err(Fault::Large));
    }
    let gzip = gzip(&vec![0; usize::try_from(LARGEST).expect("fits") + 1]);
    for size in [1000, gzip.len()] {
        assert_eq!(unpacked("gzip", &gzip, size).map(drop), Err(Fault::Large));
    }
}

#[test]
fn what_not_all_can_read_is_refused() {
    for name in
        ["deflate", "compress", "gzip, gzip", "gzip,br", "x-gzip", "aws-chunked", "", "zstd;q=1", "identity, gzip"]
    {
        assert_eq!(coding(name).err(), Some(Fault::Unknown), "{name}");
    }
    let twice = http::Request::builder().header("content-encoding", "gzip").header("content-encoding", "br");
    let twice = twice.body(()).expect("a request");
    assert_eq!(Coding::of(twice.headers()).err(), Some(Fault::Unknown));
    for (what, name, packed) in [
        ("a dictionary", "zstd", vec![0x28, 0xb5, 0x2f, 0xfd, 0x01, 0x38, 1, 1, 0, 0]),
        ("a frame to be skipped", "zstd", b"\x50\x2a\x4d\x18\x01\0\0\0x".to_vec()),
        ("a reserved bit", "zstd", vec![0x28, 0xb5, 0x2f, 0xfd, 0x08, 0x38, 1, 0, 0]),
        ("a reserved block", "zstd", vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38, 0x0f, 0, 0]),
        ("plain text", "zstd", b"{}".to_vec()),
        ("plain text", "gzip", b"{\"a\":[1,2,3,4,5]}".to_vec()),
        ("a large window", "br", vec![0x11, 0x1e, 0x03]),
    ] {
        assert_eq!(unpacked(name, &packed, 3), Err(Fault::Malformed), "{what} as {name}");
    }
    assert_eq!(
        unpacked("zstd", &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 1, 0, 0], 3),
        Err(Fault::Large),
        "a window of a GiB"
    );
}
