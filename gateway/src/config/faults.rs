//! Faults of a configuration: collected as they are found, told all at once in the order of the file.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Where something stands in the text, in bytes.
pub(super) type Span = Range<usize>;

/// Everything that is wrong with one file; never empty. Displays as one `FILE:LINE:COLUMN: message` a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigFaults {
    pub file: PathBuf,
    pub faults: Vec<ConfigFault>,
}

/// One thing that is wrong, and where; line and column count from 1, the column in characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigFault {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// Faults while they are collected.
#[derive(Debug, Default)]
pub(super) struct Faults {
    found: Vec<(Span, String)>,
}

impl Faults {
    /// What of the file is repeated in a message may be anything: it stays one line, and tells a terminal nothing.
    pub(super) fn add(&mut self, span: Span, message: impl Into<String>) {
        let mut message: String = message.into();
        if message.contains(char::is_control) {
            let escape =
                |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.into() };
            message = message.chars().map(escape).collect();
        }
        self.found.push((span, message));
    }

    /// Takes the value, or the fault.
    pub(super) fn take<T, E: fmt::Display>(&mut self, span: &Span, result: Result<T, E>) -> Option<T> {
        result.map_err(|fault| self.add(span.clone(), fault.to_string())).ok()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn placed(mut self, file: &Path, text: &str) -> ConfigFaults {
        self.found.sort_by_key(|(span, _)| span.start);
        // One line that became several grants has its fault in each of them.
        let mut told = BTreeSet::new();
        self.found.retain(|(span, message)| told.insert((span.start, message.clone())));
        let place = |(span, message): (Span, String)| {
            let before = text.get(..span.start).unwrap_or(text);
            let line_start = before.rfind('\n').map_or(0, |at| at + 1);
            ConfigFault {
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                message,
            }
        };
        ConfigFaults { file: file.to_owned(), faults: self.found.into_iter().map(place).collect() }
    }
}

impl ConfigFaults {
    /// One fault of the file as a whole.
    pub(super) fn whole(file: &Path, message: String) -> Self {
        Self { file: file.to_owned(), faults: vec![ConfigFault { line: 1, column: 1, message }] }
    }
}

impl fmt::Display for ConfigFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, ConfigFault { line, column, message }) in self.faults.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:{line}:{column}: {message}", self.file.display())?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigFaults {}
