//! Hosts and ports: one name has one spelling, a grant opens the port it names, and a name leads nowhere private.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use harness::{Case, Claimed, House, Tunnel, case};
use standin::{Options, Real};

use super::base::{GATEWAY, REAL, Wire, get, only, there};

pub(super) const CASES: &[Case] = &[
    case("wire::r08_the_houses_own_loopback_is_never_dialled", own_loopback).needs(GATEWAY),
    case("wire::r23_a_host_is_granted_with_its_port_alone", ports).needs(GATEWAY),
    case("wire::r23_a_port_in_a_grant_opens_that_port_alone", named_port).needs(GATEWAY),
    case("wire::r37_every_spelling_of_an_ungranted_name_is_refused", spellings).needs(GATEWAY),
    case("wire::r37_a_granted_name_is_granted_in_every_spelling", granted_spellings).needs(GATEWAY),
    case("wire::r54_authorities_that_are_none_are_400", authorities).needs(GATEWAY),
    case("wire::r55_a_name_that_leads_to_a_private_address_is_not_dialled", rebinding).needs(GATEWAY),
    case("wire::r55_a_private_address_is_not_dialled_in_any_spelling", private_literals).needs(GATEWAY),
    case("wire::r61_what_is_no_proxy_request_is_400", no_proxy_request).needs(GATEWAY),
];

/// Not even where everything is granted: a grant would have to name the very address.
fn own_loopback() -> Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("listen")?;
    listener.set_nonblocking(true).context("prepare the listener")?;
    let port = listener.local_addr().context("read the port")?.port();
    let wire = Wire::with(Options::default(), |house| {
        house.grant(&format!("name = \"all\"\nhosts = [\"*\"]\nports = [{port}]\nplain = true"))
    })?;
    for (host, name) in [
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("127.9.9.9", "127.9.9.9"),
        ("localhost", "localhost"),
    ] {
        let at = format!("{host}:{port}");
        let fields = format!("Host: {at}\r\nContent-Length: 0\r\n");
        let plain = wire.plain(&format!("POST http://{at}/mcp"), &fields, "")?;
        let inside = wire.inside_of(&at, name)?.ask(&get(&at, "/mcp", ""))?;
        for (way, answer) in [("plain", plain), ("inside", inside)] {
            ensure!(answer.status == 403 && answer.reason() == Some("address-refused"), "{way} {at}: {answer:?}");
        }
    }
    ensure!(listener.accept().is_err(), "the house dialled its own loopback");
    Ok(())
}

fn ports() -> Result<()> {
    let wire = Wire::start()?;
    for port in [22, 8443, 80] {
        let answer = wire.inside_of(&format!("open.test:{port}"), "open.test")?.ask(&get(
            &format!("open.test:{port}"),
            "/",
            "",
        ))?;
        ensure!(answer.status == 403 && answer.reason() == Some("port-refused"), "{port}: {answer:?}");
    }
    for target in [
        "open.test:0",
        "open.test:65536",
        "open.test",
        "open.test:",
        "open.test:443x",
        "open.test:-1",
        "open.test:+443",
    ] {
        let answer = connect(&wire, target)?;
        ensure!(answer.status == 400, "{target}: {answer:?}");
    }
    let answer = wire.plain("GET http://open.test:8080/", "Host: open.test:8080\r\n", "")?;
    ensure!(answer.status == 403 && answer.reason() == Some("port-refused"), "{answer:?}");
    ensure!(wire.standin.connections().is_empty(), "something was dialled");
    Ok(())
}

fn named_port() -> Result<()> {
    let standin = standin::StandIn::start(Options {
        names: vec!["eight.test".into()],
        real: vec![Real::Bearer(REAL.into())],
        ..Options::default()
    })?;
    let house = House::builder()
        .secret(Real::Bearer(REAL.into()))
        .file("standin-ca.pem", standin.ca_pem().as_bytes())
        .grant(&format!("name = \"eight\"\nhosts = [\"eight.test\"]\nports = [8443]\n{}", there(&standin)))
        .start()?;
    let wire = Wire { claimed: Claimed::take(&house.door("one"))?, standin, house };
    wire.answer_all();
    let answer = wire.inside_of("eight.test:8443", "eight.test")?.ask(&get("eight.test:8443", "/", ""))?;
    ensure!(answer.status == 200, "{answer:?}");
    ensure!(only(&wire.standin)?.header("host") == ["eight.test:8443"], "{:?}", wire.standin.seen());
    let answer = wire.inside_of("eight.test:8443", "eight.test")?.ask(&get("eight.test", "/", ""))?;
    ensure!(answer.reason() == Some("host-mismatch"), "{answer:?}");
    for port in [443, 8444] {
        let answer = wire.inside_of(&format!("eight.test:{port}"), "eight.test")?.ask(&get(
            &format!("eight.test:{port}"),
            "/",
            "",
        ))?;
        ensure!(answer.status == 403, "{port}: {answer:?}");
    }
    only(&wire.standin).map(drop)
}

