//! The session: a side that does not read, one that ends half, and many at once.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::{Case, case, until};

use super::hostile::Talk;
use super::{GATEWAY, Stage, switching};

pub(crate) const CASES: &[Case] = &[
    case("attack3::a_side_that_does_not_read_costs_the_house_little", unread).needs(GATEWAY).alone(),
    case("attack3::ten_megabytes_that_come_with_the_101_arrive_whole", with_the_101).needs(GATEWAY),
    case("attack3::a_side_that_ends_its_half_still_hears_the_other", halves).needs(GATEWAY),
    case("attack3::what_breaks_a_session_upstream_is_told_in_its_line", broken).needs(GATEWAY),
    case("attack3::a_hundred_websockets_are_cut_with_the_time_to_drain_each_with_its_line", drained).needs(GATEWAY),
    case("attack3::a_websocket_that_never_falls_silent_ends_at_the_ceiling", ceiling).needs(GATEWAY),
];

/// A flood toward a box that reads nothing, then one toward a host that reads nothing.
fn unread() -> Result<()> {
    let stage = Stage::start(|talk| {
        talk.send(&switching(""))?;
        if talk.path().starts_with("/down") {
            loop {
                talk.send(&[0x82; 64 * 1024])?;
            }
        }
        std::thread::sleep(Duration::from_secs(6));
        Ok(())
    })?;
    drop(stage.session("/first")?);
    let before = resident(&stage)?;
    let mut up = (0..40).map(|at| stage.session(&format!("/up-{at}"))).collect::<Result<Vec<_>>>()?;
    let down = (0..40).map(|at| stage.session(&format!("/down-{at}"))).collect::<Result<Vec<_>>>()?;
    std::thread::scope(|scope| -> Result<()> {
        for inside in &mut up {
            scope.spawn(move || while inside.send(&[0x82; 64 * 1024]).is_ok() {});
        }
        std::thread::sleep(Duration::from_secs(2));
        let grown = resident(&stage)?.saturating_sub(before);
        ensure!(grown < 40 * 1024, "80 sessions that pass nothing on hold {grown} KiB");
        Ok(())
    })?;
    drop((up, down));
    until("the host to be let go", Duration::from_secs(8), || (stage.host.open() == 0).then_some(()))
}

/// Of the gateway, in KiB.
fn resident(stage: &Stage) -> Result<u64> {
    let pid = stage.house.pid().context("no gateway")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("read its status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    line.trim().trim_end_matches(" kB").parse().context("read VmRSS")
}

fn with_the_101() -> Result<()> {
    let large = [&[0x82, 127, 0, 0, 0, 0, 0, 0xa0, 0, 0][..], &vec![7; 10 * 1024 * 1024]].concat();
    let sent = large.clone();
    let stage = Stage::start(move |talk| {
        talk.send(&[switching(""), sent.clone()].concat())?;
        talk.end()
    })?;
    let mut inside = stage.session("/large")?;
    std::thread::sleep(Duration::from_millis(500));
    let came = inside.rest()?;
    ensure!(came == large, "{} of {} bytes came", came.len(), large.len());
    drop(inside);
    let closed = stage.closed("/large")?;
    ensure!(closed["bytes_down"] == large.len(), "{closed}");
    Ok(())
}

fn halves() -> Result<()> {
    let stage = Stage::start(|talk| {
        talk.send(&switching(""))?;
        if talk.path() == "/host" {
            talk.end()?;
            return talk.rest_is(FRAME);
        }
        talk.rest_is(b"")?;
        talk.send(FRAME)?;
        talk.end()
    })?;
    let mut inside = stage.session("/host")?;
    ensure!(inside.rest()?.is_empty());
    inside.send(FRAME)?;
    inside.finish()?;
    let closed = stage.closed("/host")?;
    ensure!(closed["bytes_up"] == FRAME.len() && closed["ended"] == "incomplete", "{closed}");
    let mut inside = stage.session("/box")?;
    inside.finish()?;
    ensure!(inside.rest()? == FRAME, "what the host still had to say was lost");
    let closed = stage.closed("/box")?;
    ensure!(closed["bytes_down"] == FRAME.len() && closed["ended"] == "complete", "{closed}");
    Ok(())
}

fn broken() -> Result<()> {
    let stage = Stage::start(|talk| {
        talk.send(&switching(""))?;
        // The 101 goes on before anything breaks; what was not read by then makes the end a reset.
        std::thread::sleep(Duration::from_millis(300));
        if talk.path() == "/no-tls" {
            talk.stream.sock.write_all(b"no record of TLS").context("send")?;
        }
        Ok(())
    })?;
    for (path, told) in [("/no-tls", "broke off"), ("/reset", "broke off"), ("/gone", "without a Close")] {
        let mut inside = stage.session(path)?;
        if path == "/reset" {
            inside.send(FRAME)?;
        }
        ensure!(inside.rest()?.is_empty(), "{path}");
        drop(inside);
        let closed = stage.closed(path)?;
        ensure!(closed["ended"] == "incomplete" && closed["reason"] == "upstream-failed", "{path}: {closed}");
        ensure!(closed["inside"].as_str().is_some_and(|inside| inside.contains(told)), "{path}: {closed}");
    }
    Ok(())
}

fn drained() -> Result<()> {
    let mut stage = Stage::with(|house| house.extra("\n[limits]\ndrain = \"1s\"\n"), hold)?;
    let sessions = (0..100).map(|at| stage.session(&format!("/d{at}"))).collect::<Result<Vec<_>>>()?;
    let began = Instant::now();
    stage.house.term()?.expect_code(0)?;
    ensure!(began.elapsed() < Duration::from_secs(4), "it took {:?}", began.elapsed());
    let lines = stage.house.ledger()?;
    let cut = lines.iter().filter(|line| line["status"] == 101 && line["ended"] == "cut").count();
    ensure!(cut == 100, "{cut} of 100 lines say so");
    stage.house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    drop(sessions);
    Ok(())
}

fn ceiling() -> Result<()> {
    let stage = Stage::with(
        |house| house.ceiling("2s"),
        |talk| {
            talk.send(&switching(""))?;
            loop {
                talk.send(FRAME)?;
                std::thread::sleep(Duration::from_millis(50));
            }
        },
    )?;
    let began = Instant::now();
    let mut inside = stage.session("/busy")?;
    let came = inside.rest()?.len();
    ensure!(came > 0 && began.elapsed() < Duration::from_secs(4), "{came} bytes, {:?}", began.elapsed());
    let closed = stage.closed("/busy")?;
    ensure!(closed["ended"] == "cut" && closed["bytes_down"].as_u64() >= Some(came as u64), "{closed}");
    Ok(())
}

fn hold(talk: &mut Talk) -> Result<()> {
    talk.send(&switching(""))?;
    talk.rest();
    Ok(())
}

/// An empty text frame, masked.
const FRAME: &[u8] = b"\x81\x80abcd";
