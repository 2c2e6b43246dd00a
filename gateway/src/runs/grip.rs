//! Grips: which claim connection speaks for a run. One that another took over has nothing to say any more.

use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// The right of one claim connection to speak for its run, until another takes the run up.
#[derive(Clone, Debug, Default)]
pub struct Grip {
    lost: CancellationToken,
}

/// The grips of one run, of which the last holds.
#[derive(Debug, Default)]
pub(super) struct Grips {
    last: Mutex<Grip>,
}

/// Where a run may be taken up from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reattach {
    /// Only when it waits: at a unix door a claim that is held is not lost.
    Waiting,
    /// Also when its claim is held: over a network the box may know of the break before the house does.
    AlsoHeld,
}

impl Grip {
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.lost.is_cancelled()
    }

    /// Resolves when another connection took the run up.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Grips {
    pub(super) fn now(&self) -> Grip {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another connection takes the run.
    pub(super) fn next(&self) -> Grip {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *last);
        before.lost.cancel();
        last.clone()
    }
}
