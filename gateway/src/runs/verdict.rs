//! The verdict on a run: the house's own evidence first, then the report, then what was refused.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use box_spec::{Attestation, EndedBy, Report, RunVerdict};

use super::Run;
use super::record::Stain;

/// What the house saw of a run that its report cannot talk away.
pub(super) struct Evidence {
    refusals: AtomicU64,
    intrusions: AtomicU64,
    requests: AtomicU64,
    ceiling_reached: AtomicBool,
    attested: OnceLock<Attestation>,
    /// On disk before the box hears of it, that there was one of either. Their lines in the ledger come a moment later,
    /// and those of intrusions name no run.
    stain: Stain,
}

impl Evidence {
    pub(super) fn new(refusals: u64, requests: u64, attested: Option<Attestation>, stain: Stain) -> Self {
        Self {
            refusals: AtomicU64::new(refusals),
            intrusions: AtomicU64::new(0),
            requests: AtomicU64::new(requests),
            ceiling_reached: AtomicBool::new(false),
            attested: attested.map_or_else(OnceLock::new, OnceLock::from),
            stain,
        }
    }
}

impl Run {
    /// The house's own evidence that the run was cut at its ceiling. Whether this is news.
    pub fn reached_ceiling(&self) -> bool {
        !self.evidence.ceiling_reached.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_past_ceiling(&self) -> bool {
        self.evidence.ceiling_reached.load(Ordering::Acquire)
    }

    /// What the run's boxd proved, once it did, also to an earlier gateway.
    #[must_use]
    pub fn attested(&self) -> Option<&Attestation> {
        self.evidence.attested.get()
    }

    /// The attestation does. The first stands.
    pub(super) fn attest(&self, attestation: Attestation) {
        let _only_the_first = self.evidence.attested.set(attestation);
    }

    /// One more policy refusal that counts against the run.
    pub fn count_refusal(&self) {
        self.evidence.refusals.fetch_add(1, Ordering::Relaxed);
        self.evidence.stain.set();
    }

    /// What an earlier gateway counted, as its ledger tells.
    pub(super) fn had_counted(&self, requests: u64, refusals: u64) {
        self.evidence.requests.fetch_max(requests, Ordering::Relaxed);
        self.evidence.refusals.fetch_max(refusals, Ordering::Relaxed);
    }

    /// Another than the boxd that holds the door opened it.
    pub(super) fn count_intrusion(&self) {
        self.evidence.intrusions.fetch_add(1, Ordering::Relaxed);
        self.evidence.stain.set();
    }

    /// One more request let through.
    pub fn count_request(&self) {
        self.evidence.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub fn refusals(&self) -> u64 {
        self.evidence.refusals.load(Ordering::Relaxed)
    }

    pub fn requests(&self) -> u64 {
        self.evidence.requests.load(Ordering::Relaxed)
    }

    /// What the house makes of a reported run.
    #[must_use]
    pub fn verdict(&self, report: &Report) -> RunVerdict {
        if self.attested().is_none() {
            return RunVerdict::Failed("could not run: the box never attested".to_owned());
        }
        if self.is_stopped() || report.ended_by == EndedBy::Operator {
            return RunVerdict::Failed("stopped by an operator of the house".to_owned());
        }
        if self.is_past_ceiling() || report.ended_by == EndedBy::Ceiling {
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
            EndedBy::Exit | EndedBy::Ceiling | EndedBy::Operator => {}
        }
        if code != 0 {
            return RunVerdict::Failed(format!("{} ended with {code}", self.kind.who()));
        }
        self.held_against_it().map_or(RunVerdict::Completed, RunVerdict::Failed)
    }

    /// What spoils an end that looks good.
    pub(super) fn held_against_it(&self) -> Option<String> {
        let shows = format!("`gateway ledger tail --run {}` shows them", self.id);
        match (self.evidence.intrusions.load(Ordering::Relaxed), self.refusals()) {
            (0, 0) if self.evidence.stain.is_set() => Some(format!(
                "before the gateway started again, requests of it were refused, or its door was opened by somebody who is not boxd; {shows}"
            )),
            (0, 0) => None,
            (0, count) => Some(format!("{count} of its requests were refused by policy; {shows}")),
            (count, _) => Some(format!(
                "its door was opened {count} times by another than its boxd, be it something in the box or a second boxd at this door; the lines `refused` and `alarm` of box {} show it",
                self.box_id
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
