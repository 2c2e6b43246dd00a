//! JSON (RFC 8259) read as it comes, piece by piece: nothing is kept but where the reader stands, keys and the beginnings of
//! texts. What two readers could take for different things is no JSON here.

mod text;

use memchr::memchr2;

use text::Text;

/// Something that stands in the text, in its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    Begin(Container),
    End(Container),
    /// The name of what follows, unescaped; `None` where it is longer than [`LONGEST_KEY`] bytes.
    Key(Option<&'a str>),
    /// A text, unescaped; `whole` is false where only its beginning was kept.
    Text {
        begins: &'a str,
        whole: bool,
    },
    /// `null`, or `false`.
    Nothing,
    /// `true` or a number.
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Container {
    Object,
    Array,
}

/// Who is told of what stands there, and may stop the reading.
pub trait Listener {
    type Stop;

    /// How many bytes of the text that begins now are wanted.
    fn wants(&self) -> usize;

    /// # Errors
    /// It has seen enough.
    fn hear(&mut self, event: Event<'_>) -> Result<(), Self::Stop>;
}

/// Why a text is not read on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken<S> {
    Json(Fault),
    Listener(S),
}

/// What is no JSON, or none that everybody reads alike.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Fault {
    #[error("it is no JSON")]
    Syntax,
    #[error("it is not UTF-8")]
    Utf8,
    #[error("it goes on after its end")]
    Trailing,
    #[error("it ends before it is whole")]
    Unfinished,
    #[error("it is nested more than {DEEPEST} deep")]
    Deep,
    #[error("a key holds half of a surrogate pair")]
    Surrogate,
}

/// A reader under way.
#[derive(Debug)]
pub struct Reader {
    expects: Expects,
    open: Vec<Container>,
    /// The last bytes of the piece before, where they began a character.
    begun: ([u8; 4], usize),
    text: Text,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expects {
    Value,
    /// A value, or the end of the array that has just begun.
    Item,
    /// A key, or the end of the object that has just begun.
    Member,
    Key,
    Colon,
    /// A comma or an end; after the outermost value nothing more.
    Next,
    Inside,
    Escaped,
    /// Digits of an escape that came, and their value.
    Digits(u8, u32),
    /// What is left of a word, and what it means.
    Word(&'static [u8], bool),
    Number(Number),
}

/// How far a number came (RFC 8259 §6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Part,
    E,
    Sign,
    Power,
}

impl Default for Reader {
    fn default() -> Self {
        Self { expects: Expects::Value, open: Vec::new(), begun: ([0; 4], 0), text: Text::default() }
    }
}

impl Reader {
    /// Reads on.
    ///
    /// # Errors
    /// What came so far is no JSON, or the listener stops it. Nothing can be read after that.
    pub fn read<L: Listener>(&mut self, piece: &[u8], listener: &mut L) -> Result<(), Broken<L::Stop>> {
        let mut piece = piece;
        while self.begun.1 > 0 && !piece.is_empty() {
            let (bytes, have) = &mut self.begun;
            bytes[*have] = piece[0];
            *have += 1;
            piece = &piece[1..];
            let (bytes, have) = self.begun;
            match std::str::from_utf8(&bytes[..have]) {
                Ok(character) => {
                    self.begun.1 = 0;
                    self.steps(character, listener)?;
                }
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(Broken::Json(Fault::Utf8)),
            }
        }
        match std::str::from_utf8(piece) {
            Ok(text) => self.steps(text, listener),
            Err(error) => {
                let (whole, begun) = piece.split_at(error.valid_up_to());
                // Just found to be so. It is judged first: what is wrong is said the same wherever the text is cut.
                self.steps(std::str::from_utf8(whole).unwrap_or_default(), listener)?;
                if error.error_len().is_some() {
                    return Err(Broken::Json(Fault::Utf8));
                }
                self.begun.0[..begun.len()].copy_from_slice(begun);
                self.begun.1 = begun.len();
                Ok(())
            }
        }
    }

