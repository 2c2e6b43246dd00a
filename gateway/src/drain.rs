//! Drain: the house goes down in good order. It takes nothing new, and waits a while for what is open.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Whether the house is going down, and what it still waits for.
#[derive(Clone, Default)]
pub struct Drain {
    started: CancellationToken,
    over: CancellationToken,
    open: TaskTracker,
}

impl Drain {
    /// From now on nothing new is taken.
    pub fn start(&self) {
        self.started.cancel();
        self.open.close();
    }

    /// Resolves when the house began to go down.
    pub async fn started(&self) {
        self.started.cancelled().await;
    }

    #[must_use]
    pub fn has_started(&self) -> bool {
        self.started.is_cancelled()
    }

    /// The house waits for whoever holds one of these.
    pub fn hold(&self) -> TaskTrackerToken {
        self.open.token()
    }

    /// How much is held now: connections at doors and the tunnels within them.
    #[must_use]
    pub fn held(&self) -> usize {
        self.open.len()
    }

    /// Resolves when the time to drain is over: what has no end of its own is cut now.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Waits until nothing is held, at most `limit`; then cuts. Tells whether all ended in time.
    pub async fn wait(&self, limit: Duration) -> bool {
        let in_time = tokio::time::timeout(limit, self.open.wait()).await.is_ok();
        self.over.cancel();
        if !in_time {
            // Whoever was cut still has its line to close.
            let _ = tokio::time::timeout(LAST_WORDS, self.open.wait()).await;
        }
        in_time
    }
}

const LAST_WORDS: Duration = Duration::from_millis(250);
