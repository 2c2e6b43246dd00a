//! The stand-in by itself, by the byte: what the other tests take for granted of it.

mod socket;
pub(crate) mod openai;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::raw::{Response, response, rest};
use harness::{Case, case, door};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use sha2::{Digest, Sha256};
use standin::{Answer, Beat, Certificate, Cut, Expect, Fault, Options, Real, Rule, StandIn, Then};

pub(crate) const CASES: &[Case] = &[
    case("standin::every_byte_is_kept", keeps_every_byte),
    case("standin::expectations_are_met_as_told", expectations),
    case("standin::faults_are_as_told", faults),
    case("standin::idle_connections_are_closed", idle),
    case("standin::a_script_wins_over_markers", script),
    case("standin::certificates_are_bad_in_one_way_each", certificates),
];

fn keeps_every_byte() -> Result<()> {
    let standin = plain()?;
    let mut stream = connect(&standin)?;
    let first = b"POST /v1/x?a=b HTTP/1.1\r\nhOST:  h\r\nAuthorization: Bearer real\r\nTransfer-Encoding: chunked\r\n\r\n3;e=1\r\nabc\r\n2\r\nde\r\n0\r\nT-1: x\r\n\r\n";
    let second = b"GET /standin/bytes/100000 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer real\r\n\r\n";
    ensure!(ask(&mut stream, first)?.status == 404);
    let bulk = ask(&mut stream, second)?;
    ensure!(bulk.status == 200 && bulk.body.len() == 100_000 && bulk.complete, "{} bytes", bulk.body.len());
    let seen = standin.seen();
    ensure!(seen.len() == 2 && seen[0].connection == seen[1].connection, "{seen:?}");
    let one = &seen[0];
    let digest: String = Sha256::digest(b"abcde").iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(one.head == first[..first.len() - 32] && one.headers[0] == ("hOST".into(), "h".into()), "{one:?}");
    ensure!(
        one.body == b"abcde" && one.body_sha256 == digest && one.trailers == b"T-1: x\r\n" && one.complete,
        "{one:?}"
    );
    ensure!(standin.connections()[0].raw == [&first[..], &second[..]].concat(), "{:?}", standin.connections());
    Ok(())
}

fn expectations() -> Result<()> {
    let head = b"POST /v1/messages/count_tokens HTTP/1.1\r\nAuthorization: Bearer real\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    let standin = plain()?;
    ensure!(ask(&mut connect(&standin)?, head)?.status == 100);
    standin.expect(Expect::Late(Duration::from_millis(300)));
    let began = Instant::now();
    let mut stream = connect(&standin)?;
    ensure!(ask(&mut stream, head)?.status == 100 && began.elapsed() >= Duration::from_millis(300));
    ensure!(ask(&mut stream, b"{}")?.status == 200);
    standin.expect(Expect::Refuse);
    ensure!(ask(&mut connect(&standin)?, head)?.status == 417);
    standin.expect(Expect::Ignore);
    let mut stream = connect(&standin)?;
    stream.write_all(head)?;
    ensure!(ask(&mut stream, b"{}")?.status == 200);
    Ok(())
}

