//! Framing: whether everyone who reads this head will see the same request in it: one length, one method, one address.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderName, Version};

use crate::policy::carriers;
use crate::refusal::{Reason, Refusal};

/// A body has one length: `Content-Length` digits, or exactly `Transfer-Encoding: chunked` in HTTP/1.1
/// (RFC 9112 §6.1, §6.3). Anything that two servers could read differently is refused.
pub(super) fn check(head: &Parts) -> Result<(), Refusal> {
    if let Some(inside) = head.headers.keys().find_map(second_word) {
        return Err(Refusal::new(
            Reason::BadRequest,
            "a header says again what the request line or another header says",
            inside,
        ));
    }
    let odd =
        |inside: &str| Err(Refusal::new(Reason::BadRequest, "the length of the request body is ambiguous", inside));
    if head.version != Version::HTTP_11 && head.headers.contains_key(TRANSFER_ENCODING) {
        return odd("Transfer-Encoding before HTTP/1.1");
    }
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).into_iter();
    if let Some(coding) = codings.next() {
        if codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return odd("Transfer-Encoding other than one `chunked`");
        }
        if head.headers.contains_key(CONTENT_LENGTH) {
            return odd("Content-Length beside Transfer-Encoding");
        }
    }
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).into_iter();
    if let Some(length) = lengths.next() {
        let digits = !length.is_empty() && length.as_bytes().iter().all(u8::is_ascii_digit);
        if lengths.next().is_some() || !digits {
            return odd("Content-Length that is not one number");
        }
    }
    Ok(())
}

/// Why a server could take this header for a second word on what was judged already: some fold `_` into `-`, and some
/// let a header outvote the request line.
fn second_word(name: &HeaderName) -> Option<&'static str> {
    let folded = carriers::folded_header(name);
    if folded != name.as_str() && ONCE.contains(&&*folded) {
        return Some("a header of framing or routing spelled with `_`");
    }
    OUTVOTING.contains(&&*folded).then_some("a header that names another method, path or host")
}

const ONCE: &[&str] = &[
    "content-length",
    "transfer-encoding",
    "host",
    "connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
];

const OUTVOTING: &[&str] = &[
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-original-uri",
    "x-rewrite-url",
    "x-original-host",
    "x-forwarded-host",
];
