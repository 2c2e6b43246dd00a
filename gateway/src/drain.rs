//! Drain: the house goes down in good order. It takes nothing new, and waits a while for what is open.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Whether the house is going down, and what it still waits for.
#[derive(Clone, Default)]
pub struct Drain {
    started: CancellationToken,
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

    /// Waits until nothing is held, at most `limit`. Tells whether all ended in time.
    pub async fn wait(&self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.open.wait()).await.is_ok()
    }
}
