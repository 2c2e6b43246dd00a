//! Bodies and heads as large as the provider takes them: streamed, not held, and answered early when it answers early.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::door::Inside;
use harness::raw::Response;
use harness::{Case, case};
use sha2::{Digest, Sha256};
use standin::{Expect, Fault, Options, Rule, Then};

use super::base::{GATEWAY, Wire, get, only};

pub(super) const CASES: &[Case] = &[
    case("wire::r43_bodies_of_31_mib_arrive_whole", large).needs(GATEWAY),
    case("wire::r43_twenty_large_uploads_take_no_memory", parallel).needs(GATEWAY).alone(),
    case("wire::r43_an_early_413_reaches_the_client", early).needs(GATEWAY),
    case("wire::r43_an_expectation_is_the_upstreams_to_meet", expectations).needs(GATEWAY).alone(),
    case("wire::r43_an_expectation_refused_is_no_invitation", expectation_refused).needs(GATEWAY),
    case("wire::r43_early_hints_are_passed_on", hints).needs(GATEWAY),
    case("wire::r43_a_head_over_the_limit_is_431_not_a_reset", long_head).needs(GATEWAY),
    case("wire::r43_headers_of_60_kib_pass", large_head).needs(GATEWAY),
];

fn large() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    for size in [MIB + 1, 11 * MIB, 31 * MIB] {
        for chunked in [false, true] {
            wire.standin.forget();
            let body = bytes(size);
            let answer = upload(&mut wire.inside("api.test")?, "/large", &body, chunked)?;
            ensure!(answer.status == 200, "{size} {chunked}: {answer:?}");
            let seen = only(&wire.standin)?;
            ensure!(seen.complete && seen.body_len == size as u64, "{size}: {} came", seen.body_len);
            ensure!(seen.body_sha256 == hex(&body), "{size} {chunked}: another body came");
            let framing = (seen.header("content-length").len(), seen.header("transfer-encoding").len());
            ensure!(framing == if chunked { (0, 1) } else { (1, 0) }, "{size} {chunked}: {framing:?}");
        }
    }
    Ok(())
}

fn parallel() -> Result<()> {
    let wire = Wire::with(Options { keep: 1024, ..Options::default() }, |house| house)?;
    wire.answer_all();
    let body = bytes(31 * MIB);
    let digest = hex(&body);
    ensure!(upload(&mut wire.inside("api.test")?, "/warm", b"x", false)?.status == 200);
    let pid = wire.house.pid().context("no gateway")?;
    let before = memory(pid)?;
    let (ca, door, token) = (wire.house.ca_pem()?, wire.house.door("one"), wire.claimed.token());
    std::thread::scope(|scope| -> Result<()> {
        let one = || -> Result<u16> {
            let mut inside = harness::Tunnel::connect(&door, token, "api.test:443")?.tls(&ca, "api.test")?;
            inside.deadline(Duration::from_secs(60))?;
            Ok(upload(&mut inside, "/many", &body, false)?.status)
        };
        let all: Vec<_> = (0..20).map(|_| scope.spawn(one)).collect();
        for one in all {
            let status = one.join().ok().context("an upload broke")??;
            ensure!(status == 200, "answered {status}");
        }
        Ok(())
    })?;
    let grown = memory(pid)?.saturating_sub(before);
    ensure!(grown < 64 * 1024, "the gateway grew by {grown} KiB");
    let many: Vec<_> = wire.standin.seen().into_iter().filter(|seen| seen.path == "/many").collect();
    ensure!(many.len() == 20 && many.iter().all(|seen| seen.body_sha256 == digest), "{} came", many.len());
    Ok(())
}

/// The most that the process ever had in memory, in KiB.
fn memory(pid: i32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("read the status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).context("find the peak")?;
    line.split_whitespace().nth(1).context("find the number")?.parse().context("read the number")
}

fn early() -> Result<()> {
    for then in [Then::Drain, Then::Close, Then::Reset] {
        let wire = Wire::start()?;
        let headers = vec![("Connection".to_owned(), "close".to_owned())];
        let fault = Fault::Early { status: 413, headers, body: b"too big".to_vec(), then };
        wire.standin.rules(vec![Rule::new("", fault).late(Duration::from_millis(200))]);
        for chunked in [false, true] {
            let mut inside = wire.inside("api.test")?;
            let answer = upload(&mut inside, "/early", &bytes(40 * MIB), chunked)?;
            ensure!(answer.status == 413 && answer.body == b"too big", "{then:?} {chunked}: {answer:?}");
        }
    }
    Ok(())
}

fn expectations() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let head = b"POST /e HTTP/1.1\r\nHost: api.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let late = Duration::from_millis(400);
    let cases = [
        (Expect::Continue, Duration::ZERO, Duration::from_millis(200)),
        (Expect::Late(late), late, Duration::from_millis(600)),
        (Expect::Ignore, Duration::ZERO, Duration::from_millis(1300)),
    ];
    for (expect, least, most) in cases {
        wire.standin.expect(Expect::Continue);
        let mut inside = wire.inside("api.test")?;
        ensure!(inside.ask(&get("api.test", "/warm", ""))?.status == 200);
        wire.standin.expect(expect);
        let began = Instant::now();
        inside.send(head)?;
        let first = inside.response()?;
        let waited = began.elapsed();
        ensure!(first.status == 100, "{expect:?}: {first:?}");
        ensure!(waited >= least && waited <= most, "{expect:?}: 100 after {waited:?}");
        let answer = inside.ask(b"hello")?;
        ensure!(answer.status == 200, "{expect:?}: {answer:?}");
        let seen = wire.standin.seen().pop().context("nothing came")?;
        ensure!(seen.body == b"hello" && seen.header("expect") == ["100-continue"], "{expect:?}: {seen:?}");
        ensure!(inside.ask(&get("api.test", "/after", ""))?.status == 200, "{expect:?}: the tunnel is out of step");
    }
    Ok(())
}