/// Everything but `blocked.test` is granted, by name.
fn spellings() -> Result<()> {
    let wire = Wire::start()?;
    for target in ["BLOCKED.Test:443", "blocked.test.:443"] {
        let answer = wire.inside_of(target, "blocked.test")?.ask(&get("blocked.test", "/", ""))?;
        ensure!(answer.status == 403 && answer.reason() == Some("no-grant"), "{target}: {answer:?}");
    }
    for target in ["[blocked.test]:443", "[[blocked.test]]:443", "blocked.test..:443", "bl%6fcked.test:443"] {
        let answer = connect(&wire, target)?;
        ensure!(answer.status == 400, "{target}: {answer:?}");
    }
    for name in ["open.test.evil.example", "xopen.test", "open.test\u{2024}example"] {
        let Ok(mut inside) = wire.inside_of(&format!("{name}:443"), name) else { continue };
        let answer = inside.ask(&get(name, "/", ""))?;
        ensure!(answer.status == 403, "{name}: {answer:?}");
    }
    ensure!(wire.standin.connections().is_empty(), "something was dialled");
    let line = wire.house.wait_line("the refusal", |line| line["reason"] == "no-grant")?;
    ensure!(line["target"] == "blocked.test:443", "{line}");
    Ok(())
}

fn granted_spellings() -> Result<()> {
    let wire = Wire::with(Options::default(), |house| {
        house.grant("name = \"blocked\"\nhosts = [\"blocked.test\"]\nmethods = [\"PUT\"]")
    })?;
    wire.answer_all();
    let mut inside = wire.inside_of("API.OK.TEST.:443", "api.ok.test")?;
    let shown = inside.certificates();
    let leaf = shown.first().context("no leaf")?;
    let leaf = names(&x509_parser::parse_x509_certificate(leaf).context("parse the leaf")?.1);
    ensure!(leaf == ["api.ok.test"], "the leaf is for {leaf:?}");
    for host in ["API.OK.TEST.", "api.ok.test", "Api.Ok.Test:443"] {
        let answer = inside.ask(&get(host, "/s", ""))?;
        ensure!(answer.status == 200, "{host}: {answer:?}");
    }
    for seen in wire.standin.seen() {
        ensure!(seen.real && seen.header("host") == ["api.ok.test"], "{seen:?}");
    }
    ensure!(wire.standin.seen().len() == 3 && wire.standin.connections()[0].sni.as_deref() == Some("api.ok.test"));
    let (opened, _) = wire.closed("/s")?;
    ensure!(opened["target"] == "api.ok.test:443", "{opened}");
    idn_and_underscore()
}

fn idn_and_underscore() -> Result<()> {
    let standin = standin::StandIn::start(Options {
        names: vec!["xn--bcher-kva.test".into(), "host_with_underscore.test".into()],
        ..Options::default()
    })?;
    let house = House::builder()
        .secret(Real::Bearer(REAL.into()))
        .file("standin-ca.pem", standin.ca_pem().as_bytes())
        .grant(&format!(
            "name = \"odd\"\nhosts = [\"bücher.test\", \"host_with_underscore.test\"]\n{}",
            there(&standin)
        ))
        .start()?;
    let wire = Wire { claimed: Claimed::take(&house.door("one"))?, standin, house };
    wire.answer_all();
    for name in ["xn--bcher-kva.test", "XN--BCHER-KVA.test", "host_with_underscore.test"] {
        let answer = wire.inside(name)?.ask(&get(name, "/", ""))?;
        ensure!(answer.status == 200, "{name}: {answer:?}");
    }
    Ok(())
}

fn authorities() -> Result<()> {
    let wire = Wire::start()?;
    for target in [
        "user@open.test:443",
        "user:x@open.test:443",
        ":443",
        "[::1:443",
        "::1:443",
        "[fe80::1%25eth0]:443",
        "open .test:443",
        "2130706433:443",
        "0x7f.1:443",
        "127.1:443",
        "0177.0.0.1:443",
        "open.test:443/x",
        "http://open.test:443",
        "-",
    ] {
        let answer = connect(&wire, target)?;
        ensure!(answer.status == 400, "{target}: {answer:?}");
    }
    ensure!(wire.standin.connections().is_empty(), "something was dialled");
    Ok(())
}