    /// The end of what is read.
    ///
    /// # Errors
    /// It is not whole.
    pub fn end<L: Listener>(&mut self, listener: &mut L) -> Result<(), Broken<L::Stop>> {
        if let Expects::Number(_) = self.expects {
            self.number(b' ', listener)?;
        }
        let is_whole = self.expects == Expects::Next && self.open.is_empty() && self.begun.1 == 0;
        if is_whole { Ok(()) } else { Err(Broken::Json(Fault::Unfinished)) }
    }

    fn steps<L: Listener>(&mut self, text: &str, listener: &mut L) -> Result<(), Broken<L::Stop>> {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if self.expects == Expects::Inside {
                let left = &bytes[at..];
                let plain = memchr2(b'"', b'\\', left).unwrap_or(left.len());
                // No way out of the loop before its end, so that many bytes are looked at in one step.
                let is_odd = left[..plain].iter().fold(false, |odd, byte| odd | (*byte < b' '));
                let control = || left[..plain].iter().position(|byte| *byte < b' ');
                let good = if is_odd { control().unwrap_or(plain) } else { plain };
                self.text.keep(&text[at..at + good]).map_err(Broken::Json)?;
                if good < plain {
                    return Err(Broken::Json(Fault::Syntax));
                }
                at += plain;
                match bytes.get(at) {
                    Some(b'"') => self.close(listener)?,
                    Some(_) => self.expects = Expects::Escaped,
                    None => return Ok(()),
                }
            } else {
                self.step(bytes[at], listener)?;
            }
            at += 1;
        }
        Ok(())
    }

    fn step<L: Listener>(&mut self, byte: u8, listener: &mut L) -> Result<(), Broken<L::Stop>> {
        let is_blank = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match self.expects {
            Expects::Number(_) => self.number(byte, listener),
            Expects::Word(left, is_other) => {
                let [first, left @ ..] = left else { return Err(Broken::Json(Fault::Syntax)) };
                if *first != byte {
                    return Err(Broken::Json(Fault::Syntax));
                }
                if !left.is_empty() {
                    self.expects = Expects::Word(left, is_other);
                    return Ok(());
                }
                self.expects = Expects::Next;
                listener.hear(if is_other { Event::Other } else { Event::Nothing }).map_err(Broken::Listener)
            }
            Expects::Escaped => self.escaped(byte),
            Expects::Digits(have, value) => self.digit(have, value, byte),
            _ if is_blank => Ok(()),
            Expects::Value => self.value(byte, listener),
            Expects::Item if byte == b']' => self.leave(Container::Array, listener),
            Expects::Item => self.value(byte, listener),
            Expects::Member if byte == b'}' => self.leave(Container::Object, listener),
            Expects::Member | Expects::Key if byte == b'"' => {
                self.text.begin(true, LONGEST_KEY);
                self.expects = Expects::Inside;
                Ok(())
            }
            Expects::Colon if byte == b':' => {
                self.expects = Expects::Value;
                Ok(())
            }
            Expects::Next => self.next(byte, listener),
            Expects::Member | Expects::Key | Expects::Colon | Expects::Inside => Err(Broken::Json(Fault::Syntax)),
        }
    }

    fn value<L: Listener>(&mut self, byte: u8, listener: &mut L) -> Result<(), Broken<L::Stop>> {
        self.expects = match byte {
            b'{' => return self.enter(Container::Object, listener),
            b'[' => return self.enter(Container::Array, listener),
            b'"' => {
                self.text.begin(false, listener.wants());
                Expects::Inside
            }
            b't' => Expects::Word(b"rue", true),
            b'f' => Expects::Word(b"alse", false),
            b'n' => Expects::Word(b"ull", false),
            b'-' => Expects::Number(Number::Minus),
            b'0' => Expects::Number(Number::Zero),
            b'1'..=b'9' => Expects::Number(Number::Whole),
            _ => return Err(Broken::Json(Fault::Syntax)),
        };
        Ok(())
    }

    fn next<L: Listener>(&mut self, byte: u8, listener: &mut L) -> Result<(), Broken<L::Stop>> {
        match (byte, self.open.last()) {
            (_, None) => Err(Broken::Json(Fault::Trailing)),
            (b',', Some(container)) => {
                self.expects = match container {
                    Container::Object => Expects::Key,
                    Container::Array => Expects::Value,
                };
                Ok(())
            }
            (b'}', Some(Container::Object)) => self.leave(Container::Object, listener),
            (b']', Some(Container::Array)) => self.leave(Container::Array, listener),
            _ => Err(Broken::Json(Fault::Syntax)),
        }
    }

