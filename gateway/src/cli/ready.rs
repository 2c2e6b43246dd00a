//! `gateway ready`: whether a running gateway is ready, as an exit code; for the health check of a container.

use std::path::Path;

use super::ask::{AskFault, ask};

/// Whether the doors are open, the ledger can be written and the house does not go down; and the same as a line.
/// No upstream is asked: one that is down restarts nothing.
///
/// # Errors
/// The gateway does not answer.
pub fn run(socket: &Path) -> Result<(bool, String), AskFault> {
    let (ready, said) = ask(socket, "GET", "/readyz")?;
    let text = match (ready, said["ledger_writable"] == true) {
        (true, _) => "ready",
        (false, false) => "not ready: the ledger cannot be written; `gateway status` says why",
        (false, true) => "not ready: the house goes down",
    };
    Ok((ready, format!("{text}\n")))
}
