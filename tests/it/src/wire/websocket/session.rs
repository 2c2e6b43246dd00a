//! The session: the first frame, large frames, silence, many side by side, and what the ledger says of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::{Case, case, until};
use standin::{Options, Rule, Then};

use super::super::base::{GATEWAY, REAL, Wire};
use super::upstream::{ANSWER, GREETING};
use super::{Echo, asking, frames, raw};

pub(crate) const CASES: &[Case] = &[
    case("wire::r10_a_websocket_passes_whole_with_its_first_frame_and_its_close", whole).needs(GATEWAY),
    case("wire::r10_a_first_frame_that_comes_at_once_is_kept_and_one_sent_with_the_handshake_too", at_once)
        .needs(GATEWAY),
    case("wire::r10_a_websocket_in_plain_passes_too", plain).needs(GATEWAY),
    case("wire::an_echo_in_a_websocket_is_blotted_out_whatever_frames_cut_it", blotted).needs(GATEWAY),
    case("wire::what_only_begins_like_a_credential_holds_no_websocket_up", unheld).needs(GATEWAY),
    case("wire::r22_silence_in_a_websocket_ends_nothing", silence).needs(GATEWAY),
    case("wire::r22_a_websocket_that_is_dead_ends_at_its_limit", dead).needs(GATEWAY),
    case("wire::r10_fifty_websockets_side_by_side_leave_nothing_behind", fifty).needs(GATEWAY),
    case("wire::r10_a_websocket_holds_a_place_of_its_box", place).needs(GATEWAY),
];

/// The upstream sends back what it is sent, frame by frame.
fn blotted() -> Result<()> {
    let echo = Echo::start()?;
    let mut inside = echo.session("/echo")?;
    let (begin, end) = REAL.as_bytes().split_at(11);
    for (frames, blots) in [
        (vec![(frames::TEXT, REAL.as_bytes())], vec![REAL.len()]),
        (vec![(frames::BINARY, begin), (frames::BINARY, end)], vec![begin.len(), end.len()]),
    ] {
        for (opcode, payload) in &frames {
            inside.send(&frames::frame(*opcode, payload, Some([1, 2, 3, 4])))?;
        }
        for ((opcode, _), blot) in frames.iter().zip(blots) {
            let came = frames::read(&mut inside)?;
            ensure!(came.raw == frames::frame(*opcode, "*".repeat(blot).as_bytes(), None), "{:?}", came.payload);
        }
    }
    echo.wire.house.wait_line("the alarm", |line| line["alarm"] == "credential-echo")?;
    Ok(())
}

/// Messages and pings that end as the credential begins: their last byte may be the first of an echo.
fn unheld() -> Result<()> {
    let echo = Echo::start()?;
    let mut inside = echo.session("/unheld")?;
    let begun = [b"it is ", &REAL.as_bytes()[..3]].concat();
    for (opcode, back) in [(frames::TEXT, frames::TEXT), (frames::PING, frames::PONG), (frames::BINARY, frames::BINARY)]
    {
        let began = Instant::now();
        inside.send(&frames::frame(opcode, &begun, Some([1, 2, 3, 4])))?;
        let came = frames::read(&mut inside)?;
        ensure!((came.opcode, &came.payload) == (back, &begun), "{opcode}: {:?}", came.payload);
        ensure!(began.elapsed() < Duration::from_secs(1), "{opcode}: it took {:?}", began.elapsed());
    }
    inside.send(&frames::frame(frames::PING, &begun, Some([1, 2, 3, 4])))?;
    let large = vec![b'.'; 256 * 1024];
    inside.send(&frames::frame(frames::BINARY, &large, Some([1, 2, 3, 4])))?;
    ensure!(frames::read(&mut inside)?.payload == begun && frames::read(&mut inside)?.payload == large);
    ensure!(echo.wire.house.ledger()?.iter().all(|line| line["kind"] != "alarm"), "nothing came back");
    Ok(())
}

