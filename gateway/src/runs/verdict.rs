//! The verdict on a run: the house's own evidence first, then the report, then the refusals.

use std::sync::atomic::Ordering;
use std::time::Duration;

use box_spec::{Attestation, EndedBy, Report, RunVerdict};

use super::Run;

impl Run {
    /// What the house makes of a reported run.
    #[must_use]
    pub fn verdict(&self, attested: Option<&Attestation>, report: &Report) -> RunVerdict {
        if attested.is_none() {
            return RunVerdict::Failed("could not run: the box never attested".to_owned());
        }
        if self.ceiling_reached.load(Ordering::Acquire) || report.ended_by == EndedBy::Ceiling {
            return RunVerdict::Failed(ceiling_text(self.ceiling));
        }
        let code = report.exit_code;
        match report.ended_by {
            EndedBy::Error => {
                let why = report.error.as_deref().unwrap_or("no reason given");
                return RunVerdict::Failed(format!("could not run: {why}"));
            }
            EndedBy::Signal => return RunVerdict::Failed(format!("ended by a signal to the box, with {code}")),
            EndedBy::Idle => return RunVerdict::Failed("ended for being idle".to_owned()),
            EndedBy::Exit | EndedBy::Ceiling => {}
        }
        if code != 0 {
            return RunVerdict::Failed(format!("the agent ended with {code}"));
        }
        match self.refusals() {
            0 => RunVerdict::Completed,
            count => RunVerdict::Failed(format!(
                "{count} of its requests were refused by policy; `gateway ledger tail --run {}` shows them",
                self.id
            )),
        }
    }
}

fn ceiling_text(ceiling: Option<Duration>) -> String {
    let Some(seconds) = ceiling.map(|ceiling| ceiling.as_secs()) else {
        return "reached its ceiling".to_owned();
    };
    let rest = seconds % 60 * 100 / 60;
    let minutes = seconds / 60;
    if rest == 0 {
        format!("reached its ceiling of {minutes} minutes")
    } else {
        format!("reached its ceiling of {minutes}.{rest:02} minutes")
    }
}
