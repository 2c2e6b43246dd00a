//! JSON as people write it into an agent's files: with line comments, trailing commas and a byte order mark.

use serde_json::{Map, Value};

/// The object in a file that is the user's. An empty file is an empty object.
pub(super) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Some(Map::new());
    }
    serde_json::from_str(&plain(text)).ok()
}

/// Without line comments, and without commas before a closing bracket. Strings stay as they are.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            '}' | ']' => {
                let kept = plain.trim_end();
                if kept.ends_with(',') {
                    plain.truncate(kept.len() - 1);
                }
                1
            }
            other => other.len_utf8(),
        };
        plain.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    plain
}

/// The bytes of the string literal that `text` begins with; one that does not end takes all.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return at + 1,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{Map, object};

    #[test]
    fn comments_and_trailing_commas_are_no_fault_and_strings_stay() {
        let text = "\u{feff}{ // first\n \"a\": [1, 2,], // \"b\": 1,\n \"url\": \"http://x/,}\\\"//\",\n}\n";
        let read = object(text.as_bytes()).expect("an object");
        assert_eq!(serde_json::Value::Object(read).to_string(), r#"{"a":[1,2],"url":"http://x/,}\"//"}"#);
        assert_eq!(object(b" \n"), Some(Map::new()));
    }

    #[test]
    fn what_is_no_object_is_none() {
        for bad in [&b"[]"[..], b"{\"a\":", b"{\"a", b"\xff", b"{} {}", b"null"] {
            assert!(object(bad).is_none(), "{bad:?}");
        }
    }
}
