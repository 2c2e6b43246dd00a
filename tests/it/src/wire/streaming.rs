//! Streaming: each piece is passed on when it comes, both ways, and a broken end is never a clean one.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::{Case, case};
use sha2::{Digest, Sha256};
use standin::{Fault, Rule, Then};

use super::base::{GATEWAY, Wire, get, holds, post};

pub(super) const CASES: &[Case] = &[
    case("wire::r11_a_connection_the_upstream_closed_is_not_used_again", closed_idle).needs(GATEWAY),
    case("wire::r11_a_request_that_may_have_arrived_is_never_sent_twice", never_twice).needs(GATEWAY),
    case("wire::r29_each_event_comes_as_it_is_sent", events).needs(GATEWAY).alone(),
    case("wire::r29_each_part_of_an_upload_goes_as_it_comes", upload).needs(GATEWAY).alone(),
    case("wire::r29_an_event_of_4_mib_arrives_whole", large_event).needs(GATEWAY),
    case("wire::r29_a_missing_end_is_seen_as_missing", missing_end).needs(GATEWAY),
    case("wire::r29_what_is_compressed_passes_by_the_byte", compressed).needs(GATEWAY),
    case("wire::r58_a_tunnel_may_be_silent_between_requests", silent).needs(GATEWAY),
    case("wire::r63_an_upstream_that_fails_is_502_and_no_policy", fails).needs(GATEWAY),
];

fn closed_idle() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    wire.standin.idle_close(Some(Duration::from_millis(100)));
    let mut inside = wire.inside("api.test")?;
    for round in 0..20 {
        let answer = inside.ask(&post("api.test", &format!("/a{round}"), "", "{}"))?;
        ensure!(answer.status == 200, "round {round}: {answer:?}");
        std::thread::sleep(Duration::from_millis(250));
    }
    let seen = wire.standin.seen();
    let paths: Vec<_> = seen.iter().map(|seen| seen.path.clone()).collect();
    ensure!(paths == (0..20).map(|round| format!("/a{round}")).collect::<Vec<_>>(), "{paths:?}");
    Ok(())
}

fn never_twice() -> Result<()> {
    let wire = Wire::start()?;
    let fine = Fault::Status { status: 200, headers: Vec::new(), body: Vec::new() };
    wire.standin.rules(vec![Rule::new("/first", fine), Rule::new("/second", Fault::Reset)]);
    let mut inside = wire.inside("api.test")?;
    ensure!(inside.ask(&post("api.test", "/first", "", "{}"))?.status == 200);
    let answer = inside.ask(&post("api.test", "/second", "", "{}"))?;
    ensure!(answer.status == 502 && answer.reason() == Some("upstream-failed"), "{answer:?}");
    let seen = wire.standin.seen();
    ensure!(seen.len() == 2 && seen[0].connection == seen[1].connection, "{seen:?}");
    Ok(())
}

fn events() -> Result<()> {
    let wire = Wire::start()?;
    let mut pieces = vec![(
        Duration::ZERO,
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
    )];
    for number in 0..5 {
        let event = format!("data: event {number}{:>24}\n\n", "");
        pieces.push((Duration::from_millis(500), format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()));
    }
    pieces.push((Duration::ZERO, b"0\r\n\r\n".to_vec()));
    wire.standin.rules(vec![Rule::new("", Fault::Raw { pieces, then: Then::Keep })]);
    for host in ["api.test", "open.test"] {
        let mut inside = wire.inside(host)?;
        inside.ask(&get(host, "/warm", ""))?;
        inside.send(&get(host, "/events", ""))?;
        let began = Instant::now();
        let (mut told, mut times) = (Vec::new(), Vec::new());
        while !holds(&told, "\r\n0\r\n\r\n") {
            told.extend(inside.piece()?);
            let events = String::from_utf8_lossy(&told).matches("data: ").count();
            times.resize(events, began.elapsed());
        }
        ensure!(times.len() == 5, "{times:?}");
        for (number, at) in (1..).zip(&times) {
            let late = at.saturating_sub(Duration::from_millis(500 * number));
            ensure!(late < Duration::from_millis(100), "event {number} came {late:?} late: {times:?}");
        }
    }
    Ok(())
}

