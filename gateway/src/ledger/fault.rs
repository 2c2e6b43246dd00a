//! Faults: why the ledger could not be opened, or did not take a line.

use std::io;
use std::path::PathBuf;

/// What the ledger's callers hear.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("open ledger {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("lock ledger {}: another gateway holds it", path.display())]
    Locked { path: PathBuf },
    #[error("read ledger {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("open ledger {}: the file holds something else", path.display())]
    NotALedger { path: PathBuf },
    #[error("start the ledger's writer")]
    Start(#[source] io::Error),
    /// The line may still be written when the ledger can; nobody may act on it.
    #[error("write a ledger line within the deadline")]
    Late,
    #[error("queue a ledger line: too many wait")]
    Full,
    #[error("write a ledger line: the ledger is closed")]
    Closed,
    #[error("write the ledger's last lines: the disk did not take them")]
    Lost,
    #[error("write a ledger line: {0}")]
    Down(String),
}

/// What went wrong with the file itself.
#[derive(Debug, thiserror::Error)]
pub(super) enum BookFault {
    #[error("append to the ledger: {0}")]
    Append(#[source] io::Error),
    #[error("cut the ledger back to its last whole line: {0}")]
    Cut(#[source] io::Error),
    #[error("make the ledger durable: {0}")]
    Sync(#[source] io::Error),
    #[error("the disk is too slow for the ledger: {bytes} bytes are not durable yet")]
    Behind { bytes: usize },
    #[error("look at the ledger: {0}")]
    Look(#[source] io::Error),
    #[error("the ledger's file was removed or replaced while the gateway was writing it")]
    Replaced,
    #[error("the ledger's file was changed by someone else: it has {found} bytes where {written} were written")]
    Changed { found: u64, written: u64 },
}
