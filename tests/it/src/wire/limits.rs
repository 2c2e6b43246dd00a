//! Limits: clients that dawdle, stop half-way or come in crowds take their own places and nobody else's.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::{Case, Claimed, Tunnel, case};
use standin::{Fault, Options, Rule};

use super::base::{GATEWAY, Wire, get};

pub(super) const CASES: &[Case] = &[
    case("wire::r66_a_head_that_dawdles_is_ended_and_told_why", slow_head).needs(GATEWAY),
    case("wire::r66_half_open_tls_is_ended", half_open).needs(GATEWAY),
    case("wire::r66_thousands_of_connections_leave_nothing_behind", crowd).needs(GATEWAY),
    case("wire::r66_one_box_at_its_limit_does_not_harm_another", own_limit).needs(GATEWAY),
    case("wire::r66_a_box_has_so_many_requests_and_tunnels_in_a_minute_and_no_other_is_harmed", in_a_minute)
        .needs(GATEWAY),
    case("wire::r66_garbage_at_the_door_does_not_take_it_down", garbage).needs(GATEWAY),
];

fn slow_head() -> Result<()> {
    let wire = hurried()?;
    let began = Instant::now();
    let mut silent = Tunnel::open(&wire.house.door("one"))?;
    let mut half = Tunnel::open(&wire.house.door("one"))?;
    half.send(b"CONNECT api.test:443 HTTP/1.1\r\nHost: ap")?;
    let mut inside = wire.inside("api.test")?;
    ensure!(inside.ask(&get("api.test", "/", ""))?.status == 200);
    inside.send(b"GET /half HTTP/1.1\r\nHo")?;
    let mut dripping = Tunnel::open(&wire.house.door("one"))?;
    for byte in b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaa" {
        if dripping.send(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    for (what, answer) in [
        ("half a head at the door", half.rest()?),
        ("half a head in a tunnel", inside.rest()?),
        ("a head byte by byte", dripping.rest()?),
    ] {
        ensure!(answer.starts_with(b"HTTP/1.1 408 "), "{what}: {:?}", String::from_utf8_lossy(&answer));
    }
    silent.rest()?;
    ensure!(began.elapsed() < Duration::from_secs(4), "it took {:?}", began.elapsed());
    wire.house.wait_line("the refusal", |line| line["kind"] == "refused" && line["reason"] == "head-late")?;
    Ok(())
}

fn half_open() -> Result<()> {
    let wire = hurried()?;
    let greeting = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let mut open = Vec::new();
    for number in 0..60 {
        let mut tunnel = Tunnel::connect(&wire.house.door("one"), wire.claimed.token(), "api.test:443")?;
        tunnel.send(&greeting[..number % greeting.len()])?;
        open.push(tunnel);
    }
    ensure!(wire.inside("api.test")?.ask(&get("api.test", "/", ""))?.status == 200);
    let began = Instant::now();
    for mut tunnel in open {
        tunnel.rest()?;
    }
    ensure!(began.elapsed() < Duration::from_secs(4), "it took {:?}", began.elapsed());
    wire.house.wait_line("the refusal", |line| line["kind"] == "refused" && line["reason"] == "handshake-failed")?;
    Ok(())
}

fn crowd() -> Result<()> {
    let wire = hurried()?;
    let pid = wire.house.pid().context("no gateway")?;
    let open = || std::fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count).unwrap_or_default();
    ensure!(wire.inside("api.test")?.ask(&get("api.test", "/", ""))?.status == 200);
    let before = open();
    for number in 0..3000 {
        let Ok(mut tunnel) = Tunnel::open(&wire.house.door("one")) else { continue };
        match number % 4 {
            0 => {}
            1 => drop(tunnel.send(b"GET / HT")),
            2 => drop(tunnel.send(&[0x16, 3, 1])),
            _ => drop(tunnel.send(harness::door::connect_head("api.test:443", Some(wire.claimed.token())).as_bytes())),
        }
    }
    ensure!(wire.inside("api.test")?.ask(&get("api.test", "/", ""))?.status == 200, "the door is down");
    harness::until("the descriptors to be given back", Duration::from_secs(5), || {
        (open() <= before + 5).then_some(())
    })?;
    ensure!(wire.house.ledger()?.len() < 500, "{} lines in the ledger", wire.house.ledger()?.len());
    Ok(())
}

