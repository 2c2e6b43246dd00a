//! Stop: a run that an operator ends.

use std::sync::Arc;

use super::{Door, Run, Runs};

impl Runs {
    /// The run of this id, where it holds its door or waits for its box.
    #[must_use]
    pub fn under_way(&self, id: &str) -> Option<Arc<Run>> {
        let doors = self.lock();
        let found = doors.values().find_map(|door| match door {
            Door::Held(run) | Door::Waiting(run) if run.id.to_string() == id => Some(run),
            Door::Free | Door::Held(_) | Door::Waiting(_) | Door::Shut(_) => None,
        });
        found.map(Arc::clone)
    }
}

impl Run {
    /// The token dies and everything of the run is cut; whoever holds its claim is to tell the box.
    pub fn stop(&self) {
        self.stopped.cancel();
        self.cut();
    }

    /// Resolves when an operator has ended it.
    pub async fn stopped(&self) {
        self.stopped.cancelled().await;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.is_cancelled()
    }
}
