//! Canaries: a stand-in or a real secret of the house in what a box sends, wherever and in whatever common form, is an alarm and goes
//! nowhere; only a body to a model may tell a stand-in, so that an agent that says what it has seen is not ended.

use std::time::Duration;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use box_spec::{Agent, Provider};
use harness::{BoxRun, Case, Claimed, House, Need, case};
use serde_json::json;
use standin::{Options, Packing, Real, StandIn};

use super::base::{GATEWAY, REAL, Wire, get, holds, post};

pub(super) const CASES: &[Case] = &[
    case("wire::a_sentinel_in_a_body_or_an_address_toward_another_host_is_refused_and_an_alarm", astray).needs(GATEWAY),
    case("wire::a_sentinel_in_a_body_to_its_own_provider_is_an_alarm_and_passes", told).needs(GATEWAY),
    case("wire::an_agent_that_prints_its_sentinel_goes_on", printed).needs(CLAUDE),
    case("wire::a_real_secret_in_an_outgoing_request_is_refused_and_an_alarm", secret).needs(GATEWAY),
];

/// A text as it is and in every Base64 that it can stand in.
fn forms(text: &str) -> Vec<String> {
    let within = |before: &str| STANDARD.encode(format!("{before}{text} and more"));
    vec![text.to_owned(), within(""), within("1"), within("12")]
}

fn astray() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let own = wire.sentinel()?;
    let mut asked = 0;
    for form in forms(&own) {
        for body in [format!("it={form}&x=1"), json!({ "it": form }).to_string(), form.clone()] {
            for chunked in [false, true] {
                let answer = wire.inside("open.test")?.ask(&sent("open.test", "/b", &body, chunked))?;
                ensure!(answer.status == 403 && answer.reason() == Some("sentinel-astray"), "{body}: {answer:?}");
                let (opened, closed) = wire.closed("/b")?;
                ensure!(opened["verdict"] == "allow" && closed["reason"] == "sentinel-astray", "{closed}");
                asked += 1;
            }
        }
        let escaped = form.replace('-', "%2D").replace('+', "%2B").replace('/', "%2F");
        for address in
            [format!("/q?it={}", form.replace('+', "%2B")), format!("/q?it={escaped}"), format!("/{escaped}/x")]
        {
            let answer = wire.inside("open.test")?.ask(&get("open.test", &address, ""))?;
            ensure!(answer.status == 403 && answer.reason() == Some("sentinel-astray"), "{address}: {answer:?}");
            asked += 1;
        }
    }
    ensure!(asked >= 30, "asked {asked} times");
    ensure!(wire.standin.seen().iter().all(|seen| !seen.complete || seen.body_len == 0), "a body arrived whole");
    ensure!(!holds(&wire.upstream(), "boxgate-sentinel"), "a sentinel went out");
    wire.house.wait_line("the alarm", |line| line["kind"] == "alarm" && line["alarm"] == "sentinel-astray")?;
    Ok(())
}

fn told() -> Result<()> {
    let (standin, house, claimed) = model()?;
    let wire = Wire { standin, house, claimed };
    wire.answer_all();
    let own = wire.sentinel()?;
    for form in forms(&own) {
        wire.standin.forget();
        let body = json!({"messages": [{"role": "user", "content": format!("it says {form} here")}]}).to_string();
        let answer = wire.inside(HOST)?.ask(&post(HOST, PATH, "", &body))?;
        ensure!(answer.status == 200, "{answer:?}");
        let seen = wire.standin.seen();
        ensure!(seen.len() == 1 && seen[0].complete && seen[0].text() == body, "another body came: {seen:?}");
    }
    let alarm = wire.house.wait_line("the alarm", |line| line["alarm"] == "sentinel-told")?;
    ensure!(alarm["target"] == format!("{HOST}:443") && alarm["grant"] == "model", "{alarm}");
    let (_, closed) = wire.closed(PATH)?;
    ensure!(closed["facts"]["sentinel"] == json!(["in the body"]) && closed["reason"].is_null(), "{closed}");
    let settled = format!("{:?}", wire.claimed.report()?);
    ensure!(!settled.contains("refus"), "{settled}");
    Ok(())
}

