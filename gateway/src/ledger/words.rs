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

/// An object under way. Of a line the opening brace is the book's to add: it stands before `seq`.
pub(super) struct Words(Vec<u8>);

impl Words {
    pub(super) fn new() -> Self {
        Self(Vec::with_capacity(640))
    }

    /// Those of a value of its own, with its opening brace.
    pub(super) fn object() -> Self {
        let mut text = Vec::with_capacity(256);
        text.push(b'{');
        Self(text)
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
        self.key(key);
        push_number(&mut self.0, value);
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

    /// What [`Words::object`] began.
    pub(super) fn into_object(self) -> String {
        String::from_utf8(self.finish().bytes).expect("words are made from text alone")
    }

    /// An object within this one.
    pub(super) fn within(&mut self, key: &str, write: impl FnOnce(&mut Self)) {
        self.key(key);
        self.0.push(b'{');
        write(self);
        self.0.push(b'}');
    }

    fn key(&mut self, key: &str) {
        // No value ends like this.
        if !matches!(self.0.last(), None | Some(b'{')) {
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

pub(super) fn push_number(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        // A remainder of ten is one digit.
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    // All of it at once where nothing has to be escaped, as nearly always: the search has no way out, so that it is a fast one.
    let is_odd = |byte: u8| u8::from((byte < b' ') | (byte == b'"') | (byte == b'\\') | (byte == 0x7f));
    if text.bytes().fold(0, |odd, byte| odd | is_odd(byte)) == 0 {
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
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
        let mut words = Words::object();
        words.within("within", |inner| inner.text(nasty, nasty));
        words.within("empty", |_| ());
        words.number("least", 0);
        words.number("most", u64::MAX);
        words.text(nasty, nasty);
        words.texts("list", [nasty, ""]);
        let object = words.into_object();
        assert!(!object.contains('\n'));
        let value: serde_json::Value = serde_json::from_str(&object).expect("valid JSON");
        assert_eq!(value[nasty], nasty);
        assert_eq!(value["within"][nasty], nasty);
        assert_eq!(value["empty"], serde_json::json!({}));
        assert_eq!((value["least"].as_u64(), value["most"].as_u64()), (Some(0), Some(u64::MAX)));
        assert_eq!(value["list"][0], nasty);
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("ééé", 3), "é…(+4 bytes)");
    }
}
