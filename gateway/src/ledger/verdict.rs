//! A verdict: sealed by the judge, and opened by the ledger alone once its line is written.

use crate::refusal::Told;

use super::entry::Entry;

/// Either something that may be used once it is written down, or a refusal; with the words of its line.
///
/// There is no way to the value but [`super::Ledger::enter`]: what was not written down cannot be used.
///
/// ```compile_fail,E0616
/// # use gateway::ledger::{Entry, Kind, Verdict};
/// let verdict = Verdict::allow("a permit", Entry::new(Kind::Request));
/// let permit = verdict.0;
/// ```
#[must_use = "a verdict says nothing until the ledger has written it"]
#[derive(Debug)]
pub struct Verdict<T>(Ruled<T>);

#[derive(Debug)]
pub(super) enum Ruled<T> {
    Allowed { value: T, entry: Entry },
    Refused { told: Told, entry: Entry },
}

impl<T> Verdict<T> {
    pub const fn allow(value: T, entry: Entry) -> Self {
        Self(Ruled::Allowed { value, entry })
    }

    /// The refusal's own words go into the entry: reason, verdict, grant, inside sentence and target.
    pub fn refuse(told: Told, entry: Entry) -> Self {
        let entry = entry.refusal(&told.refusal).with_target_if_none(told.target.as_ref());
        Self(Ruled::Refused { told, entry: entry.into_refused() })
    }

    pub(super) fn open(self) -> Ruled<T> {
        self.0
    }
}
