//! The matrix: every agent with every login on every transport, through everything that can happen to a run. Each cell is a case.
//!
//! What each cell expects stands in `expect`; what holds in every cell (no sentinel upstream, no secret in the box, a line for
//! each request) in `judge`.

pub(crate) mod seat;
mod event;
mod expect;
pub(crate) mod play;
mod tool;
mod judge;
pub(crate) mod table;

use harness::{Case, Need, made};

use event::Event;
use seat::Seat;

/// A case for each cell that there is.
pub(crate) fn cases() -> Vec<Case> {
    let case = |(seat, event): (&'static Seat, Event)| {
        let case = made(name(seat, event), move || play::play(seat, event)).needs(ALL);
        // A refusal is timed.
        if event.is_refusal() { case.alone() } else { case.waiting() }
    };
    cells().map(case).collect()
}

/// The names of all cells.
pub(crate) fn names() -> impl Iterator<Item = String> {
    cells().map(|(seat, event)| name(seat, event))
}

/// What is wrong with a page that is to hold a row for every cell: agent and event, exit code, requests, seconds, last words.
pub(crate) fn findings(page: &str) -> Vec<String> {
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let finding = |(seat, event): (&Seat, Event)| {
        let expected = expect::expected(seat, event)?;
        let row = rows.iter().find(|row| row.get(1..3) == Some(&[seat.name, event.name().as_str()]));
        let Some([_, _, _, code, requests, _, said, ..]) = row.map(Vec::as_slice) else {
            return Some(format!("no row for {}", name(seat, event)));
        };
        let agrees = *code == expected.code.to_string()
            && *requests == table::asked(expected.requests, expected.messages)
            && said.contains(expected.text);
        (!agrees).then(|| format!("{}: {row:?} is not {expected:?}", name(seat, event)))
    };
    cells().filter_map(finding).collect()
}

fn cells() -> impl Iterator<Item = (&'static Seat, Event)> {
    let all = seat::SEATS.iter().flat_map(|seat| Event::ALL.into_iter().map(move |event| (seat, event)));
    all.filter(|(seat, event)| expect::expected(seat, *event).is_some())
}

fn name(seat: &Seat, event: Event) -> String {
    format!("matrix::{}::{}", seat.name, event.name())
}

const ALL: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Codex, Need::Pi, Need::Namespaces];
