//! Rounds: in each, every measure is taken of every subject, one right after the other, and the order turns about.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use bench::ground::Ground;
use tokio::runtime::Runtime;

use crate::measure::{self, Measure, Numbers, Size};
use crate::subject::{Prepare, Programs, Subject};

/// What all rounds gave.
pub(crate) struct Taken {
    /// By measure and subject: one entry for each round, empty where it failed.
    pub(crate) rounds: BTreeMap<(Measure, Subject), Vec<Option<Numbers>>>,
    /// Subjects that could not be had, and faults, each with the reason.
    pub(crate) missing: Vec<String>,
    pub(crate) versions: BTreeMap<Subject, String>,
}

pub(crate) struct Plan<'a> {
    pub(crate) measures: Vec<Measure>,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) rounds: usize,
    pub(crate) size: Size,
    pub(crate) ground: &'a Ground,
    pub(crate) runtime: &'a Runtime,
}

/// Takes all rounds. What fails is told and left empty; the others go on.
pub(crate) fn take(plan: &Plan<'_>, programs: &Programs) -> Taken {
    let mut taken = Taken { rounds: BTreeMap::new(), missing: Vec::new(), versions: BTreeMap::new() };
    let mut ready = BTreeMap::new();
    for subject in &plan.subjects {
        let prepared = subject.prepare(plan.ground, programs);
        match prepared.and_then(|prepared| Ok((prepared.version()?, prepared))) {
            Ok((version, prepared)) => {
                taken.versions.insert(*subject, version);
                ready.insert(*subject, prepared);
            }
            Err(fault) => taken.missing.push(format!("{}: {fault:#}", subject.name())),
        }
    }
    for round in 0..plan.rounds {
        for measure in &plan.measures {
            say(&format!("round {} of {}: {}", round + 1, plan.rounds, measure::name(*measure).unwrap_or_default()));
            let mut order: Vec<Subject> =
                measure.subjects().iter().copied().filter(|subject| ready.contains_key(subject)).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for subject in order {
                let numbers = one(plan, *measure, subject, &mut ready).map_err(|fault| {
                    let what =
                        format!("{} of {}: {fault:#}", measure::name(*measure).unwrap_or_default(), subject.name());
                    say(&what);
                    if !taken.missing.contains(&what) {
                        taken.missing.push(what);
                    }
                });
                taken.rounds.entry((*measure, subject)).or_default().push(numbers.ok());
            }
        }
    }
    taken
}

fn one(
    plan: &Plan<'_>,
    measure: Measure,
    subject: Subject,
    ready: &mut BTreeMap<Subject, Box<dyn Prepare>>,
) -> Result<Numbers> {
    let prepared = ready.get_mut(&subject).context("find the subject")?;
    measure.take(prepared.as_mut(), plan.ground, plan.runtime, &plan.size)
}

#[expect(clippy::print_stderr, reason = "progress is for the terminal")]
fn say(text: &str) {
    eprintln!("{text}");
}
