//! Grants: what each of their keys lets through, and what a line keeps of a request for whoever judges it again.

use std::time::Duration;

use anyhow::{Result, ensure};
use harness::{Case, case};
use serde_json::{Value, json};
use standin::{Fault, Rule};

use super::base::{GATEWAY, Wire, get, holds, post};
use super::reload::reload;

pub(super) const CASES: &[Case] = &[
    case("wire::grants::a_line_keeps_what_a_grant_can_be_chosen_by", kept).needs(GATEWAY),
    case("wire::grants::only_the_keys_of_the_query_that_a_grant_names_go_out", query).needs(GATEWAY),
    case("wire::grants::what_lacks_a_header_that_a_grant_wants_goes_nowhere", headers).needs(GATEWAY),
    case("wire::grants::a_body_that_is_too_large_is_refused_declared_or_counted", size).needs(GATEWAY),
    case("wire::grants::a_reload_that_takes_a_key_of_the_query_away_cuts_what_has_it", cut).needs(GATEWAY),
];

/// The open hosts are granted with these lines too.
fn with(keys: &str) -> Result<Wire> {
    let wire = Wire::start()?;
    wire.answer_all();
    reload(&wire, |text| text.replace("name = \"open\"\n", &format!("name = \"open\"\n{keys}\n")))?;
    Ok(wire)
}

/// The status, the reason, and the hint.
fn told(wire: &Wire, request: &[u8]) -> Result<(u16, String, String)> {
    let answer = wire.inside("open.test")?.ask(request)?;
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let hint = body["error"]["hint"].as_str().or_else(|| body["hint"].as_str()).unwrap_or_default().to_owned();
    Ok((answer.status, answer.reason().unwrap_or_default().to_owned(), hint))
}

fn query() -> Result<()> {
    let wire = with("query = [\"page\", \"filter[*]\"]")?;
    for path in ["/bare", "/one?page=1", "/two?page=1&filter%5Bstate%5D=open"] {
        ensure!(told(&wire, &get("open.test", path, ""))?.0 == 200, "{path}");
    }
    wire.standin.forget();
    for (path, why) in [
        ("/x?page=1&all=1", "wrong query key \"all\": grant \"open\" allows page, filter[*]"),
        ("/x?page=1;all=1", "a `;` in the query"),
        ("/x?p%2561ge=1", "wrong query key"),
    ] {
        let (status, reason, hint) = told(&wire, &get("open.test", path, ""))?;
        ensure!(status == 403 && reason == "no-grant" && hint.contains(why), "{path}: {status} {reason} {hint}");
    }
    ensure!(wire.standin.seen().is_empty(), "{:?}", wire.standin.seen());
    Ok(())
}

fn headers() -> Result<()> {
    let wire = with("headers = [\"X-Reason\"]")?;
    ensure!(told(&wire, &get("open.test", "/x", "x-reason: because\r\n"))?.0 == 200);
    wire.standin.forget();
    for header in ["", "x_reason: because\r\n", "X-Reason: because\r\nConnection: x-reason\r\n"] {
        let (status, reason, hint) = told(&wire, &get("open.test", "/x", header))?;
        let why = "missing header: grant \"open\" wants x-reason";
        ensure!(status == 403 && reason == "no-grant" && hint.contains(why), "{header}: {status} {reason} {hint}");
    }
    ensure!(wire.standin.seen().is_empty(), "{:?}", wire.standin.seen());
    Ok(())
}

fn size() -> Result<()> {
    let wire = with("max_body = 10")?;
    let chunked = |body: &str| {
        let head = "POST /counted HTTP/1.1\r\nHost: open.test\r\nTransfer-Encoding: chunked\r\n\r\n";
        let pieces = body
            .as_bytes()
            .chunks(4)
            .map(|piece| format!("{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece)));
        format!("{head}{}0\r\n\r\n", pieces.collect::<String>()).into_bytes()
    };
    ensure!(told(&wire, &post("open.test", "/x", "", "0123456789"))?.0 == 200);
    ensure!(told(&wire, &chunked("0123456789"))?.0 == 200);
    wire.standin.forget();
    for request in [post("open.test", "/declared", "", "0123456789a"), chunked("0123456789THE-END")] {
        let (status, reason, hint) = told(&wire, &request)?;
        ensure!(
            status == 413 && reason == "body-too-large" && hint.contains("raise `max_body` in grant \"open\""),
            "{status} {reason} {hint}"
        );
    }
    ensure!(
        wire.standin.seen().iter().all(|seen| !seen.complete && seen.path == "/counted"),
        "{:?}",
        wire.standin.seen()
    );
    ensure!(!holds(&wire.upstream(), "THE-END"), "what was too much went out");
    let closed =
        wire.house.wait_line("its closing", |line| line["kind"] == "closed" && line["reason"] == "body-too-large")?;
    ensure!(closed["ended"] == "failed" && closed["inside"] == "a body of more than 10 bytes", "{closed}");
    wire.house.wait_line("the refusal of the declared one", |line| {
        line["kind"] == "refused" && line["path"] == "/declared"
    })?;
    Ok(())
}

fn cut() -> Result<()> {
    let wire = with("query = [\"page\", \"all\"]")?;
    wire.standin.rules(vec![Rule::new("", Fault::Hang(Duration::from_secs(20)))]);
    let mut waits = wire.inside("open.test")?;
    waits.send(&get("open.test", "/waits?all=1", ""))?;
    wire.house.wait_line("the request", |line| line["path"] == "/waits")?;
    reload(&wire, |text| text.replace("[\"page\", \"all\"]", "[\"page\"]"))?;
    let answer = waits.response()?;
    ensure!(answer.status == 403 && answer.reason() == Some("grant-withdrawn"), "{answer:?}");
    Ok(())
}

fn kept() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let secret = "swordfish-is-the-word";
    let mut inside = wire.inside("open.test")?;
    let query = format!("page=1&filter%5Ba%5D={secret}&q=a;{secret}");
    let headers = format!("X-Own: {secret}\r\nAccept: text/plain\r\n");
    ensure!(inside.ask(&get("open.test", &format!("/bare?{query}"), &headers))?.status == 200);
    ensure!(inside.ask(&post("open.test", "/declared", "", "12345"))?.status == 200);
    let chunked =
        "POST /chunked HTTP/1.1\r\nHost: open.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n";
    ensure!(inside.ask(chunked.as_bytes())?.status == 200);
    let (bare, _) = wire.closed("/bare")?;
    let keys: Vec<_> =
        bare["query"].as_array().into_iter().flatten().map(|one| (&one["key"], &one["semicolon"])).collect();
    let (no, yes) = (json!(null), json!(true));
    ensure!(keys == [(&json!("page"), &no), (&json!("filter%5Ba%5D"), &no), (&json!("q"), &yes)], "{bare}");
    ensure!(
        bare["headers"]["others"] == json!(["x-own"]) && bare["headers"]["shown"]["accept"] == "text/plain",
        "{bare}"
    );
    ensure!(bare["body_length"].is_null() && bare["body"].is_null(), "{bare}");
    let (declared, _) = wire.closed("/declared")?;
    ensure!(declared["body_length"] == 5 && declared["body"].is_null(), "{declared}");
    let (chunked, _) = wire.closed("/chunked")?;
    ensure!(chunked["body_length"].is_null() && chunked["body"] == "chunked", "{chunked}");
    let ledger = wire.house.ledger()?;
    ensure!(!ledger.iter().any(|line| line.to_string().contains(secret)), "a value in the ledger");
    Ok(())
}
