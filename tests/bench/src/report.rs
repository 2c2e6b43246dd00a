//! What was found: a table for people, JSON for everything else.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::figure::{FIGURES, Figure, Rule, Target};
use crate::rounds::{Plan, Taken};
use crate::subject::Subject;

/// The values of a figure in all rounds, for one subject.
fn values(taken: &Taken, figure: &Figure, subject: Subject) -> Vec<Option<f64>> {
    let of = |subject| {
        let rounds = taken.rounds.get(&(figure.measure, subject)).map_or(&[][..], Vec::as_slice);
        rounds.iter().map(|round| round.as_ref().and_then(|round| round.get(figure.key).copied())).collect::<Vec<_>>()
    };
    let own = of(subject);
    if !figure.over_direct {
        return own;
    }
    let direct = of(Subject::Direct);
    own.iter().zip(direct).map(|(own, direct)| Some((*own)? - direct?)).collect()
}

/// The middle of those that are there.
fn median(values: &[Option<f64>]) -> Option<f64> {
    let mut values: Vec<f64> = values.iter().copied().flatten().filter(|value| value.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.is_empty() {
        None
    } else if values.len() % 2 == 1 {
        Some(values[middle])
    } else {
        Some(f64::midpoint(values[middle - 1], values[middle]))
    }
}

/// From the least to the most, as a share of the middle.
fn spread(values: &[Option<f64>]) -> Option<f64> {
    let there = values.iter().copied().flatten().filter(|value| value.is_finite());
    let (least, most) = there.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
    median(values).map(|middle| (most - least) / middle)
}

/// The middle of what was found in the same rounds.
fn together(one: &[Option<f64>], other: &[Option<f64>], of: fn(f64, f64) -> f64) -> Option<f64> {
    median(&one.iter().zip(other).map(|(one, other)| Some(of((*one)?, (*other)?))).collect::<Vec<_>>())
}

struct Judged {
    wanted: String,
    found: Option<f64>,
    met: Option<bool>,
}

fn judge(taken: &Taken, figure: &Figure, target: &Target) -> Judged {
    let own = values(taken, figure, target.of);
    let ratio = |to| together(&own, &values(taken, figure, to), |a, b| a / b);
    let who = target.of.name();
    let (wanted, found, limit) = match target.rule {
        Rule::Most(limit) => (format!("{who} ≤ {limit}"), median(&own), limit),
        Rule::Times(to, limit) => (format!("{who} ≤ {limit}× {}", to.name()), ratio(to), limit),
        Rule::AtLeastTimes(to, limit) => (format!("{who} ≥ {limit}× {}", to.name()), ratio(to), limit),
        Rule::MoreBy(than, limit) => {
            let more = together(&own, &values(taken, figure, than), |a, b| a - b);
            (format!("{who} ≤ {} + {limit}", than.name()), more, limit)
        }
    };
    let at_least = matches!(target.rule, Rule::AtLeastTimes(..));
    Judged { wanted, found, met: found.map(|found| if at_least { found >= limit } else { found <= limit }) }
}

/// Figures in rows, subjects in columns; below it what was to be reached.
pub(crate) fn table(plan: &Plan<'_>, taken: &Taken) -> String {
    let mut text = String::from("| figure |");
    for subject in &plan.subjects {
        let _infallible = write!(text, " {} |", subject.name());
    }
    text.push_str(" spread | to reach: found |\n|");
    text.push_str(&" --- |".repeat(plan.subjects.len() + 3));
    text.push('\n');
    for figure in FIGURES.iter().filter(|figure| plan.measures.contains(&figure.measure)) {
        let _infallible = write!(text, "| {} |", figure.name);
        for subject in &plan.subjects {
            let _infallible = write!(text, " {} |", short(median(&values(taken, figure, *subject))));
        }
        let spread =
            spread(&values(taken, figure, figure.targets.first().map_or(Subject::Boxgate, |target| target.of)));
        let _infallible =
            write!(text, " {} |", spread.map_or_else(|| "–".to_owned(), |spread| format!("{:.0} %", spread * 100.0)));
        let judged = figure.targets.iter().map(|target| {
            let judged = judge(taken, figure, target);
            let met = judged.met.map_or("not measured", |met| if met { "met" } else { "**missed**" });
            format!("{}: {} {met}", judged.wanted, short(judged.found))
        });
        let _infallible = writeln!(text, " {} |", judged.collect::<Vec<_>>().join("; "));
    }
    let (middle, most) = foreign(taken);
    let _infallible = writeln!(
        text,
        "\nMedians of {} rounds; ratios are of the same round. Spread: least to most of boxgate's rounds, by their median. {} × {}; cores that others kept busy: median {}, most {}.",
        plan.rounds,
        std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        cpu_model(),
        short(middle),
        short(Some(most)),
    );
    for line in &taken.missing {
        let _infallible = writeln!(text, "\nnot measured: {line}");
    }
    text
}

/// Everything: every value of every round, versions, the machine.
pub(crate) fn json(plan: &Plan<'_>, taken: &Taken) -> Value {
    let figures = FIGURES.iter().filter(|figure| plan.measures.contains(&figure.measure)).map(|figure| {
        let by = |of: &dyn Fn(Subject) -> Value| -> Value {
            plan.subjects.iter().map(|subject| (subject.name().to_owned(), of(*subject))).collect()
        };
        json!({
            "figure": figure.name,
            "values": by(&|subject| json!(values(taken, figure, subject))),
            "median": by(&|subject| json!(median(&values(taken, figure, subject)))),
            "spread": by(&|subject| json!(spread(&values(taken, figure, subject)))),
            "targets": figure.targets.iter().map(|target| {
                let judged = judge(taken, figure, target);
                json!({"wanted": judged.wanted, "found": judged.found, "met": judged.met})
            }).collect::<Vec<_>>(),
        })
    });
    let raw = taken.rounds.iter().map(|((measure, subject), rounds)| {
        json!({"measure": format!("{measure:?}"), "subject": subject.name(), "rounds": rounds})
    });
    json!({
        "rounds": plan.rounds,
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "cpu": cpu_model(),
        "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "versions": taken.versions.iter().map(|(subject, version)| (subject.name(), version)).collect::<std::collections::BTreeMap<_, _>>(),
        "foreign_cores": {"median": foreign(taken).0, "most": foreign(taken).1},
        "figures": figures.collect::<Vec<_>>(),
        "missing": taken.missing,
        "measures": raw.collect::<Vec<_>>(),
    })
}

/// What the machine is called.
fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| Some(line.split_once(": ")?.1.to_owned())).unwrap_or_default()
}

/// How many cores others kept busy while measures were taken: the middle, and the most.
fn foreign(taken: &Taken) -> (Option<f64>, f64) {
    let all: Vec<Option<f64>> =
        taken.rounds.values().flatten().flatten().map(|round| round.get("foreign").copied()).collect();
    (median(&all), all.iter().copied().flatten().fold(0.0, f64::max))
}

fn short(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}
