//! Percent escapes: a text taken apart, byte by byte. What to make of an escape is for each reader to say.

/// One byte of what a text stands for, and how it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    Plain(u8),
    /// From `%XX`.
    Escaped(u8),
    /// A percent sign that begins no escape.
    Stray,
}

/// One round: what comes out may look like an escape again.
pub fn pieces(text: &str) -> impl Iterator<Item = Piece> + '_ {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let [first, after @ ..] = rest else { return None };
        rest = after;
        if *first != b'%' {
            return Some(Piece::Plain(*first));
        }
        let Some([high, low]) = after.first_chunk::<2>() else { return Some(Piece::Stray) };
        let (Some(high), Some(low)) = (hex(*high), hex(*low)) else { return Some(Piece::Stray) };
        rest = &after[2..];
        Some(Piece::Escaped(high << 4 | low))
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::Piece::{Escaped, Plain, Stray};
    use super::pieces;

    #[test]
    fn a_text_is_taken_apart_once() {
        assert!(pieces("a%2Fb%2f").eq([Plain(b'a'), Escaped(b'/'), Plain(b'b'), Escaped(b'/')]));
        assert!(pieces("%252F").eq([Escaped(b'%'), Plain(b'2'), Plain(b'F')]));
        assert!(pieces("%+1%g0%4").eq([
            Stray,
            Plain(b'+'),
            Plain(b'1'),
            Stray,
            Plain(b'g'),
            Plain(b'0'),
            Stray,
            Plain(b'4')
        ]));
    }
}
