//! R22: a model that thinks for minutes is silent and well. What is silent for ever ends at a stated limit.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::{Case, case, until};
use standin::{Ended, Fault, Options, Rule, Then};

use super::base::{GATEWAY, Wire, get};

pub(super) const CASES: &[Case] = &[
    case("wire::r22_150_seconds_of_silence_within_a_stream_are_no_end", within).needs(GATEWAY).waiting(),
    case("wire::r22_150_seconds_until_the_head_are_no_end", before).needs(GATEWAY).waiting(),
    case("wire::r22_what_is_silent_for_ever_ends_at_the_limit", dead).needs(GATEWAY).waiting(),
    case("wire::r22_a_box_that_leaves_in_the_silence_frees_the_upstream", leaves).needs(GATEWAY).waiting(),
];

fn within() -> Result<()> {
    let wire = patient()?;
    wire.standin.rules(vec![Rule::new("", stream(LONG))]);
    let mut inside = wire.inside("api.test")?;
    inside.deadline(LONG * 2)?;
    let answer = inside.ask(&get("api.test", "/thinking", ""))?;
    ensure!(answer.status == 200 && answer.complete && answer.text() == "first;last;", "{answer:?}");
    let (_, closed) = wire.closed("/thinking")?;
    ensure!(closed["ended"] == "complete" && closed["bytes_down"] == 11, "{closed}");
    Ok(())
}

fn before() -> Result<()> {
    let wire = patient()?;
    let fine = Fault::Status { status: 200, headers: Vec::new(), body: b"at last".to_vec() };
    wire.standin.rules(vec![Rule::new("", fine).late(LONG)]);
    let mut inside = wire.inside("api.test")?;
    inside.deadline(LONG * 2)?;
    let answer = inside.ask(&get("api.test", "/thinking", ""))?;
    ensure!(answer.status == 200 && answer.text() == "at last", "{answer:?}");
    Ok(())
}

fn dead() -> Result<()> {
    let limits = "\n[limits]\nresponse_idle = \"2s\"\nresponse_head_deadline = \"2s\"\n";
    let wire = Wire::with(Options::default(), |house| house.extra(limits))?;
    wire.standin.rules(vec![Rule::new("/stream", stream(LONG)), Rule::new("/head", Fault::Hang(LONG))]);
    let began = Instant::now();
    let cut = wire.inside("api.test")?.ask(&get("api.test", "/stream", ""))?;
    ensure!(cut.status == 200 && !cut.complete && cut.text() == "first;", "{cut:?}");
    let (_, closed) = wire.closed("/stream")?;
    ensure!(closed["ended"] == "incomplete" && closed["reason"] == "upstream-failed", "{closed}");
    let late = wire.inside("api.test")?.ask(&get("api.test", "/head", ""))?;
    ensure!(late.status == 502 && late.reason() == Some("upstream-failed"), "{late:?}");
    ensure!(late.json()?["message"].to_string().contains("in time"), "{}", late.text());
    ensure!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    Ok(())
}

fn leaves() -> Result<()> {
    let wire = Wire::start()?;
    wire.standin.rules(vec![Rule::new("/stream", stream(LONG)), Rule::new("/head", Fault::Hang(LONG))]);
    for path in ["/stream", "/head"] {
        let mut inside = wire.inside("api.test")?;
        inside.send(&get("api.test", path, ""))?;
        wire.standin.wait_seen(1, Duration::from_secs(5))?;
        std::thread::sleep(Duration::from_millis(200));
        inside.cut();
        let id = wire.standin.seen()[0].connection;
        until("the upstream's connection to end", Duration::from_secs(5), || {
            let connections = wire.standin.connections();
            let ended = connections.iter().find(|one| one.id == id)?.ended?;
            (ended.1 != Ended::ByUs).then_some(())
        })
        .with_context(|| path.to_owned())?;
        let (_, closed) = wire.closed(path)?;
        ensure!(closed["ended"] == "aborted", "{path}: {closed}");
        wire.standin.forget();
    }
    Ok(())
}

/// A house whose run lasts longer than the silence.
fn patient() -> Result<Wire> {
    Wire::with(Options::default(), |house| house.ceiling("10m"))
}

/// A stream whose second and last event comes after this silence.
fn stream(silence: Duration) -> Fault {
    let head =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n6\r\nfirst;\r\n";
    let pieces = vec![(Duration::ZERO, head.to_vec()), (silence, b"5\r\nlast;\r\n0\r\n\r\n".to_vec())];
    Fault::Raw { pieces, then: Then::Keep }
}

const LONG: Duration = Duration::from_secs(150);
