//! The tail: whole lines of a ledger that may still be growing.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::pieces::Pieces;

/// A place in a ledger; remembers up to where whole lines have been read.
#[derive(Debug)]
pub struct Tail {
    file: File,
    position: u64,
}

/// Why reading stopped.
#[derive(Debug, thiserror::Error)]
pub enum TailFault {
    #[error("open ledger {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("read the ledger")]
    Read(#[source] io::Error),
    #[error("the ledger became shorter while it was read: its tail was cut off")]
    Cut,
}

impl Tail {
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, TailFault> {
        let file = File::open(path).map_err(|source| TailFault::Open { path: path.to_owned(), source })?;
        Ok(Self { file, position: 0 })
    }

    /// Shows each whole line that has not been shown yet, without its line feed. A line under way waits for the next call.
    ///
    /// # Errors
    /// When the file cannot be read, or has become shorter.
    pub fn read(&mut self, mut show: impl FnMut(&[u8])) -> Result<(), TailFault> {
        let length = self.file.metadata().map_err(TailFault::Read)?.len();
        if length < self.position {
            return Err(TailFault::Cut);
        }
        self.file.seek(SeekFrom::Start(self.position)).map_err(TailFault::Read)?;
        let mut pieces = Pieces::new(BufReader::new(&self.file));
        let mut partial = 0;
        while let Some(piece) = pieces.next_piece().map_err(TailFault::Read)? {
            partial += piece.bytes.len() as u64;
            if !piece.ends_in_line_feed {
                continue;
            }
            self.position += std::mem::take(&mut partial) + 1;
            if piece.is_whole {
                show(piece.bytes);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{Tail, TailFault};

    #[test]
    fn a_line_under_way_is_shown_once_it_is_whole() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let mut tail = Tail::open(file.path()).expect("it is there");
        let mut seen = Vec::new();
        for part in ["one\ntw", "o\n", "", "three\n"] {
            file.write_all(part.as_bytes()).expect("a write");
            tail.read(|line| seen.push(String::from_utf8_lossy(line).into_owned())).expect("it reads");
        }
        assert_eq!(seen, ["one", "two", "three"]);
        file.as_file().set_len(3).expect("a cut");
        assert!(matches!(tail.read(|_| {}), Err(TailFault::Cut)));
    }
}
