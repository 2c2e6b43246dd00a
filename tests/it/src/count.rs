//! The gateway's instructions against the numbers that the repository keeps: a change cannot make the path slower unseen.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use bench::count::{Work, per_unit};
use bench::ground::Wanted;
use harness::{Case, Need, Tools, case};

pub(crate) const CASES: &[Case] = &[
    case("count::a_request_costs_the_instructions_that_are_kept", || held(Work::Requests)).needs(NEEDS).waiting(),
    case("count::a_connection_costs_the_instructions_that_are_kept", || held(Work::Connections)).needs(NEEDS).waiting(),
    case("count::a_new_host_costs_the_instructions_that_are_kept", || held(Work::Hosts)).needs(NEEDS).waiting(),
    case("count::a_request_costs_the_same_with_a_hundred_times_the_grants", many_grants).needs(NEEDS).waiting(),
    case("count::a_request_costs_the_same_with_a_long_ledger", long_ledger).needs(NEEDS).waiting(),
    case("count::a_request_costs_the_same_with_a_hundred_doors", many_doors).needs(NEEDS).waiting(),
];

fn many_grants() -> Result<()> {
    flat("1,000 grants", Wanted { grants: 1000, ..FEW })
}

fn long_ledger() -> Result<()> {
    flat("a ledger of 1.5 MiB", Wanted { history: 3 << 19, ..FEW })
}

fn many_doors() -> Result<()> {
    flat("100 doors", Wanted { boxes: 100, ..FEW })
}

/// What a house has more of is not paid for by each request.
fn flat(what: &str, more: Wanted) -> Result<()> {
    static LEAST: Mutex<Option<f64>> = Mutex::new(None);
    let least = {
        let mut known = LEAST.lock().unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some(least) => least,
            None => *known.insert(per_unit(Work::Requests, &FEW)?),
        }
    };
    let found = per_unit(Work::Requests, &more)?;
    ensure!(
        found <= least * FLAT,
        "a request takes {found:.0} instructions with {what}, and {least:.0} with 10 grants, one door and an empty ledger"
    );
    Ok(())
}

/// Neither more, nor so much less that the number kept says nothing any more.
fn held(work: Work) -> Result<()> {
    let found = per_unit(work, &Wanted { in_memory: true, ..Wanted::default() })?;
    let kept = kept(work)?;
    let share = found / kept - 1.0;
    if std::env::var_os("BOXGATE_BLESS").is_some() {
        return bless(work, found);
    }
    if share.abs() <= TOLERANCE {
        return Ok(());
    }
    let word = if share > 0.0 { "more" } else { "less" };
    bail!(
        "one of {} takes {found:.0} instructions, {:.1} % {word} than the {kept:.0} that {FILE} keeps; where that is meant, write it anew with BOXGATE_BLESS=1 and say why in the commit",
        work.name(),
        share.abs() * 100.0
    )
}

fn lines() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(Tools::workspace().join(FILE)).with_context(|| format!("read {FILE}"))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn kept(work: Work) -> Result<f64> {
    let lines = lines()?;
    let line = lines.iter().find_map(|line| line.strip_prefix(work.name())?.trim_start().strip_prefix('='));
    let value = line.with_context(|| format!("find {} in {FILE}", work.name()))?;
    value.trim().replace('_', "").parse().with_context(|| format!("read {} in {FILE}", work.name()))
}

fn bless(work: Work, found: f64) -> Result<()> {
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());
    let _alone = ONE_BY_ONE.lock();
    let name = work.name();
    let fresh = lines()?
        .into_iter()
        .map(|line| if line.starts_with(name) { format!("{name} = {found:.0}\n") } else { line + "\n" });
    harness::files::put(&Tools::workspace().join(FILE), fresh.collect::<String>().as_bytes(), 0o644)
}

const FEW: Wanted = Wanted { grants: 10, boxes: 1, history: 0, sync: "batch", in_memory: true, patient: false };
/// So many times the instructions at most.
const FLAT: f64 = 1.05;
const NEEDS: &[Need] = &[Need::Gateway, Need::Valgrind];
const FILE: &str = "tests/it/instructions.toml";
/// Runs of the same build differ by less than a tenth of this.
const TOLERANCE: f64 = 0.05;
