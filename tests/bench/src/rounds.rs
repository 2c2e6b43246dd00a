//! Rounds: in each, every measure is taken of every subject, one right after the other, and the order turns about.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use bench::ground::Ground;
use clap::ValueEnum;
use serde_json::{Value, json};
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
    /// Where what was taken is kept from measure to measure.
    pub(crate) kept: Option<PathBuf>,
}

/// Takes all rounds. What fails is told and left empty; the others go on.
pub(crate) fn take(plan: &Plan<'_>, programs: &Programs) -> Result<Taken> {
    let mut taken = plan.earlier()?;
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
        for measure in plan.measures.iter().filter(|measure| round == 0 || !measure.is_steady()) {
            if measure.subjects().iter().any(|subject| taken.has(*measure, *subject, round)) {
                continue;
            }
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
            plan.keep(&taken)?;
        }
    }
    Ok(taken)
}

impl Taken {
    fn has(&self, measure: Measure, subject: Subject, round: usize) -> bool {
        self.rounds.get(&(measure, subject)).is_some_and(|rounds| rounds.len() > round)
    }
}

impl Plan<'_> {
    /// What an earlier run took before it was broken off; nothing where there was none, or it measured something else.
    fn earlier(&self) -> Result<Taken> {
        let mut taken = Taken { rounds: BTreeMap::new(), missing: Vec::new(), versions: BTreeMap::new() };
        let Some(text) = self.kept.as_ref().and_then(|path| std::fs::read_to_string(path).ok()) else {
            return Ok(taken);
        };
        let kept: Value = serde_json::from_str(&text).context("parse what an earlier run took; remove the file")?;
        ensure!(
            kept["size"] == self.size.words(),
            "an earlier run that can be resumed was of another size; remove its file"
        );
        for measure in Measure::value_variants() {
            for subject in Subject::value_variants() {
                let rounds = &kept["rounds"][measure::name(*measure)?][subject.name()];
                if let Ok(rounds) = serde_json::from_value(rounds.clone()) {
                    taken.rounds.insert((*measure, *subject), rounds);
                }
            }
        }
        Ok(taken)
    }

    #[expect(clippy::disallowed_methods, reason = "a note to itself, where it was asked for")]
    fn keep(&self, taken: &Taken) -> Result<()> {
        let Some(path) = &self.kept else {
            return Ok(());
        };
        let mut rounds = json!({});
        for ((measure, subject), numbers) in &taken.rounds {
            rounds[measure::name(*measure)?][subject.name()] = json!(numbers);
        }
        let text = json!({ "size": self.size.words(), "rounds": rounds }).to_string();
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
    }
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