fn upload() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let mut inside = wire.inside("api.test")?;
    ensure!(inside.ask(&get("api.test", "/warm", ""))?.status == 200);
    wire.standin.forget();
    inside.send(b"POST /up HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    wire.standin.wait_seen(1, Duration::from_secs(2))?;
    for part in 1..=5 {
        inside.send(b"28\r\n0123456789012345678901234567890123456789\r\n")?;
        let began = Instant::now();
        harness::until("the part", Duration::from_secs(2), || {
            (wire.standin.seen()[0].body_len == 40 * part).then_some(())
        })?;
        ensure!(began.elapsed() < Duration::from_millis(100), "part {part} took {:?}", began.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    inside.send(b"0\r\n\r\n")?;
    ensure!(inside.response()?.status == 200 && wire.standin.seen()[0].complete);
    Ok(())
}

fn large_event() -> Result<()> {
    let wire = Wire::start()?;
    let event = large();
    for chunked in [true, false] {
        wire.standin.rules(vec![Rule::new("", Fault::Raw { pieces: whole(&event, chunked, true), then: Then::Close })]);
        let answer = wire.inside("api.test")?.ask(&get("api.test", "/large", ""))?;
        ensure!(answer.status == 200 && answer.complete, "{} bytes came", answer.body.len());
        ensure!(Sha256::digest(&answer.body) == Sha256::digest(&event), "{} bytes came", answer.body.len());
        let (_, closed) = wire.closed("/large")?;
        ensure!(closed["ended"] == "complete" && closed["bytes_down"] == event.len(), "{closed}");
    }
    Ok(())
}

fn missing_end() -> Result<()> {
    let wire = Wire::start()?;
    let event = large();
    for (path, chunked, then) in [("/m1", true, Then::Close), ("/m2", true, Then::Reset), ("/m3", false, Then::Close)] {
        let rule = Rule::new("", Fault::Raw { pieces: whole(&event, chunked, false), then });
        wire.standin.rules(vec![rule]);
        let answer = wire.inside("api.test")?.ask(&get("api.test", path, ""))?;
        ensure!(answer.status == 200 && !answer.complete, "{path}: a clean end after {} bytes", answer.body.len());
        let (_, closed) = wire.closed(path)?;
        ensure!(closed["ended"] == "incomplete" && closed["reason"] == "upstream-failed", "{path}: {closed}");
    }
    Ok(())
}

/// An answer with this body: in one chunk, or with its length; with its end, or without.
fn whole(body: &[u8], chunked: bool, ended: bool) -> Vec<(Duration, Vec<u8>)> {
    let framing = if chunked {
        format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len())
    } else {
        format!("content-length: {}\r\n\r\n", body.len())
    };
    let mut bytes = format!("HTTP/1.1 200 OK\r\n{framing}").into_bytes();
    bytes.extend_from_slice(if ended || chunked { body } else { &body[..body.len() - 1] });
    if chunked {
        bytes.extend_from_slice(if ended { b"\r\n0\r\n\r\n" } else { b"\r\n" });
    }
    vec![(Duration::ZERO, bytes)]
}

fn large() -> Vec<u8> {
    (0..4 * 1024 * 1024_u32).map(|at| b'a' + u8::try_from(at * 31 % 23).unwrap_or_default()).collect()
}

fn compressed() -> Result<()> {
    let wire = Wire::start()?;
    // A gzip stream with a sync flush after each part; what is in it does not matter.
    let parts: [&[u8]; 3] = [
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4a\x49\x2c\x49\x04\x00\x00\x00\xff\xff",
        b"\x4a\x49\x2c\x49\x04\x00\x00\x00\xff\xff",
        b"\x03\x00\xad\x98\x6f\x8d\x08\x00\x00\x00",
    ];
    let mut pieces = vec![(
        Duration::ZERO,
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
    )];
    for part in parts {
        let chunk = [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
        pieces.push((Duration::from_millis(50), chunk));
    }
    pieces.push((Duration::ZERO, b"0\r\n\r\n".to_vec()));
    wire.standin.rules(vec![Rule::new("", Fault::Raw { pieces, then: Then::Keep })]);
    let answer = wire.inside("open.test")?.ask(&get("open.test", "/gz", "Accept-Encoding: gzip\r\n"))?;
    ensure!(answer.header("content-encoding") == Some("gzip") && answer.body == parts.concat(), "{answer:?}");
    ensure!(answer.complete, "{answer:?}");
    Ok(())
}

fn silent() -> Result<()> {
    let wire = Wire::with(standin::Options::default(), |house| house.extra("\n[limits]\nhead_deadline = \"300ms\"\n"))?;
    wire.answer_all();
    let mut inside = wire.inside("api.test")?;
    for round in 0..3 {
        std::thread::sleep(Duration::from_millis(700));
        let answer = inside.ask(&get("api.test", "/s", ""))?;
        ensure!(answer.status == 200, "round {round}: {answer:?}");
    }
    ensure!(wire.house.ledger()?.iter().all(|line| line["reason"] != "head-late"), "{:?}", wire.house.ledger()?);
    Ok(())
}

fn fails() -> Result<()> {
    let wire = Wire::with(standin::Options::default(), |house| {
        house.grant("name = \"closed\"\nhosts = [\"closed.test\"]\nunsafe_dial = \"127.0.0.1:9\"")
    })?;
    let garbage = vec![(Duration::ZERO, b"SSH-2.0-OpenSSH\r\n\r\n".to_vec())];
    wire.standin.rules(vec![
        Rule::new("/reset", Fault::Reset),
        Rule::new("/hang", Fault::Hang(Duration::from_millis(50))),
        Rule::new("/garbage", Fault::Raw { pieces: garbage, then: Then::Close }),
    ]);
    for path in ["/reset", "/hang", "/garbage"] {
        let answer = wire.inside("api.test")?.ask(&get("api.test", path, ""))?;
        ensure!(answer.status == 502 && answer.reason() == Some("upstream-failed"), "{path}: {answer:?}");
        ensure!(answer.json()?["error"] == "upstream-failed", "{answer:?}");
    }
    let answer = wire.inside("closed.test")?.ask(&get("closed.test", "/", ""))?;
    ensure!(answer.status == 502 && answer.reason() == Some("upstream-unreachable"), "{answer:?}");
    let settled = wire.claimed.report()?;
    ensure!(!format!("{settled:?}").contains("refus"), "{settled:?}");
    Ok(())
}
