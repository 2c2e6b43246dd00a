//! Lines: a whole ledger as a stream, in which what is no line is told as that and never passed over.

use std::io::{self, BufRead};

use super::pieces::Pieces;

/// Shows each line without its line feed, and `None` for each that is torn, or too long to be a ledger's.
///
/// # Errors
/// When the reader fails.
pub fn each(reader: impl BufRead, mut show: impl FnMut(Option<&[u8]>)) -> io::Result<()> {
    let mut pieces = Pieces::new(reader);
    let mut told = 0;
    while let Some(piece) = pieces.next_piece()? {
        if piece.is_whole {
            show(Some(piece.bytes));
        } else if told != piece.line {
            told = piece.line;
            show(None);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_no_line_is_told_once() {
        let long = "x".repeat(600 * 1024);
        let mut seen = Vec::new();
        super::each(format!("one\n{long}\n\ntwo\ntorn").as_bytes(), |line| seen.push(line.map(<[u8]>::len)))
            .expect("memory reads");
        assert_eq!(seen, [Some(3), None, Some(0), Some(3), None]);
    }
}