/// A nameserver of the attacker's: it says what it likes, first something public, then our own addresses.
fn rebinding() -> Result<()> {
    for address in [[127, 0, 0, 1], [10, 0, 0, 5], [169, 254, 169, 254], [100, 64, 0, 1], [0, 0, 0, 0]] {
        let (server, asked) = nameserver(address)?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("listen")?;
        listener.set_nonblocking(true).context("prepare the listener")?;
        let port = listener.local_addr().context("read the port")?.port();
        let house = House::builder()
            .secret(Real::Bearer(REAL.into()))
            .grant(&format!("name = \"far\"\nhosts = [\"rebound.test\"]\nports = [{port}]\nplain = true"))
            .extra(&format!("\n[dial]\nnameservers = [\"{server}\"]\n"))
            .start()?;
        let claimed = Claimed::take(&house.door("one"))?;
        let mut inside = Tunnel::connect(&house.door("one"), claimed.token(), &format!("rebound.test:{port}"))?
            .tls(&house.ca_pem()?, "rebound.test")?;
        ensure!(asked.load(Ordering::Relaxed) == 0, "a name was looked up before a permit");
        let answer = inside.ask(&get(&format!("rebound.test:{port}"), "/r", ""))?;
        ensure!(answer.status == 403 && answer.reason() == Some("address-refused"), "{address:?}: {answer:?}");
        ensure!(asked.load(Ordering::Relaxed) > 0, "the name was not looked up");
        ensure!(listener.accept().is_err(), "{address:?} was dialled");
        house.wait_line("the refusal", |line| line["kind"] == "closed" && line["reason"] == "address-refused")?;
    }
    Ok(())
}

fn nameserver(address: [u8; 4]) -> Result<(std::net::SocketAddr, Arc<AtomicUsize>)> {
    let socket = UdpSocket::bind("127.0.0.1:0").context("bind a nameserver")?;
    let here = socket.local_addr().context("read its address")?;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut packet) {
            count.fetch_add(1, Ordering::Relaxed);
            if let Some(reply) = reply(&packet[..length], address) {
                let _gone = socket.send_to(&reply, from);
            }
        }
    });
    Ok((here, asked))
}

fn reply(query: &[u8], address: [u8; 4]) -> Option<Vec<u8>> {
    let name_end = 12 + query.get(12..)?.iter().position(|byte| *byte == 0)? + 1;
    let is_a = query.get(name_end..name_end + 2)? == [0, 1];
    let mut reply = query.get(..name_end + 4)?.to_vec();
    reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    if is_a {
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
        reply.extend(address);
    }
    Some(reply)
}

fn private_literals() -> Result<()> {
    let house = House::builder()
        .secret(Real::Bearer(REAL.into()))
        .grant("name = \"all\"\nhosts = [\"*\"]\nports = [443, 9]\nplain = true")
        .start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    for literal in [
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "10.1.2.3",
        "100.64.0.9",
        "0.0.0.0",
        "[fd00::1]",
    ] {
        let token = claimed.token();
        let head = harness::door::connect_head("x:1", Some(token));
        let credential = head.lines().find(|line| line.starts_with("Proxy-")).unwrap_or_default();
        let head = format!("GET http://{literal}:9/ HTTP/1.1\r\nHost: {literal}:9\r\n{credential}\r\n\r\n");
        let answer = Tunnel::open(&house.door("one"))?.ask(head.as_bytes())?;
        ensure!(answer.status == 403 && answer.reason() == Some("address-refused"), "{literal}: {answer:?}");
    }
    Ok(())
}

fn no_proxy_request() -> Result<()> {
    let wire = Wire::start()?;
    for first in
        ["GET /", "GET /healthz?x=1", "OPTIONS *", "GET https://open.test/", "GET ftp://open.test/", "POST /claim"]
    {
        let answer = wire.plain(first, "Host: open.test\r\nContent-Length: 0\r\n", "")?;
        ensure!(answer.status == 400, "{first}: {answer:?}");
    }
    let identity = wire.house.identity("one")?;
    ensure!(identity.box_id.as_str() == "one");
    ensure!(wire.standin.connections().is_empty());
    Ok(())
}

fn connect(wire: &Wire, target: &str) -> Result<harness::raw::Response> {
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n{}\r\n", wire.credential());
    Tunnel::open(&wire.house.door("one"))?.ask(head.as_bytes())
}

fn names(leaf: &x509_parser::certificate::X509Certificate<'_>) -> Vec<String> {
    let found = leaf.subject_alternative_name().ok().flatten();
    let names = found.map(|found| found.value.general_names.clone()).unwrap_or_default();
    names
        .iter()
        .filter_map(|name| match name {
            x509_parser::extensions::GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect()
}