fn printed() -> Result<()> {
    let real = Real::Bearer(REAL.into());
    let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
    let house = House::builder().serve(&standin, Provider::Anthropic, real).start()?;
    let prompt = "<<sh:cat $CLAUDE_CONFIG_DIR/.credentials.json>><<text:went on>>";
    let ran = BoxRun::new(&house, "one")?.isolated().prompt(prompt).run(SOON)?.expect_code(0)?;
    let said = ran.said(Agent::Claude)?;
    ensure!(said.text == "went on" && !said.failed, "{said:?}: {}", ran.text());
    ensure!(standin.seen().iter().any(|seen| seen.text().contains("boxgate-sentinel")), "it was not printed");
    house.wait_line("the alarm", |line| line["alarm"] == "sentinel-told")?;
    let report = house.wait_line("the report", |line| line["kind"] == "report")?;
    ensure!(report["facts"]["verdict"].to_string().contains("completed"), "{report}");
    ensure!(house.ledger()?.iter().all(|line| line["verdict"] != "refuse"), "something was refused");
    Ok(())
}

fn secret() -> Result<()> {
    let (standin, house, claimed) = model()?;
    let wire = Wire { standin, house, claimed };
    wire.answer_all();
    let mut asked = 0;
    for host in [HOST, "open.test"] {
        let status = if host == HOST { 400 } else { 403 };
        let is_refused = |request: &[u8], what: &str| {
            let answer = wire.inside(host)?.ask(request)?;
            ensure!(answer.status == status && answer.reason() == Some("secret-outbound"), "{what}: {answer:?}");
            ensure!(answer.header("x-boxgate-status") == Some("403") && !answer.text().contains(REAL), "{what}");
            anyhow::Ok(())
        };
        for form in forms(REAL) {
            let body = json!({"system": format!("here: {form}.")}).to_string();
            for chunked in [false, true] {
                is_refused(&sent(host, PATH, &body, chunked), &body)?;
            }
            let plain = post(host, PATH, &format!("X-Note: a {form} b\r\n"), "{}");
            is_refused(&plain, "a header")?;
            is_refused(&post(host, PATH, &format!("Authorization: Bearer {form}\r\n"), "{}"), "its own header")?;
            let escaped = form.replace('+', "%2B").replace('/', "%2F").replace('-', "%2d");
            is_refused(&post(host, &format!("{PATH}?it={escaped}"), "", "{}"), "the query")?;
            is_refused(&post(host, &format!("{PATH}/{escaped}"), "", "{}"), "the path")?;
            asked += 6;
        }
        let packed = Packing::Zstd.pack(json!({ "system": REAL }).to_string().as_bytes());
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Encoding: zstd\r\nContent-Length: {}\r\n\r\n",
            packed.len()
        );
        if host == HOST {
            is_refused(&[head.as_bytes(), &packed].concat(), "a packed body")?;
        }
    }
    ensure!(asked >= 40, "asked {asked} times");
    ensure!(wire.standin.seen().iter().all(|seen| !seen.complete), "{:?}", wire.standin.seen());
    // The house's own credential stands in the heads toward its provider, and nowhere else.
    for seen in wire.standin.seen() {
        ensure!(!holds(&seen.body, REAL) && !seen.path.contains(REAL), "the secret went out: {seen:?}");
        ensure!(seen.header("host") == [HOST] || !holds(&seen.head, REAL), "the secret went out: {seen:?}");
    }
    wire.house.wait_line("the alarm", |line| line["kind"] == "alarm" && line["alarm"] == "secret-outbound")?;
    let (_, closed) = wire.closed(PATH)?;
    ensure!(closed["reason"] == "secret-outbound" && !closed.to_string().contains(REAL), "{closed}");
    let ledger = std::fs::read(wire.house.ledger_file())?;
    ensure!(!holds(&ledger, REAL), "the ledger holds the secret");
    Ok(())
}

/// A house that serves Anthropic and has `open.test` open besides.
fn model() -> Result<(StandIn, House, Claimed)> {
    let real = Real::Bearer(REAL.into());
    let names = [HOST, "open.test"].map(str::to_owned).to_vec();
    let standin = StandIn::start(Options { real: vec![real.clone()], names, ..Options::default() })?;
    let there = format!("unsafe_dial = \"{}\"\nupstream_ca = \"standin-anthropic-ca.pem\"", standin.address());
    let house = House::builder().model_at(&standin, real);
    let house = house.grant(&format!("name = \"open\"\nhosts = [\"open.test\"]\n{there}")).start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    Ok((standin, house, claimed))
}

/// A body in one piece, or in chunks that cut whatever stands in it.
fn sent(host: &str, path: &str, body: &str, chunked: bool) -> Vec<u8> {
    if !chunked {
        return post(host, path, "", body);
    }
    let chunks =
        body.as_bytes().chunks(7).map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)));
    let chunks: String = chunks.collect();
    format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n").into_bytes()
}

const HOST: &str = "api.anthropic.com";
const PATH: &str = "/v1/messages";
const CLAUDE: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Namespaces];
const SOON: Duration = Duration::from_secs(60);
