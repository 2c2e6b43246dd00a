//! Live cut: what a reload or an operator takes away ends at once, legibly, and its lines are closed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::{Case, case, until};
use standin::{Fault, Rule, Then};

use super::super::base::{GATEWAY, Wire, get, holds, post};
use super::super::websocket::{Echo, frames};
use super::{reload, without};

pub(crate) const CASES: &[Case] = &[
    case("wire::a_reload_that_withdraws_a_grant_ends_its_streams_at_once", streams).needs(GATEWAY),
    case("wire::a_reload_that_withdraws_a_grant_closes_its_websockets_legibly", websocket).needs(GATEWAY),
    case("wire::a_reload_that_withdraws_a_grant_ends_its_tunnels", tunnels).needs(GATEWAY),
    case("wire::a_request_that_waits_for_its_answer_hears_that_its_grant_is_gone", waiting).needs(GATEWAY),
    case("wire::an_operator_stops_a_run_and_everything_of_it_is_cut", stopped).needs(GATEWAY),
    case("wire::a_run_that_is_stopped_has_its_websockets_closed_legibly", stopped_session).needs(GATEWAY),
];

/// Every request is answered by a stream that begins and does not end.
fn endless(wire: &Wire) {
    let head =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n7\r\nbegun\n\n\r\n";
    let pieces = vec![(Duration::ZERO, head.to_vec())];
    wire.standin.rules(vec![Rule::new("", Fault::Raw { pieces, then: Then::Keep })]);
}

/// What still comes until the connection ends; it must not be long.
fn rest(inside: &mut harness::door::Inside) -> Result<Vec<u8>> {
    let began = Instant::now();
    let mut told = Vec::new();
    while let Ok(piece) = inside.piece() {
        if piece.is_empty() {
            break;
        }
        told.extend(piece);
        ensure!(began.elapsed() < Duration::from_secs(5), "it goes on");
    }
    ensure!(began.elapsed() < Duration::from_secs(3), "it ended after {:?}", began.elapsed());
    Ok(told)
}

fn begun(inside: &mut harness::door::Inside, host: &str, path: &str) -> Result<()> {
    inside.send(&get(host, path, ""))?;
    let mut told = Vec::new();
    while !holds(&told, "begun") {
        told.extend(inside.piece()?);
    }
    Ok(())
}

fn streams() -> Result<()> {
    let wire = Wire::start()?;
    endless(&wire);
    let (mut gone, mut stays) = (wire.inside("api.test")?, wire.inside("open.test")?);
    begun(&mut gone, "api.test", "/gone")?;
    begun(&mut stays, "open.test", "/stays")?;
    // A grant that is only widened takes nothing away.
    reload(&wire, |text| text.replace("hosts = [\"open.test\"", "hosts = [\"more.test\", \"open.test\""))?;
    reload(&wire, |text| text.replace("name = \"api\"\n", "name = \"api\"\npaths = \"/other\"\n"))?;
    let told = rest(&mut gone)?;
    ensure!(!holds(&told, "0\r\n\r\n"), "it must not look whole: {told:?}");
    let (_, closed) = wire.closed("/gone")?;
    ensure!(closed["ended"] == "cut" && closed["reason"] == "grant-withdrawn", "{closed}");
    let still = wire.house.ledger()?;
    let open = still.iter().find(|line| line["path"] == "/stays").map(|line| line["seq"].clone());
    ensure!(still.iter().all(|line| Some(&line["of"]) != open.as_ref()), "what is granted still goes on");
    Ok(())
}

fn websocket() -> Result<()> {
    let echo = Echo::start()?;
    let mut inside = echo.session("/session")?;
    reload(&echo.wire, |text| text.replace("websocket = true", "websocket = false"))?;
    let came = frames::read(&mut inside)?;
    ensure!(came.opcode == frames::CLOSE && came.payload.starts_with(&1008_u16.to_be_bytes()), "{came:?}");
    ensure!(holds(&came.payload, "grant-withdrawn"), "{came:?}");
    ensure!(rest(&mut inside)?.is_empty());
    let (_, closed) = echo.wire.closed("/session")?;
    ensure!(closed["ended"] == "cut" && closed["reason"] == "grant-withdrawn", "{closed}");
    Ok(())
}

