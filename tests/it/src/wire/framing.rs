//! Framing: a request that two servers could read differently reaches none, and nothing hides behind it.

use anyhow::{Result, ensure};
use harness::{Case, case};

use super::base::{GATEWAY, Wire, get, holds};

pub(super) const CASES: &[Case] = &[
    case("wire::r28_a_request_with_two_lengths_reaches_nobody", two_lengths).needs(GATEWAY),
    case("wire::r28_an_odd_transfer_coding_reaches_nobody", odd_codings).needs(GATEWAY),
    case("wire::r28_a_malformed_head_reaches_nobody", odd_heads).needs(GATEWAY),
    case("wire::r28_a_malformed_chunk_is_never_a_whole_request", odd_chunks).needs(GATEWAY),
    case("wire::r28_what_follows_a_body_is_a_request_of_its_own", pipelined).needs(GATEWAY),
    case("wire::r28_an_answer_with_two_lengths_is_not_passed_on", odd_answers).needs(GATEWAY),
];

fn two_lengths() -> Result<()> {
    // One well-formed `chunked` wins over a length (RFC 9112 §6.3), is framed anew, and ends the connection.
    for headers in [
        "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n",
        "Content-Length: 6\r\nTransfer-Encoding: chunked \r\n",
        "Content-Length: 6\r\nTransfer-Encoding: CHUNKED\r\n",
    ] {
        let wire = Wire::start()?;
        wire.answer_all();
        let mut inside = wire.inside("api.test")?;
        inside.send(format!("POST /a HTTP/1.1\r\nHost: api.test\r\n{headers}\r\n{BEHIND}").as_bytes())?;
        let answer = inside.response()?;
        ensure!([200, 400].contains(&answer.status), "{headers:?}: {answer:?}");
        ensure!(inside.rest()?.is_empty(), "{headers:?}: what stood behind it was answered");
        for seen in wire.standin.seen() {
            ensure!(seen.path == "/a" && seen.body_len == 0, "{headers:?}: {seen:?}");
            ensure!(seen.header("content-length").is_empty(), "{headers:?}: {seen:?}");
            ensure!(seen.header("transfer-encoding") == ["chunked"], "{headers:?}: {seen:?}");
        }
        ensure!(!holds(&wire.upstream(), "/hidden"), "{headers:?}");
    }
    refused(&[
        "Content-Length: 6\r\nTransfer-Encoding: chunked,\r\n",
        "Content-Length: 6\r\nContent-Length: 5\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: 5\r\nContent_Length: 50\r\nContent-Length: 6\r\n",
    ])
}

fn odd_codings() -> Result<()> {
    refused(&[
        "Transfer-Encoding: chunked,\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: \x0bchunked\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding : chunked\r\n",
    ])?;
    let old = b"POST /a HTTP/1.0\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: api.test\r\n\r\n";
    let wire = Wire::start()?;
    wire.answer_all();
    refused_raw(&wire, old, "Transfer-Encoding in HTTP/1.0")
}

fn odd_heads() -> Result<()> {
    refused(&[
        "Content-Length: +6\r\n",
        "Content-Length: -6\r\n",
        "Content-Length: 0x6\r\n",
        "Content-Length: \r\n",
        "Content-Length: 6 6\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length : 6\r\n",
        "Content-Length\t: 6\r\n",
        " Content-Length: 6\r\n",
        "X-A: b\r\n Content-Length: 6\r\n",
        "X-A: b\r\n\tTransfer-Encoding: chunked\r\n",
        "X-A: b\rContent-Length: 6\r\n",
        "X-A: b\0c\r\n",
        "X A: b\r\n",
        ": b\r\n",
    ])
}

/// Each is refused with 400 and a close; nothing of it, and nothing behind it, is sent.
fn refused(headers: &[&str]) -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    for headers in headers {
        let raw = format!("POST /a HTTP/1.1\r\nHost: api.test\r\n{headers}\r\n{BEHIND}");
        refused_raw(&wire, raw.as_bytes(), headers)?;
    }
    Ok(())
}

