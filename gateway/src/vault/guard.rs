//! Guard: what no request of a box may carry, wherever: every value that the house has. They are searched for as one.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use crate::echo::{Needles, Unsearchable};

use super::Vault;

/// The search as it was made last.
#[derive(Debug, Default)]
pub(super) struct Guard {
    state: RandomState,
    last: Mutex<Option<Made>>,
}

#[derive(Debug)]
struct Made {
    at: Instant,
    /// Of all values: whether they are still the same.
    digest: u64,
    needles: Arc<Needles>,
}

impl Vault {
    /// A search for all that the house has, as its sources held it within the last second.
    ///
    /// # Errors
    /// No such search can be made: nothing may go out unsearched.
    pub fn guard(&self) -> Result<Arc<Needles>, Unsearchable> {
        let mut last = self.guard.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = last.as_ref().filter(|made| made.at.elapsed() < FRESH) {
            return Ok(Arc::clone(&made.needles));
        }
        let mut values: Vec<Zeroizing<String>> = Vec::new();
        let mut hasher = self.guard.state.build_hasher();
        for entry in self.entries.values() {
            entry.held.each_value(&entry.config.whose, &mut |value| {
                hasher.write(value.as_bytes());
                hasher.write_u8(0);
                values.push(Zeroizing::new(value.to_owned()));
            });
        }
        let (at, digest) = (Instant::now(), hasher.finish());
        let needles = match last.take() {
            Some(made) if made.digest == digest => made.needles,
            _ => Arc::new(Needles::of_all(values.iter().map(|value| value.as_str()))?),
        };
        *last = Some(Made { at, digest, needles: Arc::clone(&needles) });
        Ok(needles)
    }
}

/// How long a search stands before the sources are looked at again.
const FRESH: Duration = Duration::from_secs(1);
