//! The end: by the run, by the house, by the upstream, by the box; each frees both sides and says so in the line.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::door::Inside;
use harness::{Case, case};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use standin::{Rule, Then};

use super::super::base::{GATEWAY, Wire, holds};
use super::upstream::{ANSWER, GREETING};
use super::{Echo, asking, frames, raw};

pub(crate) const CASES: &[Case] = &[
    case("wire::r46_a_websocket_dies_with_its_run", with_its_run).needs(GATEWAY),
    case("wire::r10_an_upstream_that_leaves_without_a_close_is_incomplete", upstream_leaves).needs(GATEWAY),
    case("wire::r22_a_box_that_vanishes_frees_both_sockets", box_vanishes).needs(GATEWAY),
    case("wire::r10_a_draining_house_lets_a_websocket_end", drained).needs(GATEWAY),
    case("wire::r10_a_websocket_that_does_not_end_is_cut_with_the_time_to_drain", cut_by_the_drain).needs(GATEWAY),
    case("wire::r10_a_websocket_of_a_gateway_that_is_killed_ends_and_is_told", killed).needs(GATEWAY),
];

fn with_its_run() -> Result<()> {
    let echo = Echo::start()?;
    let mut inside = echo.session("/run")?;
    let Echo { wire, upstream } = echo;
    let Wire { claimed, house, standin: _standin } = wire;
    let began = Instant::now();
    claimed.report()?;
    let last = inside.rest()?;
    ensure!(last.starts_with(b"\x88") && holds(&last, "run-over"), "no Close says why: {last:?}");
    upstream.wait_ended(1, Duration::from_secs(2))?;
    ensure!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
    let opened = house.wait_line("the session", |line| line["kind"] == "request" && line["path"] == "/run")?;
    let closed = house.wait_line("its closing", |line| line["of"] == opened["seq"])?;
    ensure!(closed["ended"] == "cut" && closed["reason"] == "run-over", "{closed}");
    ensure!(closed["bytes_down"] == GREETING.len() + 2 + last.len(), "{closed}");
    Ok(())
}

fn upstream_leaves() -> Result<()> {
    let wire = Wire::start()?;
    let greeting = frames::frame(frames::TEXT, GREETING, None);
    let bye = frames::frame(frames::CLOSE, b"\x03\xe9", None);
    for (path, last, then, ended) in [
        ("/close", &greeting[..], Then::Close, "incomplete"),
        ("/half", &greeting[..3], Then::Close, "incomplete"),
        ("/reset", &greeting[..], Then::Reset, "incomplete"),
        ("/bye", &bye[..], Then::Close, "complete"),
    ] {
        wire.standin.rules(vec![Rule::new("", raw(&[ANSWER.as_bytes(), last].concat(), then))]);
        let mut inside = wire.inside("sock.test")?;
        ensure!(inside.ask(&asking("sock.test", path, ""))?.status == 101);
        let came = inside.rest()?;
        // What a reset overtakes may be lost on the way to the house.
        ensure!(came == last || then == Then::Reset, "{path}: {came:?}");
        let (_, closed) = wire.closed(path)?;
        ensure!(closed["ended"] == ended, "{path}: {closed}");
        ensure!((closed["reason"] == "upstream-failed") == (ended == "incomplete"), "{path}: {closed}");
    }
    Ok(())
}

fn box_vanishes() -> Result<()> {
    let echo = Echo::start()?;
    let half = frames::frame(frames::BINARY, &[0; 200], Some([1; 4]));
    for (path, sent, ended) in [("/whole", &half[..0], "complete"), ("/mid", &half[..100], "aborted")] {
        let before = echo.upstream.seen().len();
        let mut inside = echo.session(path)?;
        inside.send(sent)?;
        std::thread::sleep(Duration::from_millis(100));
        let began = Instant::now();
        inside.cut();
        echo.upstream.wait_ended(before + 1, Duration::from_secs(5))?;
        let closed = echo.closed(path)?;
        ensure!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
        ensure!(closed["ended"] == ended && closed["bytes_up"] == sent.len(), "{path}: {closed}");
    }
    Ok(())
}

fn drained() -> Result<()> {
    let echo = Echo::with("\n[limits]\ndrain = \"10s\"\n")?;
    let mut inside = echo.session("/drain")?;
    let pid = Pid::from_raw(echo.wire.house.pid().context("no gateway")?);
    kill(pid, Signal::SIGTERM).context("end the gateway")?;
    std::thread::sleep(Duration::from_millis(300));
    say(&mut inside, b"still open")?;
    inside.send(&frames::frame(frames::CLOSE, b"", Some([2; 4])))?;
    ensure!(frames::read(&mut inside)?.opcode == frames::CLOSE);
    ensure!(inside.rest()?.is_empty());
    let closed = echo.closed("/drain")?;
    ensure!(closed["ended"] == "complete", "{closed}");
    Ok(())
}

fn cut_by_the_drain() -> Result<()> {
    let mut echo = Echo::with("\n[limits]\ndrain = \"1s\"\n")?;
    let mut inside = echo.session("/cut")?;
    let began = Instant::now();
    echo.wire.house.term()?.expect_code(0)?;
    let took = began.elapsed();
    ensure!(took > Duration::from_millis(900) && took < Duration::from_secs(4), "it took {took:?}");
    ensure!(inside.rest()?.is_empty());
    echo.upstream.wait_ended(1, Duration::from_secs(2))?;
    let closed = echo.closed("/cut")?;
    ensure!(closed["ended"] == "cut" && closed["status"] == 101, "{closed}");
    echo.wire.house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    Ok(())
}

fn killed() -> Result<()> {
    let mut echo = Echo::start()?;
    let mut inside = echo.session("/killed")?;
    echo.wire.house.kill()?;
    ensure!(inside.rest()?.is_empty());
    echo.upstream.wait_ended(1, Duration::from_secs(2))?;
    echo.wire.house.start()?;
    let closed = echo.closed("/killed")?;
    ensure!(closed["ended"] == "unknown", "{closed}");
    echo.wire.house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    Ok(())
}

fn say(inside: &mut Inside, text: &[u8]) -> Result<()> {
    inside.send(&frames::frame(frames::TEXT, text, Some([3; 4])))?;
    let came = frames::read(inside)?;
    ensure!(came.payload == text, "{:?}", came.payload);
    Ok(())
}
