//! A case, and how all of them are run: side by side first, then those that mostly wait, many at once, then those that
//! must be alone. Slow ones only when asked for.

use std::process::ExitCode;

use anyhow::Result;
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

use crate::needs::Need;
use crate::tools::Tools;

/// A test by name.
#[derive(Clone)]
pub struct Case {
    name: &'static str,
    needs: &'static [Need],
    round: Round,
    slow: bool,
    work: Work,
}

/// When a case runs, and beside how many.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    Beside,
    /// It spends its time waiting, so that many can go at once.
    Waiting,
    Alone,
}

#[derive(Clone, Copy)]
enum Work {
    Written(fn() -> Result<()>),
    /// One of many that are made from a table.
    Made(&'static (dyn Fn() -> Result<()> + Sync)),
}

/// A case that needs nothing and can run beside others.
#[must_use]
pub const fn case(name: &'static str, run: fn() -> Result<()>) -> Case {
    Case { name, needs: &[], round: Round::Beside, slow: false, work: Work::Written(run) }
}

/// One of many cases that are made from a table. Name and work live as long as the program.
#[must_use]
pub fn made(name: String, run: impl Fn() -> Result<()> + Sync + 'static) -> Case {
    let work = Work::Made(Box::leak(Box::new(run)));
    Case { name: name.leak(), needs: &[], round: Round::Beside, slow: false, work }
}

impl Case {
    /// What the machine must have; without it the case is skipped by name.
    #[must_use]
    pub const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }

    /// The case takes times, so nothing else may run.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.round = Round::Alone;
        self
    }

    /// The case mostly waits, for an agent's own retries for instance: it runs beside many of its kind.
    #[must_use]
    pub const fn waiting(mut self) -> Self {
        self.round = Round::Waiting;
        self
    }

    /// The case takes minutes: it is left out unless the command line's filter begins with `slow::`.
    #[must_use]
    pub const fn slow(mut self) -> Self {
        self.slow = true;
        self
    }

    /// Whether it says anything about an agent.
    fn is_about_an_agent(&self) -> bool {
        self.needs.iter().any(|need| matches!(need, Need::Agent | Need::Codex | Need::Pi))
    }

    fn trial(&self, arguments: &Arguments, skipped: &mut Vec<String>) -> Trial {
        let work = self.work;
        let run = move || match work {
            Work::Written(run) => run(),
            Work::Made(run) => run(),
        };
        let trial = Trial::test(self.name, move || run().map_err(|fault| Failed::from(format!("{fault:#}"))));
        // Some needs are looked at by trying, so nobody looks for a case that does not run.
        if arguments.list || !chosen(arguments, self.name) {
            return trial;
        }
        let Some(missing) = self.needs.iter().find_map(|need| need.missing()) else {
            return trial;
        };
        skipped.push(format!("skipped {}: {missing}", self.name));
        trial.with_ignored_flag(true)
    }
}

/// Runs what the command line chooses, and says at the end what was skipped and why. With other agents than the pinned
/// ones, only what says something about an agent.
#[must_use]
#[expect(clippy::print_stdout, reason = "the result of the tests is this program's output")]
pub fn run(cases: &[Case]) -> ExitCode {
    let arguments = Arguments::from_args();
    let slow_too = arguments.list || arguments.filter.as_ref().is_some_and(|filter| filter.starts_with(SLOW));
    let others = Tools::other_agents().is_some();
    let cases = cases.iter().filter(|case| !others || case.is_about_an_agent());
    let (cases, left_out): (Vec<&Case>, Vec<&Case>) = cases.partition(|case| slow_too || !case.slow);
    let mut skipped = Vec::new();
    let mut run = |round: Round, threads: Option<usize>| -> Conclusion {
        let trials =
            cases.iter().filter(|case| case.round == round).map(|case| case.trial(&arguments, &mut skipped)).collect();
        let mut arguments = arguments.clone();
        arguments.test_threads = threads.or(arguments.test_threads);
        libtest_mimic::run(&arguments, trials)
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let many = arguments.test_threads.or(Some(cores * WAITING_PER_CORE));
    let rounds = [run(Round::Beside, None), run(Round::Waiting, many), run(Round::Alone, Some(1))];
    if arguments.list {
        return ExitCode::SUCCESS;
    }
    for line in &skipped {
        println!("{line}");
    }
    for case in left_out.iter().filter(|case| chosen(&arguments, case.name)) {
        println!("left to `cargo xtask agents --slow`: {}", case.name);
    }
    let sum = |count: fn(&Conclusion) -> u64| rounds.iter().map(count).sum::<u64>();
    let failed = sum(|round| round.num_failed);
    println!("{} passed, {failed} failed, {} skipped", sum(|round| round.num_passed), sum(|round| round.num_ignored));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn chosen(arguments: &Arguments, name: &str) -> bool {
    let fits = |text: &String| {
        if arguments.exact { name == text } else { name.contains(text.as_str()) }
    };
    arguments.filter.as_ref().is_none_or(fits) && !arguments.skip.iter().any(fits)
}

const SLOW: &str = "slow::";
const WAITING_PER_CORE: usize = 4;
