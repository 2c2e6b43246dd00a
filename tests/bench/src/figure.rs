//! The figures: what each is called, which measure gives it, and what it is to reach.

use crate::measure::Measure;
use crate::subject::Subject;

/// One figure.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) measure: Measure,
    /// Under which name the measure gives it.
    pub(crate) key: &'static str,
    /// What the direct path takes is not the subject's, and is taken away.
    pub(crate) over_direct: bool,
    pub(crate) targets: &'static [Target],
}

/// What a subject is to reach.
pub(crate) struct Target {
    pub(crate) of: Subject,
    pub(crate) rule: Rule,
}

#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// At most this, in the figure's own unit.
    Most(f64),
    /// At most this many times the other's, in the same round.
    Times(Subject, f64),
    /// At least this many times the other's.
    AtLeastTimes(Subject, f64),
    /// At most this more than the other's.
    MoreBy(Subject, f64),
}

use Rule::{AtLeastTimes, MoreBy, Most, Times};
use Subject::{Boxgate, BoxgateAlways, BoxgateBox, BoxgateTcp, Hudsucker, Nginx};

pub(crate) const FIGURES: [Figure; 21] = [
    figure("CPU µs per new connection, known host", Measure::Connect, "cpu", &[boxgate(Times(Hudsucker, 1.0))]),
    figure("new connections/s, 16 at a time", Measure::Connect, "rate", &[boxgate(AtLeastTimes(Hudsucker, 1.0))]),
    figure("CPU µs per connection, new host", Measure::Mint, "cpu", &[boxgate(Times(Hudsucker, 0.8))]),
    figure(
        "CPU s per 10,000 requests, 16 connections",
        Measure::Sixteen,
        "cpu",
        &[boxgate(Times(Nginx, 1.1)), boxgate(Times(Hudsucker, 1.0))],
    ),
    figure("request p99 µs, 16 connections", Measure::Sixteen, "p99", &[boxgate(Times(Nginx, 1.0))]),
    figure(
        "request p50 µs, 1 connection",
        Measure::Single,
        "p50",
        &[boxgate(Times(Nginx, 1.0)), Target { of: BoxgateBox, rule: MoreBy(BoxgateTcp, 25.0) }],
    ),
    figure(
        "requests/s, 64 connections",
        Measure::SixtyFour,
        "rate",
        &[boxgate(AtLeastTimes(Hudsucker, 1.0)), Target { of: BoxgateAlways, rule: AtLeastTimes(Boxgate, 0.5) }],
    ),
    figure("CPU s per GB down", Measure::Down, "cpu", &[boxgate(Times(Hudsucker, 1.0))]),
    figure("CPU s per GB down, the shim's own", Measure::Down, "shim", &[Target { of: BoxgateBox, rule: Most(0.25) }]),
    figure("CPU s per GB up", Measure::Up, "cpu", &[boxgate(Times(Hudsucker, 1.0))]),
    over_direct("1,000 streams: event p50 µs over direct", "p50", &[boxgate(Times(Hudsucker, 1.0))]),
    over_direct("1,000 streams: event p99 µs over direct", "p99", &[boxgate(Times(Hudsucker, 1.0))]),
    figure("1,000 streams: CPU µs per event", Measure::Events, "cpu", &[boxgate(Times(Hudsucker, 1.0))]),
    figure(
        "KiB per idle connection, 5,000 held",
        Measure::Idle,
        "memory",
        &[boxgate(Times(Nginx, 1.0)), boxgate(Most(24.0))],
    ),
    figure("MiB at rest", Measure::Start, "memory", &[boxgate(Most(8.0))]),
    figure(
        "ms from start to the first answer",
        Measure::Start,
        "ms",
        &[boxgate(Times(Hudsucker, 1.0)), boxgate(Most(100.0))],
    ),
    figure("the same, with a CA and a ledger of 1 GiB", Measure::StartOld, "ms", &[boxgate(Most(50.0))]),
    figure("instructions, 10,000 grants : 10", Measure::ManyGrants, "ratio", &[boxgate(Most(1.05))]),
    figure("instructions, a long ledger : an empty one", Measure::LongLedger, "ratio", &[boxgate(Most(1.05))]),
    figure("instructions, 1,000 doors : 1", Measure::ManyDoors, "ratio", &[boxgate(Most(1.05))]),
    figure("KiB per idle door", Measure::ManyDoors, "door", &[boxgate(Most(32.0))]),
];

const fn figure(name: &'static str, measure: Measure, key: &'static str, targets: &'static [Target]) -> Figure {
    Figure { name, measure, key, over_direct: false, targets }
}

const fn over_direct(name: &'static str, key: &'static str, targets: &'static [Target]) -> Figure {
    Figure { name, measure: Measure::Events, key, over_direct: true, targets }
}

const fn boxgate(rule: Rule) -> Target {
    Target { of: Boxgate, rule }
}
