//! Splice: new values for some members of a JSON text. Every other byte stays as its owner wrote it.

use std::ops::Range;

/// A member, by the names that lead to it, and its new value as JSON.
pub(super) type Change<'a> = (&'a [&'a str], String);

/// The text with these changes made. A member that is not there yet becomes the first of its object.
///
/// `text` must be valid JSON; `None` where a change's object is not in it.
pub(super) fn splice(text: &str, changes: &[Change<'_>]) -> Option<String> {
    let mut text = text.to_owned();
    for (path, value) in changes {
        let (name, above) = path.split_last()?;
        let mut object = Scan::new(&text).value()?;
        for step in above {
            object = member(&text, object, step)?;
        }
        match member(&text, object.clone(), name) {
            Some(place) => text.replace_range(place, value),
            None => {
                let inner = text.get(object.clone())?.strip_prefix('{')?;
                let comma = if inner.trim_start().starts_with('}') { "" } else { "," };
                text.insert_str(object.start + 1, &format!("{}:{value}{comma}", quoted(name)));
            }
        }
    }
    Some(text)
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Where the value of a member stands; of several of one name the last, as every reader has it.
fn member(text: &str, object: Range<usize>, name: &str) -> Option<Range<usize>> {
    let mut scan = Scan { bytes: text.as_bytes(), at: object.start };
    scan.take(b'{')?;
    let mut found = None;
    loop {
        scan.blanks();
        if scan.peek()? == b'}' {
            return found;
        }
        let key = scan.value()?;
        scan.blanks();
        scan.take(b':')?;
        let value = scan.value()?;
        if serde_json::from_str::<String>(text.get(key)?).ok()? == name {
            found = Some(value);
        }
        scan.blanks();
        if scan.peek()? == b',' {
            scan.at += 1;
        }
    }
}

/// Goes through JSON that was parsed before: only where values begin and end matters.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    const fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0 }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// The next value, whole.
    fn value(&mut self) -> Option<Range<usize>> {
        self.blanks();
        let start = self.at;
        match self.peek()? {
            b'"' => self.text()?,
            b'{' | b'[' => {
                let mut depth = 0_usize;
                loop {
                    match self.peek()? {
                        b'"' => {
                            self.text()?;
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth -= 1,
                        _ => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => {
                let ends = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b'}' | b']');
                while self.peek().is_some_and(|byte| !ends(byte)) {
                    self.at += 1;
                }
            }
        }
        Some(start..self.at)
    }

    fn text(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.take(b'"')
    }
}

#[cfg(test)]
mod tests {
    use super::{quoted, splice};

    #[test]
    fn only_what_changes_is_written_anew() {
        let text = "{\n \"z\" : [1.50, {\"a\\\"{\": \"}\"}],\n \"t\":{ \"access\" : \"old\" ,\"n\":1e3},\n\t\"big\":12345678901234567890123 }\n";
        let changes = [(&["t", "access"][..], quoted("ne\"w")), (&["t", "n"][..], "7".to_owned())];
        assert_eq!(
            splice(text, &changes).as_deref(),
            Some(
                "{\n \"z\" : [1.50, {\"a\\\"{\": \"}\"}],\n \"t\":{ \"access\" : \"ne\\\"w\" ,\"n\":7},\n\t\"big\":12345678901234567890123 }\n"
            )
        );
    }

    #[test]
    fn a_member_that_is_missing_is_added_and_a_missing_object_is_none() {
        for (text, path, expected) in [
            ("{}", &["a"][..], Some("{\"a\":1}")),
            ("{ \"b\":2}", &["a"], Some("{\"a\":1, \"b\":2}")),
            ("{\"x\":{},\"o\":{\"b\":2}}", &["o", "a"], Some("{\"x\":{},\"o\":{\"a\":1,\"b\":2}}")),
            ("{\"x\":{},\"o\":{}}", &["o", "a"], Some("{\"x\":{},\"o\":{\"a\":1}}")),
            ("{\"a\":3,\"a\":4}", &["a"], Some("{\"a\":3,\"a\":1}")),
            ("{\"b\":2}", &["o", "a"], None),
            ("{\"o\":2}", &["o", "a"], None),
            ("[]", &["a"], None),
        ] {
            assert_eq!(splice(text, &[(path, "1".to_owned())]).as_deref(), expected, "{text}");
        }
    }
}
