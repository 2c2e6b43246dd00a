//! Text: one text of a JSON under way, unescaped and kept as far as it is wanted.

use super::Fault;

/// A text under way.
#[derive(Debug, Default)]
pub(super) struct Text {
    pub(super) is_key: bool,
    pub(super) kept: String,
    limit: usize,
    pub(super) whole: bool,
    high: Option<u32>,
}

impl Text {
    pub(super) fn begin(&mut self, is_key: bool, limit: usize) {
        self.kept.clear();
        (self.is_key, self.limit, self.whole, self.high) = (is_key, limit, true, None);
    }

    /// Characters as they are meant.
    pub(super) fn keep(&mut self, text: &str) -> Result<(), Fault> {
        if text.is_empty() {
            return Ok(());
        }
        self.lone()?;
        let room = self.limit.saturating_sub(self.kept.len());
        if !self.whole || text.len() > room {
            let fits = text.floor_char_boundary(if self.whole { room } else { 0 });
            self.kept.push_str(&text[..fits]);
            self.whole = false;
            return Ok(());
        }
        self.kept.push_str(text);
        Ok(())
    }

    /// One unit of UTF-16, as an escape names it.
    pub(super) fn unit(&mut self, unit: u32) -> Result<(), Fault> {
        if let (Some(high), 0xdc00..=0xdfff) = (self.high, unit) {
            self.high = None;
            return self.character(0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00));
        }
        self.lone()?;
        match unit {
            0xd800..=0xdbff => self.high = Some(unit),
            0xdc00..=0xdfff => return self.half(),
            _ => return self.character(unit),
        }
        Ok(())
    }

    fn character(&mut self, value: u32) -> Result<(), Fault> {
        let character = char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.keep(character.encode_utf8(&mut [0; 4]))
    }

    /// A first half that is followed by something else.
    pub(super) fn lone(&mut self) -> Result<(), Fault> {
        if self.high.take().is_some() { self.half() } else { Ok(()) }
    }

    /// Half a character in a text is the sender's mistake, and readers make of it what they like; in a name it matters.
    fn half(&mut self) -> Result<(), Fault> {
        if self.is_key {
            return Err(Fault::Surrogate);
        }
        self.character(u32::from(char::REPLACEMENT_CHARACTER))
    }
}