fn own_limit() -> Result<()> {
    let wire = Wire::with(Options::default(), |house| {
        house.add_box("two", "").extra("\n[limits]\nconnections_per_box = 8\nrequests_in_flight_per_box = 2\n")
    })?;
    let other = Claimed::take(&wire.house.door("two"))?;
    wire.standin.rules(vec![
        Rule::new("/slow", Fault::Hang(Duration::from_secs(20))),
        Rule::new("", Fault::Status { status: 200, headers: Vec::new(), body: Vec::new() }),
    ]);
    let mut slow = [wire.inside("api.test")?, wire.inside("api.test")?];
    for inside in &mut slow {
        inside.send(&get("api.test", "/slow", ""))?;
    }
    wire.standin.wait_seen(2, Duration::from_secs(5))?;
    let answer = wire.inside("api.test")?.ask(&get("api.test", "/third", ""))?;
    ensure!(answer.status == 503 && answer.reason() == Some("too-many"), "{answer:?}");
    let filling: Vec<_> = (0..8).filter_map(|_| Tunnel::open(&wire.house.door("one")).ok()).collect();
    let over = harness::until("the limit", Duration::from_secs(5), || {
        let mut tunnel = Tunnel::open(&wire.house.door("one")).ok()?;
        tunnel.ask(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").ok().filter(|answer| answer.status == 503)
    })?;
    ensure!(over.reason() == Some("too-many"), "{over:?}");
    let mut inside = Tunnel::connect(&wire.house.door("two"), other.token(), "api.test:443")?
        .tls(&wire.house.ca_pem()?, "api.test")?;
    ensure!(inside.ask(&get("api.test", "/other", ""))?.status == 200, "the other box was harmed");
    drop((filling, slow));
    harness::until("the places to be given back", Duration::from_secs(5), || wire.house.identity("one").ok())?;
    harness::until("requests to be taken again", Duration::from_secs(5), || {
        let answer = wire.inside("api.test").ok()?.ask(&get("api.test", "/again", "")).ok()?;
        (answer.status == 200).then_some(())
    })
}

fn in_a_minute() -> Result<()> {
    let wire = Wire::with(Options::default(), |house| {
        let rates = "\n[limits]\nrequests_per_minute_per_box = 30\ntunnels_per_minute_per_box = 5\n";
        house.add_box("two", "").extra(rates)
    })?;
    wire.answer_all();
    let other = Claimed::take(&wire.house.door("two"))?;
    let mut inside = wire.inside("api.test")?;
    let mut taken = 0;
    let refused = loop {
        let answer = inside.ask(&get("api.test", "/", "")).with_context(|| format!("request {taken}"))?;
        if answer.status != 200 {
            break answer;
        }
        taken += 1;
        ensure!(taken < 60, "no end of requests");
    };
    ensure!(taken >= 30 && refused.status == 503 && refused.reason() == Some("too-many"), "{taken}, then {refused:?}");
    let seen = wire.standin.seen().len();
    ensure!(seen == taken, "{seen} went out, {taken} were let through");
    let head = harness::door::connect_head("other.test:443", Some(wire.claimed.token()));
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(Tunnel::open(&wire.house.door("one"))?.ask(head.as_bytes())?.status);
    }
    ensure!(statuses[..4] == [200; 4] && statuses[4..].contains(&503), "{statuses:?}");
    wire.house.wait_line("the refusal", |line| line["kind"] == "refused" && line["reason"] == "too-many")?;
    let lines = wire.house.ledger()?.iter().filter(|line| line["reason"] == "too-many").count();
    ensure!(lines <= 4, "{lines} lines of the same");
    let mut inside = Tunnel::connect(&wire.house.door("two"), other.token(), "api.test:443")?
        .tls(&wire.house.ca_pem()?, "api.test")?;
    ensure!(inside.ask(&get("api.test", "/other", ""))?.status == 200, "the other box was harmed");
    Ok(())
}

fn garbage() -> Result<()> {
    let wire = hurried()?;
    let kinds: [&[u8]; 7] = [
        b"\0\0\0\0\0\0\0\0",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x05\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
    ];
    for bytes in kinds {
        let mut tunnel = Tunnel::open(&wire.house.door("one"))?;
        tunnel.send(bytes)?;
        let said = tunnel.rest()?;
        ensure!(!said.starts_with(b"HTTP/1.1 2"), "{bytes:?}: {:?}", String::from_utf8_lossy(&said));
        ensure!(wire.house.identity("one").is_ok(), "{bytes:?} took the door down");
        let mut inside = wire.inside("api.test")?;
        inside.send(bytes)?;
        let said = inside.rest()?;
        ensure!(!said.starts_with(b"HTTP/1.1 2"), "{bytes:?}: {:?}", String::from_utf8_lossy(&said));
    }
    ensure!(wire.inside("api.test")?.ask(&get("api.test", "/", ""))?.status == 200);
    Ok(())
}

fn hurried() -> Result<Wire> {
    let wire = Wire::with(Options::default(), |house| {
        house.extra("\n[limits]\nhead_deadline = \"500ms\"\ntls_deadline = \"700ms\"\n")
    })?;
    wire.answer_all();
    Ok(wire)
}
