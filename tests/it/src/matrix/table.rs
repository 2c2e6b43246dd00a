//! The matrix as a table: each cell that was played can add its row to a file, and `docs/agents.md` holds all of them.

use std::io::Write;

use anyhow::{Context, Result};
use harness::Ran;

use super::event::Event;
use super::play::Outcome;
use super::seat::Seat;

/// Adds the row of a boxed run to the file that `BOXGATE_MATRIX` names, if it names one.
pub(super) fn add(seat: &Seat, event: Event, outcome: &Outcome, ran: &Ran) -> Result<()> {
    let Some(path) = std::env::var_os("BOXGATE_MATRIX") else { return Ok(()) };
    let row = row(seat, event, outcome, ran);
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).context("open the matrix")?;
    // One write, so that rows of cells that run side by side stay whole.
    file.write_all(row.as_bytes()).context("write a row of the matrix")
}

fn row(seat: &Seat, event: Event, outcome: &Outcome, ran: &Ran) -> String {
    let code = outcome.code.map_or_else(|| "none".into(), |code| code.to_string());
    let said = if outcome.failed.is_none() { "(nothing)".into() } else { shown(&outcome.text) };
    let (seconds, requests) = (ran.took.as_secs_f64(), asked(outcome.requests, outcome.messages));
    format!("| {} | {} | {code} | {requests} | {seconds:.1} | {said} |\n", seat.name, event.name())
}

/// Requests, and how often the model was asked over WebSockets.
pub(crate) fn asked(requests: usize, messages: usize) -> String {
    if messages == 0 { requests.to_string() } else { format!("{requests} ({messages})") }
}

/// The text on one line that no table breaks at.
fn shown(text: &str) -> String {
    let line: String = text.replace('|', "/").split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

const SHOWN: usize = 160;
