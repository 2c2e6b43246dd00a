//! The command line: one command, one file.

pub mod serve;
pub mod check;
pub mod explain;
pub mod anew;
pub mod replay;
pub mod suggest;
pub mod presets;
pub mod ask;
pub mod status;
pub mod ready;
pub mod reload;
pub mod runs;
pub mod credential;
pub mod login;
pub mod ledger;

use tokio::signal::unix::{SignalKind, signal};

/// A limit of the size of files is a disk that takes no more, which is told by the write that fails: no reason to be killed.
fn outlive_file_limits() -> std::io::Result<()> {
    signal(SignalKind::from_raw(nix::libc::SIGXFSZ)).map(drop)
}

/// What a command ends with; the number is the process's exit code (sysexits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    /// Of a replay: the verdict of some request changes.
    Changed = 1,
    /// Of a replay: nothing is known to change, and not all is known.
    NotKnown = 2,
    /// Bad arguments or configuration.
    Usage = 64,
    /// The ledger is damaged.
    Damaged = 65,
    /// The gateway cannot serve, or does not answer.
    Unavailable = 69,
    /// A fault of the gateway's own.
    Internal = 70,
    /// Something that must be made cannot be.
    CannotCreate = 73,
    /// A request that was asked about would be refused.
    Refused = 77,
    /// A signal ended what a person had begun, as a shell counts it.
    Interrupted = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
