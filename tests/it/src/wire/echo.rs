//! A credential that was put in and comes back: it never reaches the box, whatever the upstream makes of it.

use std::time::Duration;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::{Case, case};
use standin::{Fault, Packing, Rule, Then};

use super::base::{GATEWAY, REAL, Wire, get, holds, only};
use super::certificates::put;

pub(super) const CASES: &[Case] = &[
    case("wire::an_echo_in_the_body_is_blotted_out_wherever_it_is_cut", body).needs(GATEWAY),
    case("wire::an_echo_in_the_head_before_it_and_behind_the_body_is_blotted_out", heads).needs(GATEWAY),
    case("wire::an_echo_in_the_name_of_a_field_goes_with_its_field", names).needs(GATEWAY),
    case("wire::a_credential_too_short_to_look_for_still_gives_the_box_no_other", short).needs(GATEWAY),
    case("wire::an_answer_that_is_packed_unasked_is_502_where_a_credential_was_put_in", packed).needs(GATEWAY),
    case("wire::credentials_that_an_answer_gives_do_not_reach_the_box", given).needs(GATEWAY),
];

fn body() -> Result<()> {
    let wire = Wire::start()?;
    let encoded = STANDARD.encode(format!("user:{REAL}"));
    let text = format!("data: {{\"said\":\"Bearer {REAL}\"}}\n\ndata: Basic {encoded}\n\n{REAL}");
    for size in [1, 7, 20, text.len()] {
        let path = format!("/chunks-of-{size}");
        let mut pieces = vec![(
            Duration::ZERO,
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
        )];
        for part in text.as_bytes().chunks(size) {
            pieces.push((Duration::ZERO, [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat()));
        }
        pieces.push((Duration::ZERO, b"0\r\n\r\n".to_vec()));
        wire.standin.rules(vec![Rule::new("", Fault::Raw { pieces, then: Then::Keep })]);
        let answer = wire.inside("api.test")?.ask(&get("api.test", &path, ""))?;
        ensure!(answer.status == 200 && answer.complete, "{answer:?}");
        let came = answer.text();
        ensure!(came.len() == text.len(), "{size}: {came}");
        ensure!(
            came.starts_with(&format!("data: {{\"said\":\"Bearer {}\"}}\n\ndata: Basic dXNl", "*".repeat(REAL.len()))),
            "{size}: {came}"
        );
        ensure!(came.ends_with(&"*".repeat(REAL.len())) && !came.contains("REAL-ON"), "{size}: {came}");
        let left = came.split("Basic ").nth(1).and_then(|rest| rest.split('\n').next()).unwrap_or_default();
        ensure!(left.matches('*').count() * 6 / 8 >= REAL.len() - 2, "{size}: {left}");
        let (_, closed) = wire.closed(&path)?;
        ensure!(closed["ended"] == "complete" && closed["bytes_down"] == text.len(), "{closed}");
    }
    let alarm = wire.house.wait_line("the alarm", |line| line["kind"] == "alarm")?;
    ensure!(alarm["alarm"] == "credential-echo" && alarm["grant"] == "api", "{alarm}");
    ensure!(!std::fs::read_to_string(wire.house.ledger_file())?.contains("REAL-ON"), "the ledger tells it");
    // Where none was put in, nothing is looked for.
    let fault = Fault::Status { status: 200, headers: Vec::new(), body: text.clone().into_bytes() };
    wire.standin.rules(vec![Rule::new("", fault)]);
    let answer = wire.inside("open.test")?.ask(&get("open.test", "/open", ""))?;
    ensure!(answer.text() == text, "{answer:?}");
    Ok(())
}

fn heads() -> Result<()> {
    let wire = Wire::start()?;
    let hint = format!("HTTP/1.1 103 Early Hints\r\nLink: <{REAL}>\r\n\r\n");
    let head = format!(
        "HTTP/1.1 200 Bearer {REAL}\r\nx-said: one Bearer {REAL} two\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let rest = format!("4\r\nfine\r\n0\r\nx-sum: {REAL}\r\n\r\n");
    let pieces = vec![
        (Duration::ZERO, hint.into_bytes()),
        (Duration::from_millis(100), head.into_bytes()),
        (Duration::ZERO, rest.into_bytes()),
    ];
    wire.standin.rules(vec![Rule::new("", Fault::Raw { pieces, then: Then::Keep })]);
    let mut inside = wire.inside("api.test")?;
    inside.send(&get("api.test", "/heads", "TE: trailers\r\nConnection: close, TE\r\n"))?;
    let came = inside.rest()?;
    let blot = "*".repeat(REAL.len());
    for line in [format!("<{blot}>"), format!("one Bearer {blot} two"), "HTTP/1.1 200 OK\r\n".to_owned()] {
        ensure!(holds(&came, &line), "no {line:?} in {}", String::from_utf8_lossy(&came));
    }
    ensure!(!holds(&came, "REAL-ON"), "{}", String::from_utf8_lossy(&came));
    wire.house.wait_line("the alarm", |line| line["alarm"] == "credential-echo")?;
    Ok(())
}

/// The capitals of a name are kept on its way.
fn names() -> Result<()> {
    let wire = Wire::start()?;
    let small = REAL.to_lowercase();
    for name in [REAL.to_owned(), small.clone(), format!("X-{REAL}-Y"), format!("x_{small}")] {
        let hint = format!("HTTP/1.1 103 Early Hints\r\n{name}: 1\r\n\r\n");
        let head = format!("HTTP/1.1 200 OK\r\n{name}: 1\r\nX-Kept: 1\r\ntransfer-encoding: chunked\r\n\r\n");
        let rest = format!("4\r\nfine\r\n0\r\n{name}: 1\r\n\r\n");
        let pieces = [hint, head, rest].map(|piece| (Duration::from_millis(50), piece.into_bytes())).to_vec();
        wire.standin.rules(vec![Rule::new("", Fault::Raw { pieces, then: Then::Keep })]);
        let mut inside = wire.inside("api.test")?;
        inside.send(&get("api.test", "/names", "TE: trailers\r\nConnection: close, TE\r\n"))?;
        let came = String::from_utf8_lossy(&inside.rest()?).into_owned();
        ensure!(came.contains("X-Kept: 1") && came.contains("fine"), "{came}");
        ensure!(!came.to_lowercase().contains(&small), "{name}: {came}");
    }
    wire.house.wait_line("the alarm", |line| line["alarm"] == "credential-echo")?;
    Ok(())
}

fn short() -> Result<()> {
    let wire = Wire::start()?;
    put(&wire.house.secret(), b"7-bytes")?;
    let headers = [("set-cookie", "session=1"), ("x-said", "7-bytes")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    wire.standin.rules(vec![Rule::new("", Fault::Status { status: 200, headers, body: b"7-bytes".to_vec() })]);
    let answer = wire.inside("api.test")?.ask(&get("api.test", "/", "Accept-Encoding: gzip\r\n"))?;
    ensure!(answer.header("set-cookie").is_none(), "{answer:?}");
    ensure!(answer.text() == "7-bytes" && answer.header("x-said") == Some("7-bytes"), "{answer:?}");
    let seen = only(&wire.standin)?;
    ensure!(
        seen.header("authorization") == ["Bearer 7-bytes"] && seen.header("accept-encoding") == ["identity"],
        "{seen:?}"
    );
    Ok(())
}

fn packed() -> Result<()> {
    let wire = Wire::start()?;
    for (name, coding) in
        [("content-encoding", "gzip"), ("content-encoding", "identity, br"), ("Content-Encoding", "aes128gcm")]
    {
        wire.standin.forget();
        let body = Packing::Gzip.pack(REAL.as_bytes());
        let headers = vec![(name.to_owned(), coding.to_owned())];
        wire.standin.rules(vec![Rule::new("", Fault::Status { status: 200, headers, body })]);
        let answer = wire.inside("api.test")?.ask(&get("api.test", "/gz", "Accept-Encoding: gzip\r\n"))?;
        ensure!(answer.status == 502 && answer.reason() == Some("upstream-failed"), "{coding}: {answer:?}");
        ensure!(answer.text().contains("coding that was not asked for"), "{}", answer.text());
        ensure!(only(&wire.standin)?.header("accept-encoding") == ["identity"], "{:?}", wire.standin.seen());
    }
    let headers = vec![("content-encoding".to_owned(), "identity".to_owned())];
    wire.standin.rules(vec![Rule::new("", Fault::Status { status: 200, headers, body: b"fine".to_vec() })]);
    ensure!(wire.inside("api.test")?.ask(&get("api.test", "/plain", ""))?.status == 200);
    Ok(())
}

fn given() -> Result<()> {
    let wire = Wire::start()?;
    let headers =
        [("set-cookie", "session=1"), ("authentication-info", "x"), ("alt-svc", "h3=\":443\""), ("x-kept", "1")];
    let headers: Vec<_> = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    wire.standin.rules(vec![Rule::new("", Fault::Status { status: 200, headers, body: b"fine".to_vec() })]);
    for (host, kept) in [("api.test", false), ("open.test", true)] {
        let answer = wire.inside(host)?.ask(&get(host, "/", ""))?;
        ensure!(answer.header("x-kept") == Some("1"), "{answer:?}");
        for name in ["set-cookie", "authentication-info", "alt-svc"] {
            ensure!(answer.header(name).is_some() == kept, "{host} {name}: {answer:?}");
        }
    }
    // RFC 7615 §3 lets `Authentication-Info` come behind the body.
    let head = b"HTTP/1.1 200 OK\r\ntrailer: x-kept, authentication-info\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n";
    let trailers = b"x-kept: 1\r\nauthentication-info: n=1\r\n\r\n";
    let pieces = vec![(Duration::ZERO, [&head[..], &trailers[..]].concat())];
    wire.standin.rules(vec![Rule::new("", Fault::Raw { pieces, then: Then::Keep })]);
    for (host, kept) in [("api.test", false), ("open.test", true)] {
        let mut inside = wire.inside(host)?;
        inside.send(&get(host, "/trailers", "TE: trailers\r\nConnection: close, TE\r\n"))?;
        let came = inside.rest()?;
        ensure!(holds(&came, "x-kept: 1"), "{}", String::from_utf8_lossy(&came));
        ensure!(holds(&came, "authentication-info: n=1") == kept, "{host}: {}", String::from_utf8_lossy(&came));
    }
    Ok(())
}
