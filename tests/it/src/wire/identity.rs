//! Identity: who has no run token is asked for one, in a way that every client understands, and is never somebody.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::door::connect_head;
use harness::{Case, Claimed, Tunnel, case, secrets};

use super::base::{GATEWAY, Wire, get};

pub(super) const CASES: &[Case] = &[
    case("wire::r32_without_a_token_there_is_a_challenge_and_the_retry_is_taken", challenged).needs(GATEWAY),
    case("wire::r32_every_malformed_credential_is_the_same_407", same_407).needs(GATEWAY),
    case("wire::r43_a_token_is_never_a_path_or_a_subject", no_subject).needs(GATEWAY),
    case("wire::r44_the_user_name_alone_is_the_token", user_name).needs(GATEWAY),
    case("wire::r45_identity_is_fixed_at_connect", fixed).needs(GATEWAY),
    case("wire::r46_open_tunnels_die_with_the_run", die_with_the_run).needs(GATEWAY),
];

fn challenged() -> Result<()> {
    let wire = Wire::start()?;
    for wrong in
        [String::new(), "Proxy-Authorization: Bearer x\r\n".to_owned(), "Proxy-Authorization: Basic !!\r\n".to_owned()]
    {
        let mut tunnel = Tunnel::open(&wire.house.door("one"))?;
        tunnel.send(format!("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n{wrong}\r\n").as_bytes())?;
        let mut socket = tunnel.socket();
        let first = harness::raw::response(&mut socket, true)?;
        ensure!(first.status == 407 && first.complete, "{first:?}");
        ensure!(first.header("proxy-authenticate") == Some("Basic realm=\"boxgate\""), "{first:?}");
        ensure!(first.header("content-length").is_some(), "{first:?}");
        let again = format!("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n{}\r\n", wire.credential());
        if first.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            ensure!(tunnel.rest()?.is_empty());
            continue;
        }
        let second = tunnel.ask(again.as_bytes())?;
        ensure!(second.status == 200, "{wrong:?}: the retry was answered {second:?}");
        wire.answer_all();
        let answer = tunnel.tls(&wire.house.ca_pem()?, "api.test")?.ask(&get("api.test", "/", ""))?;
        ensure!(answer.status == 200, "{answer:?}");
    }
    Ok(())
}

fn same_407() -> Result<()> {
    let wire = Wire::start()?;
    let token = wire.claimed.token().to_owned();
    let basic = |text: &[u8]| format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(text));
    let good = basic(format!("{token}:x").as_bytes());
    let swapped: String = token.chars().rev().collect();
    let cases = [
        String::new(),
        basic(format!("{swapped}:x").as_bytes()),
        basic(b"00000000-0000-4000-8000-000000000000:x"),
        format!("Proxy-Authorization: Bearer {token}\r\n"),
        format!("Proxy-Authorization: Basic {token}\r\n"),
        "Proxy-Authorization: Basic\r\n".to_owned(),
        "Proxy-Authorization: Basic :\r\n".to_owned(),
        basic(token.as_bytes()),
        basic(format!(":{token}").as_bytes()),
        basic(format!("x{token}:x").as_bytes()),
        basic(format!("{token}\0:x").as_bytes()),
        basic(b"\xff\xfe:x"),
        format!("{good}{good}"),
        format!("{good}Proxy-Authorization: Bearer other\r\n"),
        good.replace("Proxy-Authorization", "Authorization"),
    ];
    let mut bodies = Vec::new();
    for case in cases {
        let head = format!("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n{case}\r\n");
        let mut tunnel = Tunnel::open(&wire.house.door("one"))?;
        tunnel.send(head.as_bytes())?;
        let mut socket = tunnel.socket();
        let answer = harness::raw::response(&mut socket, true)?;
        ensure!(answer.status == 407 && answer.header("proxy-authenticate").is_some(), "{case:?}: {answer:?}");
        ensure!(answer.header("www-authenticate").is_none(), "{answer:?}");
        bodies.push(answer.body);
    }
    ensure!(bodies.iter().all(|body| *body == bodies[0]), "the refusals differ");
    let kept = std::fs::read(wire.house.ledger_file()).context("read the ledger")?;
    let encoded = STANDARD.encode(format!("{token}:x"));
    ensure!(!secrets::in_bytes(&kept, &[&token, &encoded, &swapped]), "a token is in the ledger");
    ensure!(!secrets::in_bytes(wire.house.said().as_bytes(), &[&token, &encoded, &swapped]), "a token is in the log");
    Ok(())
}

