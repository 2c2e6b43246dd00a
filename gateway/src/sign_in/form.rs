//! Form: what stands in an address, in a form body and in an answer, written and read.

use serde_json::Value;
use zeroize::Zeroizing;

/// `name=value&…`, for a query or a body of `application/x-www-form-urlencoded`. It may hold a code: it is wiped.
pub(super) fn urlencoded(pairs: &[(&str, &str)]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::new());
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push('&');
        }
        text.push_str(name);
        text.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    text
}

/// A value of a query, decoded; nothing where it is not there or is no text.
pub(super) fn query_value(query: &str, name: &str) -> Option<String> {
    let (_, value) = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?;
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after.get(2..)?;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// A member of a JSON object that is a text of visible characters and blanks.
pub(super) fn member(body: &[u8], name: &str) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = body.get(name)?.as_str()?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    (is_plain && (1..=LONGEST).contains(&text.len())).then(|| text.to_owned())
}

/// Far above any code.
pub(super) const LONGEST: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::{member, query_value, urlencoded};

    #[test]
    fn what_is_written_is_read_again() {
        let odd = "a b&c=d#e%f/g:ü~";
        let text = urlencoded(&[("one", odd), ("two", "x")]);
        assert_eq!(*text, "one=a%20b%26c%3Dd%23e%25f%2Fg%3A%C3%BC~&two=x");
        assert_eq!(query_value(&text, "one").as_deref(), Some(odd));
        assert_eq!(query_value(&text, "two").as_deref(), Some("x"));
        for broken in ["one=%", "one=%2", "one=%zz", "one=%ff", "other=x", ""] {
            assert_eq!(query_value(broken, "one"), None, "{broken}");
        }
    }

    #[test]
    fn a_member_is_a_text_that_can_be_shown() {
        for (body, expected) in [
            (r#"{"a":"b c"}"#, Some("b c")),
            (r#"{"a":"\u001b[2J"}"#, None),
            (r#"{"a":""}"#, None),
            (r#"{"a":1}"#, None),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(member(body.as_bytes(), "a").as_deref(), expected, "{body}");
        }
    }
}