fn whole() -> Result<()> {
    let echo = Echo::start()?;
    let mut config = (*harness::door::client_config(&echo.wire.house.ca_pem()?)?).clone();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let began = Instant::now();
    let tunnel = harness::Tunnel::connect(&echo.wire.house.door("one"), echo.wire.claimed.token(), "ws.test:443")?;
    let mut inside = tunnel.tls_with(Arc::new(config), "ws.test")?;
    ensure!(inside.alpn().as_deref() == Some("http/1.1"), "{:?}", inside.alpn());
    ensure!(inside.ask(&asking("ws.test", "/whole", ""))?.status == 101);
    let greeting = frames::read(&mut inside)?;
    ensure!(greeting.payload == GREETING && began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let large: Vec<u8> = (0..1024 * 1024_u32).map(|at| u8::try_from(at * 31 % 251).unwrap_or_default()).collect();
    let (mut up, mut down) = (0, greeting.raw.len());
    for (opcode, payload, back) in [
        (frames::BINARY, &large[..], frames::BINARY),
        (frames::PING, b"beat", frames::PONG),
        (frames::TEXT, b"", frames::TEXT),
        (frames::BINARY, &large[1..], frames::BINARY),
        (frames::CLOSE, b"\x03\xe8", frames::CLOSE),
    ] {
        let sent = frames::frame(opcode, payload, Some([0x37, 0xfa, 0x21, 0x3d]));
        inside.send(&sent)?;
        let came = frames::read(&mut inside)?;
        ensure!(came.raw == frames::frame(back, payload, None), "{opcode}: {} bytes came", came.raw.len());
        (up, down) = (up + sent.len(), down + came.raw.len());
    }
    ensure!(inside.rest()?.is_empty(), "the end follows the close");
    let (opened, closed) = echo.wire.closed("/whole")?;
    ensure!(opened["kind"] == "request" && opened["method"] == "GET" && opened["grant"] == "ws", "{opened}");
    ensure!(closed["ended"] == "complete" && closed["status"] == 101 && closed["reason"].is_null(), "{closed}");
    ensure!(closed["bytes_up"] == up && closed["bytes_down"] == down, "{up} up, {down} down: {closed}");
    ensure!(closed["timings_us"]["head"].is_u64() && closed["lasted_us"].is_u64(), "{closed}");
    let seen = echo.upstream.wait_ended(1, Duration::from_secs(3))?;
    ensure!((seen[0].frames, seen[0].bytes) == (5, up), "{:?}", (seen[0].frames, seen[0].bytes));
    let tunnel = echo.wire.house.wait_line("the tunnel's end", |line| line["of"] == 2 || line["kind"] == "tunnel")?;
    let ended = echo.wire.house.wait_line("its closing", |line| line["of"] == tunnel["seq"])?;
    ensure!(ended["bytes_up"].as_u64() >= Some(up as u64), "the tunnel's line has its bytes: {ended}");
    Ok(())
}

fn at_once() -> Result<()> {
    let wire = Wire::start()?;
    let greeting = frames::frame(frames::TEXT, GREETING, None);
    let early = frames::frame(frames::TEXT, b"before the answer", Some([1, 2, 3, 4]));
    let answer = [ANSWER.as_bytes(), &greeting].concat();
    wire.standin.rules(vec![Rule::new("", raw(&answer, Then::Drain))]);
    for round in 0..20 {
        let mut inside = wire.inside("sock.test")?;
        // RFC 6455 has a client wait for the 101; one that does not loses nothing.
        let came = inside.ask(&[asking("sock.test", &format!("/{round}"), ""), early.clone()].concat())?;
        ensure!(came.status == 101, "{came:?}");
        ensure!(frames::read(&mut inside)?.raw == greeting, "round {round}");
        until("the early frame to arrive", Duration::from_secs(3), || {
            let raw = wire.standin.connections().pop()?.raw;
            raw.ends_with(&early).then_some(())
        })?;
    }
    Ok(())
}

fn plain() -> Result<()> {
    let standin = standin::StandIn::start(Options { plain: true, ..Options::default() })?;
    let greeting = frames::frame(frames::TEXT, GREETING, None);
    standin.rules(vec![Rule::new("", raw(&[ANSWER.as_bytes(), &greeting].concat(), Then::Drain))]);
    let grant = |name: &str, more: &str| {
        format!(
            "name = \"{name}\"\nhosts = [\"{name}.test\"]\nplain = true\nunsafe_dial = \"{}\"\n{more}",
            standin.address()
        )
    };
    let wire = Wire::with(Options::default(), |house| {
        house.grant(&grant("ws", "websocket = true")).grant(&grant("quiet", ""))
    })?;
    let mut tunnel = harness::Tunnel::open(&wire.house.door("one"))?;
    let head = |host: &str| {
        let asked = asking(host, &format!("http://{host}/plain"), &wire.credential());
        String::from_utf8_lossy(&asked).into_owned()
    };
    let answer = tunnel.ask(head("ws.test").as_bytes())?;
    ensure!(answer.status == 101, "{answer:?}");
    ensure!(frames::read(&mut tunnel.socket())?.raw == greeting);
    tunnel.send(&frames::frame(frames::CLOSE, b"", Some([9; 4])))?;
    drop(tunnel);
    let (_, closed) = wire.closed("/plain")?;
    ensure!(closed["ended"] == "complete" && closed["bytes_up"] == 6, "{closed}");
    let answer = harness::Tunnel::open(&wire.house.door("one"))?.ask(head("quiet.test").as_bytes())?;
    ensure!(answer.status == 426, "{answer:?}");
    Ok(())
}

/// All other waits are shorter than the silence.
fn silence() -> Result<()> {
    let echo = Echo::with(
        "\n[limits]\nhead_deadline = \"300ms\"\nidle_tunnel = \"400ms\"\nresponse_idle = \"400ms\"\nresponse_head_deadline = \"2s\"\ntls_deadline = \"2s\"\nupstream_idle = \"300ms\"\nwebsocket_idle = \"10s\"\n",
    )?;
    let mut inside = echo.session("/silence")?;
    for round in 0..2 {
        std::thread::sleep(Duration::from_millis(2500));
        let sent = frames::frame(frames::TEXT, b"still here", Some([5; 4]));
        inside.send(&sent)?;
        ensure!(frames::read(&mut inside)?.payload == b"still here", "round {round}");
    }
    Ok(())
}

fn dead() -> Result<()> {
    let echo = Echo::with("\n[limits]\nwebsocket_idle = \"1s\"\n")?;
    let mut inside = echo.session("/dead")?;
    let began = Instant::now();
    ensure!(inside.rest()?.is_empty());
    let took = began.elapsed();
    ensure!(took > Duration::from_millis(700) && took < Duration::from_secs(4), "it took {took:?}");
    echo.upstream.wait_ended(1, Duration::from_secs(2))?;
    let closed = echo.closed("/dead")?;
    ensure!(closed["ended"] == "incomplete" && closed["reason"] == "upstream-failed", "{closed}");
    ensure!(closed["inside"] == "nothing passed for too long", "{closed}");
    Ok(())
}

fn fifty() -> Result<()> {
    let echo = Echo::start()?;
    let pid = echo.wire.house.pid().context("no gateway")?;
    let open = || std::fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count).unwrap_or_default();
    drop(echo.session("/first")?);
    echo.closed("/first")?;
    echo.upstream.wait_ended(1, Duration::from_secs(5))?;
    let before = settled(open);
    let now = || -> Option<(u64, u64, u64)> {
        let status = echo.wire.house.status().ok()?;
        Some((status["connections"].as_u64()?, status["tasks"].as_u64()?, status["ledger"]["open"].as_u64()?))
    };
    let held = now().context("no status")?;
    let mut sessions = (0..50).map(|number| echo.session(&format!("/s{number}"))).collect::<Result<Vec<_>>>()?;
    ensure!(open() >= before + 100, "{} descriptors, {before} before", open());
    for (number, inside) in sessions.iter_mut().enumerate() {
        let mine = format!("mine {number}");
        inside.send(&frames::frame(frames::TEXT, mine.as_bytes(), Some([7; 4])))?;
        ensure!(frames::read(inside)?.payload == mine.as_bytes(), "session {number} had another's frame");
    }
    ensure!(now().is_some_and(|now| now.0 >= held.0 + 50 && now.2 >= 50), "the status does not show them: {:?}", now());
    // Half of them say good-bye, half just leave.
    for inside in sessions.iter_mut().step_by(2) {
        inside.send(&frames::frame(frames::CLOSE, b"\x03\xe8", Some([7; 4])))?;
        ensure!(frames::read(inside)?.opcode == frames::CLOSE);
    }
    drop(sessions);
    echo.upstream.wait_ended(51, Duration::from_secs(10))?;
    for number in 0..50 {
        let closed = echo.closed(&format!("/s{number}"))?;
        ensure!(closed["ended"] == "complete", "{number}: {closed}");
    }
    until("its descriptors to be given back", Duration::from_secs(5), || (open() <= before).then_some(()))?;
    until("its tasks to end and its lines to close", Duration::from_secs(5), || {
        let (connections, tasks, open) = now()?;
        (connections <= held.0 && tasks <= held.1 && open == 0).then_some(())
    })
}

fn place() -> Result<()> {
    let echo = Echo::with("\n[limits]\nrequests_in_flight_per_box = 2\n")?;
    let first = echo.session("/p1")?;
    let _second = echo.session("/p2")?;
    let answer = echo.wire.inside("ws.test")?.ask(&asking("ws.test", "/p3", ""))?;
    ensure!(answer.status == 503 && answer.reason() == Some("too-many"), "{answer:?}");
    drop(first);
    echo.closed("/p1")?;
    until("the place to be free", Duration::from_secs(3), || echo.session("/p4").ok()).map(drop)
}

/// A count that has stopped falling.
fn settled(count: impl Fn() -> usize) -> usize {
    let mut lowest = count();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(20));
        lowest = lowest.min(count());
    }
    lowest
}