fn expectation_refused() -> Result<()> {
    let wire = Wire::start()?;
    for status in [417, 401, 413, 200] {
        if status == 417 {
            wire.standin.expect(Expect::Refuse);
        } else {
            wire.standin.expect(Expect::Ignore);
            let fault = Fault::Early { status, headers: Vec::new(), body: b"no".to_vec(), then: Then::Close };
            wire.standin.rules(vec![Rule::new("", fault)]);
        }
        let mut inside = wire.inside("open.test")?;
        let began = Instant::now();
        inside.send(b"POST /e HTTP/1.1\r\nHost: open.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")?;
        let answer = inside.response()?;
        ensure!(answer.status == status, "{status}: {answer:?}");
        ensure!(began.elapsed() < Duration::from_secs(1), "{status} came after {:?}", began.elapsed());
        let rest = inside.send(b"hello").and_then(|()| inside.rest()).unwrap_or_default();
        ensure!(rest.is_empty(), "{status}: {:?}", String::from_utf8_lossy(&rest));
    }
    ensure!(wire.standin.seen().iter().all(|seen| seen.body_len == 0), "a body went out: {:?}", wire.standin.seen());
    Ok(())
}

fn hints() -> Result<()> {
    let wire = Wire::start()?;
    let fine = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine".to_vec();
    let hint = |text: &str| format!("HTTP/1.1 103 Early Hints\r\nLink: <{text}>\r\nConnection: x\r\n\r\n").into_bytes();
    let pieces = vec![
        (Duration::ZERO, hint("one")),
        (Duration::from_millis(300), hint("two")),
        (Duration::ZERO, b"HTTP/1.1 102 Processing\r\n\r\n".to_vec()),
        (Duration::from_millis(300), fine),
    ];
    wire.standin.rules(vec![Rule::new("/h", Fault::Raw { pieces, then: Then::Keep })]);
    let mut inside = wire.inside("api.test")?;
    for _ in 0..2 {
        let began = Instant::now();
        let first = inside.ask(&get("api.test", "/h", ""))?;
        ensure!(first.status == 103 && first.header("link") == Some("<one>"), "{first:?}");
        ensure!(first.header("connection").is_none(), "{first:?}");
        ensure!(began.elapsed() < Duration::from_millis(250), "the hint came after {:?}", began.elapsed());
        let (second, third, last) = (inside.response()?, inside.response()?, inside.response()?);
        ensure!(second.header("link") == Some("<two>") && third.status == 102, "{second:?} {third:?}");
        ensure!(last.status == 200 && last.body == b"fine", "{last:?}");
    }
    Ok(())
}

fn long_head() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    for size in [70 * 1024, MIB] {
        let field = format!("X-Long: {}\r\n", "x".repeat(size));
        let mut inside = wire.inside("api.test")?;
        // The client is still writing when it is refused; what it wrote must not cost it the answer.
        let _may_be_refused_on_the_way = inside.send(&get("api.test", "/long", &field));
        let answer = inside.response().with_context(|| format!("{size} bytes in a tunnel"))?;
        ensure!(answer.status == 431, "{size}: {answer:?}");
        let mut tunnel = harness::Tunnel::open(&wire.house.door("one"))?;
        let head = format!("GET http://open.test/ HTTP/1.1\r\nHost: open.test\r\n{field}\r\n");
        let _may_be_refused_on_the_way = tunnel.send(head.as_bytes());
        let answer = tunnel.ask(b"").with_context(|| format!("{size} bytes at the door"))?;
        ensure!(answer.status == 431, "{size}: {answer:?}");
    }
    let many: String = (0..300).map(|number| format!("X-{number}: x\r\n")).collect();
    let answer = wire.inside("api.test")?.ask(&get("api.test", "/many", &many))?;
    ensure!(answer.status == 431, "{answer:?}");
    wire.house.wait_line("the refusal", |line| line["reason"] == "head-too-large")?;
    ensure!(wire.standin.seen().is_empty(), "a long head went out");
    Ok(())
}

fn large_head() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let many: String = (0..60).map(|number| format!("X-{number}: {}\r\n", "y".repeat(1000))).collect();
    let one = format!("X-One: {}\r\n", "z".repeat(60 * 1024));
    for headers in [many, one] {
        wire.standin.forget();
        let answer = wire.inside("api.test")?.ask(&get("api.test", "/h", &headers))?;
        ensure!(answer.status == 200, "{answer:?}");
        let seen = only(&wire.standin)?;
        ensure!(seen.head.len() > headers.len() && seen.real, "{} bytes of a head came", seen.head.len());
    }
    Ok(())
}

/// Sends a body and reads the answer, whatever becomes of the rest of the body.
fn upload(inside: &mut Inside, path: &str, body: &[u8], chunked: bool) -> Result<Response> {
    let framing =
        if chunked { "Transfer-Encoding: chunked".to_owned() } else { format!("Content-Length: {}", body.len()) };
    inside.send(format!("POST {path} HTTP/1.1\r\nHost: api.test\r\n{framing}\r\n\r\n").as_bytes())?;
    for piece in body.chunks(64 * 1024) {
        let sent = if chunked {
            inside.send(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())
        } else {
            inside.send(piece)
        };
        if sent.is_err() {
            return inside.response();
        }
    }
    if chunked {
        let _the_answer_tells = inside.send(b"0\r\n\r\n");
    }
    inside.response()
}

fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|at| u8::try_from((at ^ (at >> 11)) & 0xff).unwrap_or_default()).collect()
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

const MIB: usize = 1024 * 1024;