fn stopped_session() -> Result<()> {
    let echo = Echo::start()?;
    let mut inside = echo.session("/session")?;
    let ran = echo.wire.house.gateway(&["runs", "stop", &echo.wire.claimed.spec.run.to_string()])?;
    ensure!(ran.code == Some(0), "{ran:?}");
    let came = frames::read(&mut inside)?;
    ensure!(came.opcode == frames::CLOSE && came.payload.starts_with(&1008_u16.to_be_bytes()), "{came:?}");
    ensure!(holds(&came.payload, "run-over"), "{came:?}");
    ensure!(rest(&mut inside)?.is_empty());
    let (_, closed) = echo.wire.closed("/session")?;
    ensure!(closed["ended"] == "cut" && closed["reason"] == "run-over", "{closed}");
    Ok(())
}

fn tunnels() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let mut idle = wire.inside("api.test")?;
    ensure!(idle.ask(&get("api.test", "/once", ""))?.status == 200);
    let mut other = wire.inside("open.test")?;
    reload(&wire, |text| without(text, "api"))?;
    ensure!(rest(&mut idle)?.is_empty());
    let opened =
        wire.house.wait_line("the tunnel", |line| line["kind"] == "tunnel" && line["target"] == "api.test:443")?;
    let closed = wire.house.wait_line("its end", |line| line["of"] == opened["seq"])?;
    ensure!(closed["ended"] == "cut" && closed["reason"] == "grant-withdrawn", "{closed}");
    ensure!(other.ask(&get("open.test", "/more", ""))?.status == 200);
    let refused = wire.inside("api.test")?.ask(&get("api.test", "/once", ""))?;
    ensure!(refused.reason() == Some("no-grant"), "{refused:?}");
    Ok(())
}

fn waiting() -> Result<()> {
    let wire = Wire::start()?;
    wire.standin.rules(vec![Rule::new(
        "",
        Fault::Raw { pieces: vec![(Duration::from_secs(30), Vec::new())], then: Then::Keep },
    )]);
    let mut inside = wire.inside("api.test")?;
    inside.send(&post("api.test", "/waits", "", "{}"))?;
    until("it arrived", Duration::from_secs(5), || holds(&wire.upstream(), "/waits").then_some(()))?;
    reload(&wire, |text| text.replace("name = \"api\"\n", "name = \"api\"\nmethods = \"GET\"\n"))?;
    let mut told = Vec::new();
    while !holds(&told, "grant-withdrawn") {
        told.extend(inside.piece()?);
    }
    ensure!(told.starts_with(b"HTTP/1.1 403 "), "{}", String::from_utf8_lossy(&told));
    let (_, closed) = wire.closed("/waits")?;
    ensure!(closed["reason"] == "grant-withdrawn", "{closed}");
    Ok(())
}

fn stopped() -> Result<()> {
    let wire = Wire::start()?;
    endless(&wire);
    let mut inside = wire.inside("api.test")?;
    begun(&mut inside, "api.test", "/stream")?;
    let run = wire.claimed.spec.run.to_string();
    let ran = wire.house.gateway(&["runs", "stop", &run])?;
    ensure!(ran.code == Some(0) && holds(&ran.stdout, &run), "{ran:?}");
    let told = rest(&mut inside)?;
    ensure!(!holds(&told, "0\r\n\r\n"), "it must not look whole");
    let (_, closed) = wire.closed("/stream")?;
    ensure!(closed["ended"] == "cut", "{closed}");
    wire.house.wait_line("the cut", |line| line["kind"] == "cut" && line["facts"]["ended_by"] == "operator")?;
    ensure!(wire.inside("api.test").is_err(), "its token is dead");
    let again = wire.house.gateway(&["runs", "stop", "20260101T000000-00000000"])?;
    ensure!(again.code == Some(69) && again.stderr.contains("no run"), "{again:?}");
    Ok(())
}
