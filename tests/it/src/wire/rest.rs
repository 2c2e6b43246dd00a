//! Connections that are silent between two requests: they give their memory back, lose nothing, and serve on.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{Case, case};
use standin::Options;

use super::base::{GATEWAY, Wire, get, post};

pub(super) const CASES: &[Case] = &[
    case("wire::a_connection_that_rested_serves_on", serves_on).needs(GATEWAY),
    case("wire::half_a_head_that_came_early_is_not_lost_in_silence", half_a_head).needs(GATEWAY),
    case("wire::silent_connections_give_their_memory_back", gives_back).needs(GATEWAY),
];

fn serves_on() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let mut inside = wire.inside("open.test")?;
    let mut paths = Vec::new();
    for round in 0..3 {
        for (path, question) in [
            (format!("/get-{round}"), get("open.test", &format!("/get-{round}"), "")),
            (format!("/post-{round}"), post("open.test", &format!("/post-{round}"), "", "a body\r\n\r\nof lines")),
        ] {
            // In the last round the head comes in two pieces, of which the first is one byte.
            let (first, rest) = question.split_at(round / 2);
            inside.send(first)?;
            sleep(Duration::from_millis(20));
            let answer = inside.ask(rest)?;
            ensure!(answer.status == 200 && answer.body == b"fine" && answer.complete, "{path}: {answer:?}");
            paths.push(path);
            sleep(SILENCE);
        }
    }
    let seen: Vec<String> = wire.standin.seen().into_iter().map(|seen| seen.path).collect();
    ensure!(seen == paths, "{seen:?}, not {paths:?}");
    let body = wire.standin.seen().pop().context("nothing was seen")?.body;
    ensure!(body == b"a body\r\n\r\nof lines", "another body: {body:?}");
    Ok(())
}

fn half_a_head() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let mut inside = wire.inside("open.test")?;
    let next = get("open.test", "/next", "");
    let (early, late) = next.split_at(12);
    let both = [get("open.test", "/first", "").as_slice(), early].concat();
    ensure!(inside.ask(&both)?.status == 200);
    sleep(SILENCE);
    let answer = inside.ask(late)?;
    ensure!(answer.status == 200, "{answer:?}");
    let seen: Vec<String> = wire.standin.seen().into_iter().map(|seen| seen.path).collect();
    ensure!(seen == ["/first", "/next"], "{seen:?}");
    Ok(())
}

/// What the first connections gave back serves those that come next.
fn gives_back() -> Result<()> {
    let wire = Wire::with(Options::default(), |house| house.extra("[limits]\nconnections_per_box = 1000"))?;
    wire.answer_all();
    let mut held = Vec::new();
    let mut after = Vec::new();
    for _ in 0..2 {
        for _ in 0..CONNECTIONS {
            let mut inside = wire.inside("open.test")?;
            ensure!(inside.ask(&get("open.test", "/", ""))?.status == 200);
            held.push(inside);
        }
        sleep(SILENCE);
        after.push(memory(wire.house.pid().context("no gateway")?)?);
    }
    let each = after[1].saturating_sub(after[0]) / CONNECTIONS;
    ensure!(each <= KIB, "{each} KiB for each of {CONNECTIONS} more silent connections: {after:?}");
    for inside in &mut held {
        ensure!(inside.ask(&get("open.test", "/", ""))?.status == 200, "one was lost");
    }
    Ok(())
}

/// Its own memory that is in use, in KiB.
fn memory(pid: i32) -> Result<usize> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).context("read the gateway's memory")?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("find the gateway's memory")?;
    line.trim().trim_end_matches("kB").trim().parse().context("read the gateway's memory")
}

/// More than twice what it takes until a connection rests.
const SILENCE: Duration = Duration::from_millis(800);
const CONNECTIONS: usize = 200;
/// Buffers that are kept come to more than this by themselves.
const KIB: usize = 16;
