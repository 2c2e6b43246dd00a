//! Words: a JSON object written key by key, so that a line is one buffer and cannot fail to be made.

use super::entry::Caller;
use super::past::Weight;

/// The rest of a line after `seq` and `prev`: everything up to and with the closing brace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Body {
    bytes: Vec<u8>,
    weight: Weight,
    /// Whose run that is, unless who hands the line in says so.
    caller: Option<Caller>,
}

/// An object under way. The opening brace is the reader's to add: for a line it stands before `seq`.
pub(super) struct Words(Vec<u8>);

impl Words {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(512))
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        push_text(&mut self.0, value);
    }

    pub(super) fn text_if(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    pub(super) fn number(&mut self, key: &str, value: u64) {
        self.raw(key, &value.to_string());
    }

    pub(super) fn number_if(&mut self, key: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.number(key, value);
        }
    }

    /// `json` must be one JSON value without a line feed.
    pub(super) fn raw(&mut self, key: &str, json: &str) {
        self.key(key);
        self.0.extend_from_slice(json.as_bytes());
    }

    pub(super) fn raw_if(&mut self, key: &str, json: Option<&str>) {
        if let Some(json) = json {
            self.raw(key, json);
        }
    }

    pub(super) fn texts<'a>(&mut self, key: &str, values: impl IntoIterator<Item = &'a str>) {
        self.key(key);
        self.0.push(b'[');
        for (at, value) in values.into_iter().enumerate() {
            if at > 0 {
                self.0.push(b',');
            }
            push_text(&mut self.0, value);
        }
        self.0.push(b']');
    }

    pub(super) fn finish(mut self) -> Body {
        self.0.push(b'}');
        Body { bytes: harmless(self.0), weight: Weight::None, caller: None }
    }

    /// The same as a value of its own, with its opening brace.
    pub(super) fn into_object(self) -> String {
        let body = self.finish();
        format!("{{{}", String::from_utf8_lossy(&body.bytes))
    }

    fn key(&mut self, key: &str) {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
        push_text(&mut self.0, key);
        self.0.push(b':');
    }
}

impl Body {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, with what it adds to the counts of its run.
    pub(super) fn weighing(self, weight: Weight) -> Self {
        Self { weight, ..self }
    }

    /// The same for a line that somebody has to be named with.
    pub(super) fn of(self, caller: &Caller) -> Self {
        let caller = (self.weight != Weight::None).then(|| caller.clone());
        Self { caller, ..self }
    }

    pub(super) const fn weight(&self) -> Weight {
        self.weight
    }

    pub(super) const fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }
}

/// At most `limit` bytes of the text, cut between characters; what was cut off is told in its place.
pub(super) fn cut(text: &str, limit: usize) -> std::borrow::Cow<'_, str> {
    if text.len() <= limit {
        return text.into();
    }
    let kept = &text[..text.floor_char_boundary(limit)];
    format!("{kept}…(+{} bytes)", text.len() - kept.len()).into()
}

/// The same JSON without a character that a terminal could take for a command or that turns the direction of text. Such
/// a character stands only inside strings, where its escape means the same.
fn harmless(json: Vec<u8>) -> Vec<u8> {
    if json.is_ascii() && !json.contains(&0x7f) {
        return json;
    }
    // Words are made from text alone.
    let text = String::from_utf8_lossy(&json);
    let mut out = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        if is_command(character) {
            out.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            out.push(character);
        }
    }
    out.into_bytes()
}

/// Whether a character steers a terminal or the direction of text rather than being shown.
pub(super) fn is_command(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate() {
        let plain = !matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x7f);
        if plain {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[written..at]);
        written = at + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&text.as_bytes()[written..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::{Words, cut};

    #[test]
    fn whatever_a_box_sends_becomes_one_line_of_valid_json() {
        let nasty = "a\"b\\c\nd\r\0\u{7f}\u{1b}[31m é \u{2028} 🦀";
        let mut words = Words::new();
        words.text(nasty, nasty);
        words.texts("list", [nasty, ""]);
        let object = words.into_object();
        assert!(!object.contains('\n'));
        let value: serde_json::Value = serde_json::from_str(&object).expect("valid JSON");
        assert_eq!(value[nasty], nasty);
        assert_eq!(value["list"][0], nasty);
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("ééé", 3), "é…(+4 bytes)");
    }
}
