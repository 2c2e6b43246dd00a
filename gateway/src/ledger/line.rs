//! A line that is open, and the outcome that closes it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderName;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::body::Notes;
use crate::refusal::Reason;

use super::entry::{Caller, time_text};
use super::past::Weight;
use super::queue::{Closing, Queue};
use super::shown;
use super::words::{Body, Words};

/// An opened line. It closes once: by [`Line::close`], or when it is dropped, as `cut` where its run was over and else as
/// `aborted`.
#[must_use = "a dropped line is closed as aborted"]
pub struct Line {
    sequence: u64,
    caller: Caller,
    opened: Instant,
    injected: Vec<HeaderName>,
    /// Cancelled when its run is over.
    over: Option<CancellationToken>,
    /// What is found in its body.
    body: Option<Notes>,
    /// Taken by the closing.
    queue: Option<Arc<Queue>>,
}

/// How it ended, and what passed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The status that the box was sent.
    pub status: Option<u16>,
    pub bytes_up: u64,
    pub bytes_down: u64,
    pub ended: Ended,
    pub reason: Option<Reason>,
    pub inside: Option<String>,
    /// Names of the headers that were set from the vault.
    pub injected: Vec<HeaderName>,
    /// How long the parts took, as `dial` or `first_byte`; the whole is measured by the line itself.
    pub timings: Vec<(&'static str, Duration)>,
}

/// How the exchange of a line ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Ended {
    Complete,
    /// The upstream stopped before its answer was whole.
    Incomplete,
    /// The box went away, or nobody said how it ended.
    #[default]
    Aborted,
    /// The house ended it: the run was over or cut.
    Cut,
    /// It never got so far as an answer.
    Failed,
}

impl Line {
    pub(super) const fn new(sequence: u64, caller: Caller, opened: Instant, queue: Arc<Queue>) -> Self {
        Self { sequence, caller, opened, injected: Vec::new(), over: None, body: None, queue: Some(queue) }
    }

    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Remembers what was injected, so that even an aborted line tells it.
    pub fn note_injected(&mut self, names: impl IntoIterator<Item = HeaderName>) {
        self.injected.extend(names);
    }

    /// Remembers what ends its run: where that came before it was dropped, the house cut it, and nobody went away.
    pub fn note_over(&mut self, over: CancellationToken) {
        self.over = Some(over);
    }

    /// Remembers what is found in its body while it passes.
    pub fn note_body(&mut self, notes: Notes) {
        self.body = Some(notes);
    }

    /// Closes the line. Never waits and never fails: its place was reserved when it was opened.
    pub fn close(mut self, outcome: Outcome) {
        self.end(outcome);
    }

    fn end(&mut self, mut outcome: Outcome) {
        let Some(queue) = self.queue.take() else {
            return;
        };
        outcome.injected.append(&mut self.injected);
        outcome.injected.truncate(INJECTED_LIMIT);
        let body = closed_body(self.sequence, &self.caller, outcome, self.opened.elapsed(), self.body.as_ref());
        queue.close_line(Closing { of: self.sequence, body });
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let is_cut = self.over.as_ref().is_some_and(CancellationToken::is_cancelled);
        let ended = if is_cut { Ended::Cut } else { Ended::Aborted };
        self.end(Outcome { ended, ..Outcome::default() });
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Ended {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::Aborted => "aborted",
            Self::Cut => "cut",
            Self::Failed => "failed",
        }
    }
}

/// The closing of a line whose gateway ended before it: nobody knows what became of it.
pub(super) fn unknown_body(of: u64, caller: &Caller, inside: &str) -> Body {
    let mut words = begun(of, caller);
    words.text("ended", "unknown");
    words.text("inside", inside);
    words.finish()
}

fn closed_body(of: u64, caller: &Caller, outcome: Outcome, lasted: Duration, body: Option<&Notes>) -> Body {
    let Outcome { status, bytes_up, bytes_down, ended, reason, inside, injected, timings } = outcome;
    let mut words = begun(of, caller);
    words.text("ended", ended.word());
    words.number_if("status", status.map(u64::from));
    words.number("bytes_up", bytes_up);
    words.number("bytes_down", bytes_down);
    words.text_if("reason", reason.map(Reason::code));
    words.text_if("inside", inside.as_deref().map(shown::sentence).as_deref());
    if !injected.is_empty() {
        words.texts("injected", injected.iter().map(HeaderName::as_str));
    }
    let notes = body.map(Notes::read).unwrap_or_default();
    if !notes.is_empty() {
        words.within("facts", |facts| {
            for (key, found) in &notes {
                facts.texts(key, found.iter().map(String::as_str));
            }
        });
    }
    words.number("lasted_us", micros(lasted));
    if !timings.is_empty() {
        words.within("timings_us", |parts| {
            for (part, time) in timings.into_iter().take(TIMINGS_LIMIT) {
                parts.number(part, micros(time));
            }
        });
    }
    words.finish().weighing(Weight::of("closed", reason, None))
}

fn begun(of: u64, caller: &Caller) -> Words {
    let mut words = Words::new();
    words.text("time", &time_text(Timestamp::now()));
    words.text("kind", "closed");
    words.number("of", of);
    caller.write(&mut words);
    words
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

const INJECTED_LIMIT: usize = 16;
const TIMINGS_LIMIT: usize = 16;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::{Outcome, closed_body};
    use crate::body::Notes;
    use crate::ledger::entry::Caller;

    #[test]
    fn what_was_found_in_a_body_stands_in_the_closing_whatever_it_says() {
        let notes = Notes::default();
        let odd = "a\"b\\c\n{}";
        for (key, what) in [("mcp_methods", "tools/call"), ("mcp_tools", odd), ("mcp_tools", odd)] {
            let _is_new = notes.add(key, what.to_owned());
        }
        let body = closed_body(7, &Caller::default(), Outcome::default(), Duration::ZERO, Some(&notes));
        let text = format!("{{\"seq\":8,{}", String::from_utf8_lossy(body.bytes()).trim_start_matches(','));
        let line: Value = serde_json::from_str(&text).unwrap_or_else(|fault| panic!("{fault}: {text}"));
        assert_eq!(line["facts"], json!({ "mcp_methods": ["tools/call"], "mcp_tools": [odd] }));
        assert_eq!((&line["of"], &line["ended"]), (&json!(7), &json!("aborted")));
    }
}
