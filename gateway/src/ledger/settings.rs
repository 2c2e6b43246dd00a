//! Settings: where the ledger lies and how surely a line is kept before the request goes on.

use std::path::PathBuf;
use std::time::Duration;

/// What the configuration says of the ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The file; made with mode 0600 if it is not there.
    pub file: PathBuf,
    pub sync: SyncMode,
    /// How long a request waits for its line; after that it is refused.
    pub deadline: Duration,
}

/// When lines are made to survive a loss of power. A killed gateway loses none in either mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SyncMode {
    /// Grouped: at most 100 ms after they were written, off the request's path.
    #[default]
    Batch,
    /// Before the request goes on.
    Always,
}

impl Settings {
    /// # Defaults
    /// `sync = "batch"`, `deadline = "2s"`.
    #[must_use]
    pub const fn new(file: PathBuf) -> Self {
        Self { file, sync: SyncMode::Batch, deadline: DEADLINE }
    }
}

const DEADLINE: Duration = Duration::from_secs(2);
