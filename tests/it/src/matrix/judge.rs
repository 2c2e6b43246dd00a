//! What must hold of a cell: its own expectation, and what holds in all of them.

use anyhow::{Context, Result, ensure};
use box_spec::wire::SENTINEL_MARK;
use harness::{BoxRun, House, Ran, secrets};
use serde_json::Value;
use standin::StandIn;

use super::event::{Event, LONG_MARK};
use super::expect::Expected;
use super::play::Outcome;
use super::seat::Seat;
use super::tool;

pub(super) fn expected(outcome: &Outcome, expected: &Expected, ran: &Ran) -> Result<()> {
    let as_expected = outcome.code == Some(expected.code)
        && (outcome.failed == expected.failed || expected.failed.is_none())
        && outcome.text.contains(expected.text)
        && (outcome.requests, outcome.messages) == (expected.requests, expected.messages);
    ensure!(as_expected, "{outcome:?}, not {expected:?}, after {:?}\nstderr: {}", ran.took, ran.stderr);
    Ok(())
}

/// No sentinel upstream, no secret in the box, every request real and with a line, no refusal that is not expected.
pub(super) fn always(
    seat: &Seat,
    launch: &BoxRun,
    ran: &Ran,
    standin: &StandIn,
    house: &House,
    expected: &Expected,
) -> Result<()> {
    let seen = standin.seen();
    let foreign: Vec<_> = seen.iter().filter(|seen| !seen.real).map(|seen| (&seen.method, &seen.path)).collect();
    ensure!(foreign.is_empty(), "without the real credential: {foreign:?}");
    for connection in standin.connections() {
        ensure!(!secrets::in_bytes(&connection.raw, &[SENTINEL_MARK]), "a sentinel reached the upstream");
    }
    for seen in &seen {
        ensure!(!secrets::in_bytes(&seen.body, &[SENTINEL_MARK]), "a sentinel reached the upstream in a body");
    }
    let real = seat.real();
    let forms = secrets::forms(real.value());
    let needles: Vec<&str> = forms.iter().map(String::as_str).collect();
    let leaks = secrets::in_files(launch.session_folder(), &needles)?;
    ensure!(leaks.is_empty(), "the secret is in the session: {leaks:?}");
    ensure!(!secrets::in_bytes(&ran.stdout, &needles), "the secret was printed");
    ensure!(!secrets::in_bytes(ran.stderr.as_bytes(), &needles), "the secret was printed as an error");

    let report = house.wait_line("the report", |line| line["kind"] == "report")?;
    let lines = house.ledger()?;
    let bytes = std::fs::read(house.ledger_file()).context("read the ledger")?;
    ensure!(!secrets::in_bytes(&bytes, &needles), "the secret is in the ledger");
    let told = brief(&lines);
    // Refused after its line was opened, and before anything left.
    let kept = |seq: &Value| {
        lines.iter().any(|line| line["of"] == *seq && UNSENT.iter().any(|reason| line["reason"] == *reason))
    };
    let allowed = lines.iter().filter(|line| line["kind"] == "request" && line["verdict"] == "allow");
    let (unsent, sent): (Vec<&Value>, Vec<&Value>) = allowed.partition(|line| kept(&line["seq"]));
    let requests = seen.iter().filter(|seen| seen.method != "WS").count();
    ensure!(sent.len() == requests, "{} lines for {requests} requests: {told}", sent.len());
    // Refusals that are alike share a line, but each is counted.
    let policy = report["facts"]["refusals"].as_u64().and_then(|count| usize::try_from(count).ok());
    let refused = policy.context("the report counts no refusals")? + unsent.len();
    ensure!(refused == expected.refused, "{refused} refusals: {told}");
    let elsewhere = seen.iter().filter(|seen| !seen.path.starts_with(seat.model_path())).count();
    ensure!(elsewhere == 0, "{elsewhere} requests were no model calls: {told}");
    Ok(())
}

/// The ledger in few words.
fn brief(lines: &[Value]) -> String {
    let words = ["kind", "method", "target", "path", "verdict", "reason", "status", "ended"];
    let line = |line: &Value| words.iter().filter_map(|word| line[*word].as_str()).collect::<Vec<_>>().join(" ");
    lines.iter().map(|each| format!("\n  {}", line(each))).collect()
}

/// What belongs to one event.
pub(super) fn event(event: Event, seat: &Seat, launch: &BoxRun, standin: &StandIn, house: &House) -> Result<()> {
    match event {
        Event::Shell => {
            let made =
                std::fs::read_to_string(launch.workspace_folder().join("made.txt")).context("read what was made")?;
            ensure!(made == "changed\n", "{made:?}");
        }
        Event::LongPrompt => {
            let whole = standin
                .seen()
                .iter()
                .any(|seen| seen.text().len() > Event::long(seat) && seen.text().contains(LONG_MARK));
            ensure!(whole, "the prompt did not arrive whole");
        }
        Event::Expired => {
            let lines = house.ledger()?;
            let asked = lines.iter().filter(|line| line.to_string().contains("refresh-attempt")).count();
            ensure!(asked >= 1, "{} asked for no new credential", seat.agent);
        }
        Event::Mcp => {
            let called = tool::heard(launch)?;
            ensure!(called.contains("from-the-matrix"), "the tool was not called: {called}");
        }
        Event::Ceiling => {
            house.wait_line("the ceiling", |line| line["kind"] == "report" && line.to_string().contains("ceiling"))?;
        }
        _ => {}
    }
    Ok(())
}

const UNSENT: [&str; 2] = ["credential-outage", "upstream-untrusted"];
