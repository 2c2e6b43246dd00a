//! Rates: how often something may happen in a minute. A minute's worth may come at once; after that it is as many as time gives back.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How often one box may do one thing.
#[derive(Debug)]
pub struct Rate {
    per_minute: u64,
    left: Mutex<Left>,
}

/// What is left, in parts of which one deed takes [`PARTS`]: then a nanosecond gives back a whole number.
#[derive(Clone, Copy, Debug)]
struct Left {
    parts: u128,
    at: Instant,
}

impl Rate {
    #[must_use]
    pub fn per_minute(count: usize) -> Self {
        let per_minute = count as u64;
        Self { per_minute, left: Mutex::new(Left { parts: u128::from(per_minute) * PARTS, at: Instant::now() }) }
    }

    /// Whether it may happen once more; then it counts.
    #[must_use]
    pub fn allows(&self) -> bool {
        self.allows_at(Instant::now())
    }

    fn allows_at(&self, now: Instant) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let most = u128::from(self.per_minute) * PARTS;
        let given = now.saturating_duration_since(left.at).as_nanos() * u128::from(self.per_minute);
        let parts = left.parts.saturating_add(given).min(most);
        let is_allowed = parts >= PARTS;
        *left = Left { parts: if is_allowed { parts - PARTS } else { parts }, at: now.max(left.at) };
        is_allowed
    }
}

/// Nanoseconds of a minute.
const PARTS: u128 = 60_000_000_000;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Rate;

    #[test]
    fn a_minutes_worth_may_come_at_once_and_then_as_much_as_time_gives_back() {
        let (rate, start) = (Rate::per_minute(60), Instant::now());
        let times = |after: Duration| (0..1000).filter(|_| rate.allows_at(start + after)).count();
        assert_eq!(times(Duration::ZERO), 60);
        assert_eq!(times(Duration::from_millis(999)), 0);
        assert_eq!(times(Duration::from_secs(1)), 1);
        assert_eq!(times(Duration::from_millis(4500)), 3);
        assert_eq!(times(Duration::from_secs(5)), 1, "the half of a second before counts");
        assert_eq!(times(Duration::from_secs(4000)), 60, "no more than a minute's worth is saved up");
        assert_eq!(times(Duration::from_secs(1)), 0, "a clock that is behind gives nothing back");
    }
}
