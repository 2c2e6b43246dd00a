//! Waiting for something to become true, with a deadline.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Asks every few milliseconds until there is an answer.
///
/// # Errors
///
/// When there is none in time; `what` says what was waited for.
pub fn until<T>(what: &str, time: Duration, mut ask: impl FnMut() -> Option<T>) -> Result<T> {
    let end = Instant::now() + time;
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if Instant::now() > end {
            bail!("waited {time:?} for {what}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