    fn enter<L: Listener>(&mut self, container: Container, listener: &mut L) -> Result<(), Broken<L::Stop>> {
        if self.open.len() == DEEPEST {
            return Err(Broken::Json(Fault::Deep));
        }
        self.open.push(container);
        self.expects = match container {
            Container::Object => Expects::Member,
            Container::Array => Expects::Item,
        };
        listener.hear(Event::Begin(container)).map_err(Broken::Listener)
    }

    fn leave<L: Listener>(&mut self, container: Container, listener: &mut L) -> Result<(), Broken<L::Stop>> {
        self.open.pop();
        self.expects = Expects::Next;
        listener.hear(Event::End(container)).map_err(Broken::Listener)
    }

    fn number<L: Listener>(&mut self, byte: u8, listener: &mut L) -> Result<(), Broken<L::Stop>> {
        let Expects::Number(so_far) = self.expects else { return Ok(()) };
        let next = match (so_far, byte) {
            (Number::Minus, b'0') => Some(Number::Zero),
            (Number::Minus, b'1'..=b'9') | (Number::Whole, b'0'..=b'9') => Some(Number::Whole),
            (Number::Zero | Number::Whole, b'.') => Some(Number::Point),
            (Number::Point | Number::Part, b'0'..=b'9') => Some(Number::Part),
            (Number::Zero | Number::Whole | Number::Part, b'e' | b'E') => Some(Number::E),
            (Number::E, b'+' | b'-') => Some(Number::Sign),
            (Number::E | Number::Sign | Number::Power, b'0'..=b'9') => Some(Number::Power),
            _ => None,
        };
        if let Some(next) = next {
            self.expects = Expects::Number(next);
            return Ok(());
        }
        if !matches!(so_far, Number::Zero | Number::Whole | Number::Part | Number::Power) {
            return Err(Broken::Json(Fault::Syntax));
        }
        self.expects = Expects::Next;
        listener.hear(Event::Other).map_err(Broken::Listener)?;
        self.step(byte, listener)
    }

    fn escaped<S>(&mut self, byte: u8) -> Result<(), Broken<S>> {
        let plain = match byte {
            b'"' => "\"",
            b'\\' => "\\",
            b'/' => "/",
            b'b' => "\u{8}",
            b'f' => "\u{c}",
            b'n' => "\n",
            b'r' => "\r",
            b't' => "\t",
            b'u' => {
                self.expects = Expects::Digits(0, 0);
                return Ok(());
            }
            _ => return Err(Broken::Json(Fault::Syntax)),
        };
        self.expects = Expects::Inside;
        self.text.keep(plain).map_err(Broken::Json)
    }

    fn digit<S>(&mut self, have: u8, value: u32, byte: u8) -> Result<(), Broken<S>> {
        let digit = char::from(byte).to_digit(16).ok_or(Broken::Json(Fault::Syntax))?;
        let value = value << 4 | digit;
        if have < 3 {
            self.expects = Expects::Digits(have + 1, value);
            return Ok(());
        }
        self.expects = Expects::Inside;
        self.text.unit(value).map_err(Broken::Json)
    }

    fn close<L: Listener>(&mut self, listener: &mut L) -> Result<(), Broken<L::Stop>> {
        self.text.lone().map_err(Broken::Json)?;
        let Text { is_key, kept, whole, .. } = &self.text;
        let event = if *is_key {
            self.expects = Expects::Colon;
            Event::Key(whole.then_some(kept))
        } else {
            self.expects = Expects::Next;
            Event::Text { begins: kept, whole: *whole }
        };
        listener.hear(event).map_err(Broken::Listener)
    }
}

/// Longer names are nobody's.
pub const LONGEST_KEY: usize = 256;
/// As deep as a text may nest.
pub const DEEPEST: usize = 256;

#[cfg(test)]
mod tests;
