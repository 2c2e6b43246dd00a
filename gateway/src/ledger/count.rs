//! Counting back: what a run had sent and been refused, read from the ledger after a restart.

use std::collections::HashMap;
use std::path::Path;

use box_spec::RunId;
use serde::{Deserialize, Serialize};

use crate::refusal::Reason;

use super::past::Weight;
use super::tail::{Tail, TailFault};

/// What the ledger holds of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    pub requests: u64,
    /// Refusals that are policy; repeats count as often as they came.
    pub refusals: u64,
}

impl Counts {
    pub(super) const fn add(&mut self, weight: Weight) {
        match weight {
            Weight::Request => self.requests = self.requests.saturating_add(1),
            Weight::Refusals(more) => self.refusals = self.refusals.saturating_add(more),
            Weight::Claim | Weight::None => {}
        }
    }
}

/// Reads the whole ledger once and counts for each of these runs.
///
/// # Errors
/// When the file cannot be read.
pub fn counts(file: &Path, runs: impl IntoIterator<Item = RunId>) -> Result<HashMap<RunId, Counts>, TailFault> {
    let mut counted: HashMap<RunId, Counts> = runs.into_iter().map(|run| (run, Counts::default())).collect();
    if counted.is_empty() {
        return Ok(counted);
    }
    Tail::open(file)?.read(|line| {
        // A line that is none was told at the start already.
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { return };
        let run = line.run.and_then(|run| run.parse::<RunId>().ok());
        let Some(counts) = run.and_then(|run| counted.get_mut(&run)) else { return };
        counts.add(Weight::of(line.kind, line.reason.and_then(Reason::of_code), line.count));
    })?;
    Ok(counted)
}

#[derive(Deserialize)]
struct Line<'a> {
    kind: &'a str,
    run: Option<&'a str>,
    reason: Option<&'a str>,
    count: Option<u64>,
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use box_spec::RunId;

    use super::{Counts, counts};

    #[test]
    fn policy_refusals_count_as_often_as_they_came_and_outages_not() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let run = "20260131T235959-0a1b2c3d";
        for (kind, run, rest) in [
            ("request", run, ""),
            ("request", run, ""),
            ("refused", run, r#","reason":"no-grant""#),
            ("repeated", run, r#","reason":"no-grant","count":4"#),
            ("closed", run, r#","reason":"sentinel-astray""#),
            ("refused", run, r#","reason":"credential-outage""#),
            ("refused", run, r#","reason":"upgrade-refused""#),
            ("refused", "20260131T235959-00000000", r#","reason":"no-grant""#),
            ("tunnel", run, ""),
        ] {
            writeln!(file, r#"{{"seq":1,"prev":"","kind":"{kind}","run":"{run}"{rest}}}"#).expect("written");
        }
        let run: RunId = run.parse().expect("a run");
        let counted = counts(file.path(), [run.clone()]).expect("it reads");
        assert_eq!(counted[&run], Counts { requests: 2, refusals: 6 });
    }
}
