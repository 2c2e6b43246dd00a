//! The past: what a start needs of the lines before, gathered line by line, by the writer as by the reader.

use std::collections::BTreeMap;

use box_spec::{BoxId, RunId};
use serde::{Deserialize, Serialize};

use crate::refusal::Reason;

use super::chain::Receipt;
use super::count::Counts;
use super::entry::Caller;

/// What a ledger holds up to one of its lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Past {
    /// Bytes of the file up to and with that line's line feed.
    pub(super) length: u64,
    /// Lines of the file up to there, also those that are none of the ledger's.
    pub(super) lines: u64,
    /// That line.
    pub(super) head: Receipt,
    /// Lines that await their closing.
    pub(super) open: BTreeMap<u64, Caller>,
    pub(super) tallies: Tallies,
}

impl Past {
    /// Of an empty ledger.
    pub(super) const NONE: Self =
        Self { length: 0, lines: 0, head: Receipt::NONE, open: BTreeMap::new(), tallies: Tallies(BTreeMap::new()) };
}

/// What a line adds to the counts of its run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Weight {
    #[default]
    None,
    /// The run begins.
    Claim,
    Request,
    /// So many refusals that count against it.
    Refusals(u64),
}

impl Weight {
    /// Of a line with these words; `count` is how often a repeated line came.
    pub(super) fn of(kind: &str, reason: Option<Reason>, count: Option<u64>) -> Self {
        let counts_against = reason.is_some_and(Reason::counts);
        match kind {
            "claim" => Self::Claim,
            "request" => Self::Request,
            "refused" | "closed" if counts_against => Self::Refusals(1),
            "repeated" if counts_against => Self::Refusals(count.unwrap_or(1)),
            _ => Self::None,
        }
    }
}

/// The counts of each box's last run. One that began before the first line of the ledger has none.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Tallies(BTreeMap<BoxId, Tally>);

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Tally {
    run: RunId,
    #[serde(flatten)]
    counts: Counts,
}

impl Tallies {
    /// Adds a line's weight to the run of its caller.
    pub(super) fn add(&mut self, caller: &Caller, weight: Weight) {
        let Caller { box_id: Some(box_id), run_id: Some(run_id) } = caller else {
            return;
        };
        if weight == Weight::Claim {
            self.0.insert(box_id.clone(), Tally { run: run_id.clone(), counts: Counts::default() });
            return;
        }
        let Some(tally) = self.0.get_mut(box_id).filter(|tally| tally.run == *run_id) else {
            return;
        };
        tally.counts.add(weight);
    }

    /// What is known of this run, if its claim was met.
    pub(super) fn of(&self, run: &RunId) -> Option<Counts> {
        self.0.values().find(|tally| tally.run == *run).map(|tally| tally.counts)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{Caller, Tallies, Weight};
    use crate::ledger::count::Counts;

    fn caller(run: &str) -> Caller {
        Caller { box_id: "one".parse().ok(), run_id: format!("20260131T235959-{run}").parse().ok() }
    }

    #[test]
    fn a_run_counts_from_its_claim_to_the_next_of_its_box() {
        let (first, second) = (caller("00000001"), caller("00000002"));
        let mut tallies = Tallies::default();
        tallies.add(&first, Weight::Request);
        assert_eq!(tallies, Tallies::default(), "what came before is not known, so nothing is");
        tallies.add(&first, Weight::Claim);
        tallies.add(&first, Weight::Request);
        tallies.add(&second, Weight::Refusals(3));
        tallies.add(&first, Weight::Refusals(2));
        let id = first.run_id.clone().expect("a run");
        assert_eq!(tallies.of(&id), Some(Counts { requests: 1, refusals: 2 }));
        tallies.add(&second, Weight::Claim);
        tallies.add(&first, Weight::Request);
        assert_eq!((tallies.of(&id), tallies.len()), (None, 1));
    }
}