fn no_subject() -> Result<()> {
    let wire = Wire::start()?;
    for user in ["/etc/passwd", "../../runs/one", "", "..", "one", "*", "root", "%2e%2e"] {
        let answer = Tunnel::open(&wire.house.door("one"))?.ask(connect_head("api.test:443", Some(user)).as_bytes())?;
        ensure!(answer.status == 407, "{user:?}: {answer:?}");
    }
    let refusals =
        wire.house.wait_line("a refusal", |line| line["kind"] == "refused" && line["reason"] == "no-run-token")?;
    ensure!(refusals.get("run").is_none() && refusals["box"] == "one", "{refusals}");
    ensure!(wire.standin.connections().is_empty());
    Ok(())
}

fn user_name() -> Result<()> {
    let wire = Wire::start()?;
    let token = wire.claimed.token();
    for (scheme, pair) in [
        ("Basic", format!("{token}:")),
        ("basic", format!("{token}:x")),
        ("BASIC", format!("{token}:a:b:c")),
        ("Basic ", format!("{token}:\u{e9}")),
    ] {
        let head = format!(
            "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\nProxy-Authorization: {scheme} {}\r\n\r\n",
            STANDARD.encode(pair)
        );
        let answer = Tunnel::open(&wire.house.door("one"))?.ask(head.as_bytes())?;
        ensure!(answer.status == 200, "{scheme}: {answer:?}");
    }
    Ok(())
}

fn fixed() -> Result<()> {
    let wire = Wire::with(standin::Options::default(), |house| house.add_box("two", ""))?;
    wire.answer_all();
    let other = Claimed::take(&wire.house.door("two"))?;
    let head = connect_head("api.test:443", Some(other.token()));
    let answer = Tunnel::open(&wire.house.door("one"))?.ask(head.as_bytes())?;
    ensure!(answer.status == 407, "a token was taken at another box's door: {answer:?}");
    let line = head.lines().find(|line| line.starts_with("Proxy-")).unwrap_or_default();
    for inner in [line, "Proxy-Authorization: Basic eDp4", "Proxy-Authorization: garbage"] {
        let answer = wire.inside("api.test")?.ask(&get("api.test", "/in", &format!("{inner}\r\n")))?;
        ensure!(answer.status == 200, "{inner}: {answer:?}");
    }
    ensure!(wire.standin.seen().iter().all(|seen| seen.header("proxy-authorization").is_empty()));
    let run = wire.claimed.spec.run.to_string();
    let lines: Vec<_> = wire.house.ledger()?.into_iter().filter(|line| line["path"] == "/in").collect();
    ensure!(
        lines.len() == 3 && lines.iter().all(|line| line["box"] == "one" && line["run"] == run.as_str()),
        "{lines:?}"
    );
    Ok(())
}

fn die_with_the_run() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let mut idle = wire.inside("api.test")?;
    ensure!(idle.ask(&get("api.test", "/before", ""))?.status == 200);
    wire.standin.rules(vec![standin::Rule::new("/slow", standin::Fault::Hang(Duration::from_secs(60)))]);
    let mut busy = wire.inside("api.test")?;
    busy.send(&get("api.test", "/slow", ""))?;
    wire.standin.wait_seen(2, Duration::from_secs(5))?;
    let Wire { standin, house, claimed } = wire;
    let began = Instant::now();
    claimed.report()?;
    ensure!(!busy.rest()?.starts_with(b"HTTP/1.1 2"), "the busy tunnel was answered");
    ensure!(idle.rest()?.is_empty(), "the idle tunnel said something");
    ensure!(began.elapsed() < Duration::from_secs(3), "it took {:?}", began.elapsed());
    let gone = harness::until("the upstream to be left", Duration::from_secs(3), || {
        standin.connections().iter().all(|one| one.ended.is_some()).then_some(())
    });
    gone?;
    let slow = house.wait_line("the request", |line| line["path"] == "/slow")?;
    let closed = house.wait_line("its end", |line| line["of"] == slow["seq"])?;
    ensure!(closed["ended"] == "cut", "{closed}");
    Ok(())
}
