//! Bodies that came compressed.

use std::borrow::Cow;
use std::io::Read;

/// The body as it was before its encoding, or nothing when that cannot be read. Agents send zstd or nothing at all.
pub(crate) fn decoded<'a>(encoding: Option<&str>, body: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    match encoding.map(|name| name.trim().to_ascii_lowercase()).as_deref() {
        None | Some("" | "identity") => Some(Cow::Borrowed(body)),
        Some("zstd") => {
            let mut plain = Vec::new();
            let reader = ruzstd::decoding::StreamingDecoder::new(body).ok()?;
            reader.take(LIMIT).read_to_end(&mut plain).ok()?;
            Some(Cow::Owned(plain))
        }
        Some(_) => None,
    }
}

/// What a small body may unfold to.
const LIMIT: u64 = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::decoded;

    #[test]
    fn zstd_is_read_and_what_is_none_is_refused() {
        let packed = compress_to_vec(&b"{\"a\":1}"[..], CompressionLevel::Fastest);
        assert_eq!(decoded(Some("zstd"), &packed).as_deref(), Some(&b"{\"a\":1}"[..]));
        assert_eq!(decoded(None, b"{}").as_deref(), Some(&b"{}"[..]));
        assert!(decoded(Some("zstd"), b"{}").is_none() && decoded(Some("br"), b"{}").is_none());
    }
}