fn faults() -> Result<()> {
    let message =
        b"POST /v1/messages HTTP/1.1\r\nAuthorization: Bearer real\r\nContent-Length: 15\r\n\r\n{\"stream\":true}";
    let standin = plain()?;
    let with = |fault: Fault| -> Result<Response> {
        standin.rules(vec![Rule::new("/v1/messages", fault)]);
        ask(&mut connect(&standin)?, message)
    };
    let whole = with(Fault::None)?;
    ensure!(whole.complete && whole.text().contains("message_stop"), "{whole:?}");
    for cut in [Cut::Reset, Cut::Close] {
        let answer = with(Fault::CutAfter { events: 2, cut })?;
        ensure!(!answer.complete && answer.text().matches("event: ").count() == 2, "{cut:?}: {answer:?}");
    }
    let clean = with(Fault::CutAfter { events: 2, cut: Cut::Clean })?;
    ensure!(clean.complete && clean.text().matches("event: ").count() == 2, "{clean:?}");
    let (status, body) = (413, b"big".to_vec());
    let early = with(Fault::Early { status, headers: Vec::new(), body, then: Then::Drain })?;
    ensure!(early.status == 413 && early.body == b"big", "{early:?}");
    let hints = with(Fault::Before(b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n".to_vec()))?;
    ensure!(hints.status == 103, "{hints:?}");
    let pieces =
        vec![(Duration::ZERO, b"HTTP/1.1 299 Odd\r\n".to_vec()), (Duration::from_millis(50), b"\r\nrest".to_vec())];
    let odd = with(Fault::Raw { pieces, then: Then::Close })?;
    ensure!(odd.status == 299 && odd.body == b"rest", "{odd:?}");
    ensure!(with(Fault::Hang(Duration::from_millis(50))).is_err(), "a hang was answered");
    ensure!(with(Fault::Reset).is_err(), "a reset was answered");
    Ok(())
}

fn idle() -> Result<()> {
    let standin = plain()?;
    standin.idle_close(Some(Duration::from_millis(200)));
    let mut stream = connect(&standin)?;
    ensure!(ask(&mut stream, b"GET / HTTP/1.1\r\n\r\n")?.status == 401);
    let began = Instant::now();
    ensure!(rest(&mut stream)?.is_empty() && began.elapsed() >= Duration::from_millis(150), "{:?}", began.elapsed());
    Ok(())
}

fn script() -> Result<()> {
    let standin = plain()?;
    let silence = Beat::Silence(Duration::from_millis(200));
    standin.script(vec![Answer(vec![silence, Beat::Text("scripted".into())])]);
    let body = r#"{"messages":[{"role":"user","content":"<<text:marked>>"}]}"#;
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nAuthorization: Bearer real\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = connect(&standin)?;
    let began = Instant::now();
    ensure!(
        ask(&mut stream, head.as_bytes())?.text().contains("scripted") && began.elapsed() >= Duration::from_millis(200)
    );
    ensure!(ask(&mut stream, head.as_bytes())?.text().contains("marked"));
    Ok(())
}

fn certificates() -> Result<()> {
    for (certificate, complaint) in [
        (Certificate::Good, ""),
        (Certificate::SelfSigned, "UnknownIssuer"),
        (Certificate::Expired, "certificate expired"),
        (Certificate::WrongName, "not valid for name"),
    ] {
        let standin = StandIn::start(Options { certificate: certificate.clone(), ..Options::default() })?;
        let name = ServerName::try_from("api.anthropic.com").context("read a name")?;
        let session = ClientConnection::new(door::client_config(standin.ca_pem())?, name).context("prepare TLS")?;
        let mut stream = StreamOwned::new(session, connect(&standin)?);
        match stream.conn.complete_io(&mut stream.sock) {
            Ok(_) => ensure!(complaint.is_empty(), "{certificate:?} was trusted"),
            Err(fault) => {
                ensure!(!complaint.is_empty() && fault.to_string().contains(complaint), "{certificate:?}: {fault}")
            }
        }
    }
    Ok(())
}

fn ask(stream: &mut (impl Read + Write), bytes: &[u8]) -> Result<Response> {
    stream.write_all(bytes).context("send")?;
    response(stream, true)
}

fn plain() -> Result<StandIn> {
    StandIn::start(Options { plain: true, real: vec![Real::Bearer("real".into())], ..Options::default() })
}

#[expect(clippy::disallowed_methods, reason = "a test's own connection on loopback")]
fn connect(standin: &StandIn) -> Result<TcpStream> {
    let stream = TcpStream::connect(standin.address()).context("connect the stand-in")?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).context("set a deadline")?;
    Ok(stream)
}