fn refused_raw(wire: &Wire, raw: &[u8], what: &str) -> Result<()> {
    let mut inside = wire.inside("api.test")?;
    inside.send(raw)?;
    let answer = inside.response()?;
    ensure!(answer.status == 400, "{what:?}: {answer:?}");
    let rest = inside.rest()?;
    ensure!(rest.is_empty(), "{what:?}: {:?}", String::from_utf8_lossy(&rest));
    ensure!(wire.standin.connections().is_empty(), "{what:?}: {:?}", String::from_utf8_lossy(&wire.upstream()));
    Ok(())
}

fn odd_chunks() -> Result<()> {
    for chunks in [
        "0x5\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\nhello\n0\n\n",
        "\r\nhello\r\n0\r\n\r\n",
    ] {
        let wire = Wire::start()?;
        wire.answer_all();
        let mut inside = wire.inside("api.test")?;
        let head = "POST /chunks HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n";
        inside.send(format!("{head}{chunks}GET /hidden HTTP/1.1\r\nHost: api.test\r\n\r\n").as_bytes())?;
        let answer = inside.response()?;
        ensure!(answer.status == 400 && answer.reason() == Some("bad-request"), "{chunks:?}: {answer:?}");
        ensure!(inside.rest()?.is_empty(), "{chunks:?}: something was answered after it");
        ensure!(wire.standin.seen().iter().all(|seen| !seen.complete), "{chunks:?}: {:?}", wire.standin.seen());
        ensure!(!holds(&wire.upstream(), "/hidden"), "{chunks:?}");
        let (_, closed) = wire.closed("/chunks")?;
        ensure!(closed["ended"] == "failed" && closed["reason"] == "bad-request", "{chunks:?}: {closed}");
    }
    Ok(())
}

fn pipelined() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let mut inside = wire.inside("api.test")?;
    let head = "POST /a HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked \r\nContent-Type: text/plain\r\n\r\n5;ext=1\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n";
    let two = [head.as_bytes(), &get("evil.test", "/hidden", ""), &get("api.test", "/own", "")].concat();
    inside.send(&two)?;
    let answers = [inside.response()?.status, inside.response()?.status, inside.response()?.status];
    ensure!(answers == [200, 421, 200], "{answers:?}");
    let seen = wire.standin.seen();
    ensure!(seen.iter().map(|seen| seen.path.as_str()).collect::<Vec<_>>() == ["/a", "/own"], "{seen:?}");
    ensure!(seen[0].body == b"hello" && seen[0].header("content-length").is_empty(), "{seen:?}");
    ensure!(seen[0].header("transfer-encoding") == ["chunked"], "{seen:?}");
    wire.house.wait_line("the hidden request", |line| line["path"] == "/hidden" && line["verdict"] == "refuse")?;
    Ok(())
}

/// The same toward the box: an answer that can be read in two ways is none.
fn odd_answers() -> Result<()> {
    let wire = Wire::start()?;
    for head in [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Content-Length: +5\r\n",
        "Content-Length : 5\r\n",
    ] {
        let bytes = format!(
            "HTTP/1.1 200 OK\r\n{head}\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"
        )
        .into_bytes();
        let fault =
            standin::Fault::Raw { pieces: vec![(std::time::Duration::ZERO, bytes)], then: standin::Then::Close };
        wire.standin.rules(vec![standin::Rule::new("", fault)]);
        let mut inside = wire.inside("open.test")?;
        let answer = inside.ask(&get("open.test", "/a", "Connection: close\r\n"))?;
        let framings =
            ["content-length", "transfer-encoding"].iter().filter(|name| answer.header(name).is_some()).count();
        ensure!(framings == 1, "{head:?}: {answer:?}");
        ensure!(answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-length")).count() < 2);
        let rest = inside.rest()?;
        ensure!(!holds(&rest, "HTTP/1.1 200"), "{head:?}: a second answer came through");
    }
    Ok(())
}

/// An empty chunked body, and a request hidden behind it.
const BEHIND: &str = "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: api.test\r\n\r\n";
