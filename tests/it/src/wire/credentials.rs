//! Credentials: what the box sends in their place is overwritten, and the real one goes nowhere else.

use anyhow::{Result, ensure};
use box_spec::wire::SENTINEL_MARK;
use harness::{Case, House, case, secrets};
use standin::{Fault, Options, Rule};

use super::base::{GATEWAY, REAL, Wire, get, holds, only, post};

pub(super) const CASES: &[Case] = &[
    case("wire::r01_a_credential_in_another_header_does_not_stop_the_injection", another_header).needs(GATEWAY),
    case("wire::r02_the_credential_follows_the_target_not_the_host_header", host_header).needs(GATEWAY),
    case("wire::r31_connection_cannot_take_the_credential_away", hop_by_hop).needs(GATEWAY),
    case("wire::r31_what_concerns_one_leg_stays_on_it_in_the_answer", hop_by_hop_back).needs(GATEWAY),
    case("wire::r83_repeated_and_respelled_headers_are_all_overwritten", respelled).needs(GATEWAY),
    case("wire::r86_a_provider_that_is_not_served_is_no_silent_passage", not_served).needs(GATEWAY),
    case("wire::r87_without_the_secret_nothing_is_forwarded", outage).needs(GATEWAY),
    case("wire::r88_a_redirect_is_passed_on_and_never_followed", redirect).needs(GATEWAY),
    case("wire::r94_a_refresh_is_answered_here_with_the_sentinels", refresh).needs(GATEWAY),
    case("wire::r95_telemetry_is_swallowed_and_no_refusal", telemetry).needs(GATEWAY),
    case("wire::r94_a_durable_credential_cannot_be_made", durable).needs(GATEWAY),
];

fn another_header() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let sentinel = wire.sentinel()?;
    for headers in [
        format!("x-api-key: {sentinel}\r\n"),
        String::new(),
        format!("Authorization: Bearer attacker\r\nAUTHORIZATION: Bearer {sentinel}\r\nx-api-key: {sentinel}\r\n"),
    ] {
        wire.standin.forget();
        let answer = wire.inside("api.test")?.ask(&post("api.test", "/v1/messages", &headers, "{}"))?;
        ensure!(answer.status == 200, "{headers:?}: {answer:?}");
        let seen = only(&wire.standin)?;
        ensure!(seen.header("authorization") == [format!("Bearer {REAL}")], "{headers:?}: {seen:?}");
        ensure!(seen.header("x-api-key").is_empty(), "{headers:?}: {seen:?}");
        ensure!(!holds(&seen.head, &sentinel) && !holds(&seen.head, "attacker"), "{headers:?}: {seen:?}");
    }
    Ok(())
}

fn host_header() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    for hosts in
        ["api.test", "evil.test\r\nHost: api.test", "api.test\r\nHost: evil.test", "api.test:443", "evil.test:8443", ""]
    {
        let answer = wire.inside("evil.test")?.ask(&get(hosts, "/x", ""))?;
        ensure!([400, 421].contains(&answer.status), "{hosts:?}: {answer:?}");
    }
    let answer = wire.inside("evil.test")?.ask(&get("evil.test", "https://api.test/x", ""))?;
    ensure!(answer.reason() == Some("host-mismatch"), "{answer:?}");
    ensure!(wire.standin.seen().is_empty(), "{:?}", wire.standin.seen());

    let open = Wire::with(Options { plain: true, ..Options::default() }, |house| house)?;
    open.answer_all();
    let answer = open.plain("GET http://evil.test/x", "Host: api.test\r\n", "")?;
    ensure!(answer.status == 200, "{answer:?}");
    let seen = only(&open.standin)?;
    ensure!(seen.header("host") == ["evil.test"] && seen.path == "/x", "{seen:?}");
    let twice = open.plain("GET http://evil.test/y", "Host: evil.test\r\nHost: api.test\r\n", "")?;
    ensure!(twice.status == 400, "{twice:?}");
    ensure!(!holds(&open.upstream(), REAL) && !holds(&wire.upstream(), REAL), "the secret went to another host");
    let (opened, _) = open.closed("/x")?;
    ensure!(opened["target"] == "evil.test:80", "{opened}");
    Ok(())
}

fn hop_by_hop() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let list = "X-Foo: 1\r\nProxy-Authorization: Basic VE9L\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nTE: trailers, deflate\r\n";
    for connection in [
        "Connection: close, authorization, x-api-key, x-foo, host\r\n",
        "Connection: \r\nConnection: close, authorization, x-foo\r\n",
    ] {
        wire.standin.forget();
        let headers = format!("{connection}{list}Authorization: Bearer {}\r\n", wire.sentinel()?);
        let answer = wire.inside("api.test")?.ask(&get("api.test", "/h", &headers))?;
        ensure!(answer.status == 200, "{answer:?}");
        let seen = only(&wire.standin)?;
        ensure!(seen.header("authorization") == [format!("Bearer {REAL}")], "{seen:?}");
        only_end_to_end(&seen)?;
    }
    let open = Wire::with(Options { plain: true, ..Options::default() }, |house| house)?;
    open.answer_all();
    let list = list.replace("Proxy-Authorization: Basic VE9L\r\n", "");
    let answer = open.plain(
        "GET http://open.test/h",
        &format!("Host: open.test\r\nConnection: close, x-foo\r\n{list}Authorization: Bearer mine\r\n"),
        "",
    )?;
    ensure!(answer.status == 200, "{answer:?}");
    let seen = only(&open.standin)?;
    only_end_to_end(&seen)?;
    ensure!(!holds(&seen.head, open.claimed.token()) && !holds(&seen.head, "mine"), "{seen:?}");
    Ok(())
}

fn only_end_to_end(seen: &standin::Seen) -> Result<()> {
    for gone in ["proxy-authorization", "proxy-connection", "keep-alive", "x-foo"] {
        ensure!(seen.header(gone).is_empty(), "{gone} came through: {seen:?}");
    }
    ensure!(seen.header("host").len() == 1, "{seen:?}");
    let named = seen.header("connection").join(",").to_ascii_lowercase();
    ensure!(!named.contains("authorization") && !named.contains("x-foo"), "{seen:?}");
    ensure!(seen.header("te").iter().all(|te| *te == "trailers"), "{seen:?}");
    Ok(())
}

fn hop_by_hop_back() -> Result<()> {
    let wire = Wire::start()?;
    let headers = [
        ("Connection", "x-leg"),
        ("X-Leg", "1"),
        ("Proxy-Authenticate", "Basic realm=upstream"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "keep-alive"),
        ("X-Kept", "yes"),
    ];
    let headers: Vec<_> = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let fault = |status| Fault::Status { status, headers: headers.clone(), body: b"x".to_vec() };
    wire.standin.rules(vec![Rule::new("/fine", fault(200)), Rule::new("/proxy", fault(407))]);
    let answer = wire.inside("open.test")?.ask(&get("open.test", "/fine", ""))?;
    ensure!(answer.status == 200 && answer.header("x-kept") == Some("yes"), "{answer:?}");
    for gone in ["x-leg", "proxy-authenticate", "keep-alive", "proxy-connection"] {
        ensure!(answer.header(gone).is_none(), "{gone} came through: {answer:?}");
    }
    let answer = wire.inside("open.test")?.ask(&get("open.test", "/proxy", ""))?;
    ensure!(answer.status == 502 && answer.reason() == Some("upstream-failed"), "{answer:?}");
    ensure!(answer.header("proxy-authenticate").is_none(), "{answer:?}");
    Ok(())
}

fn respelled() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let sentinel = wire.sentinel()?;
    for headers in [
        format!("authorization: Bearer a\r\nAuthorization: Bearer b\r\nAUTHORIZATION: Bearer {sentinel}\r\n"),
        "X-Api-Key: a\r\nx_api_key: a\r\nX_API-KEY: a\r\nApi-Key: a\r\nCookie: a\r\nProxy_Authorization: a\r\n"
            .to_owned(),
        "authorization: \r\n".to_owned(),
    ] {
        wire.standin.forget();
        let answer =
            wire.inside("api.test")?.ask(&get("api.test", "/k?api_key=a&keep=1&access%5Ftoken=a", &headers))?;
        ensure!(answer.status == 200, "{answer:?}");
        let seen = only(&wire.standin)?;
        ensure!(seen.header("authorization") == [format!("Bearer {REAL}")] && seen.path == "/k?keep=1", "{seen:?}");
        for gone in ["x-api-key", "x_api_key", "x_api-key", "api-key", "cookie", "proxy_authorization"] {
            ensure!(seen.header(gone).is_empty(), "{gone} came through: {seen:?}");
        }
    }
    let folded = wire.inside("api.test")?.ask(&get("api.test", "/f", "Authorization: Bearer a\r\n b\r\n"))?;
    ensure!(folded.status == 400, "{folded:?}");
    Ok(())
}

fn not_served() -> Result<()> {
    let mut house = House::builder()
        .extra("[[secret]]\nname = \"chat\"\nprovider = \"google\"\nkind = \"login\"\nenv = \"CHAT\"\n")
        .prepare()?;
    let told = house.gateway(&["check"])?.expect_code(64)?;
    let told = format!("{}{}", told.text(), told.stderr);
    ensure!(told.contains("unknown provider") && told.contains("house.toml:"), "{told}");
    ensure!(house.start().is_err(), "it started");
    Ok(())
}

fn outage() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    std::fs::remove_file(wire.house.secret())?;
    let headers = format!("Authorization: Bearer {}\r\n", wire.sentinel()?);
    let answer = wire.inside("api.test")?.ask(&get("api.test", "/gone", &headers))?;
    ensure!(answer.status == 503 && answer.reason() == Some("credential-outage"), "{answer:?}");
    ensure!(answer.text().contains("outage") && !answer.text().contains(REAL), "{answer:?}");
    ensure!(wire.standin.connections().is_empty(), "the upstream was dialled");
    let (opened, closed) = wire.closed("/gone")?;
    ensure!(opened["verdict"] == "allow" && closed["reason"] == "credential-outage", "{opened} {closed}");
    Ok(())
}

fn redirect() -> Result<()> {
    let wire = Wire::start()?;
    let headers = vec![("Location".to_owned(), "https://evil.test/next".to_owned())];
    wire.standin.rules(vec![Rule::new("/first", Fault::Status { status: 302, headers, body: b"moved".to_vec() })]);
    let answer = wire.inside("api.test")?.ask(&get("api.test", "/first", ""))?;
    ensure!(answer.status == 302 && answer.header("location") == Some("https://evil.test/next"), "{answer:?}");
    ensure!(answer.body == b"moved" && answer.reason().is_none(), "{answer:?}");
    only(&wire.standin)?;
    let headers = format!("Authorization: Bearer {}\r\n", wire.sentinel()?);
    let answer = wire.inside("evil.test")?.ask(&get("evil.test", "/next", &headers))?;
    ensure!(answer.status == 403 && answer.reason() == Some("sentinel-astray"), "{answer:?}");
    only(&wire.standin)?;
    wire.house.wait_line("the alarm", |line| line["kind"] == "alarm" && line["reason"] == "sentinel-astray")?;
    ensure!(wire.house.status()?.to_string().contains("alarm"), "the status tells no alarm");
    Ok(())
}

fn refresh() -> Result<()> {
    let wire = granted_everywhere()?;
    for host in ["platform.claude.com", "api.anthropic.com"] {
        let body = r#"{"grant_type":"refresh_token","refresh_token":"x"}"#;
        let answer =
            wire.inside(host)?.ask(&post(host, "/v1/oauth/token", "Content-Type: application/json\r\n", body))?;
        ensure!(answer.status == 200, "{answer:?}");
        let told = answer.json()?;
        ensure!(told["access_token"] == wire.sentinel()?.as_str(), "{told}");
        ensure!(told["refresh_token"].as_str().is_none_or(|token| token.contains(SENTINEL_MARK)), "{told}");
        ensure!(!secrets::in_bytes(&answer.body, &[REAL]), "the secret was given out");
    }
    ensure!(wire.standin.connections().is_empty(), "a refresh went out");
    let line = wire.house.wait_line("the answer", |line| line["kind"] == "answered")?;
    ensure!(line["verdict"] == "answer" && line["facts"]["route"] == "refresh-attempt", "{line}");
    std::fs::remove_file(wire.house.secret())?;
    let answer = wire.inside("platform.claude.com")?.ask(&post("platform.claude.com", "/v1/oauth/token", "", "{}"))?;
    ensure!(answer.status == 400 && answer.json()?["error"] == "invalid_grant", "{answer:?}");
    Ok(())
}

fn telemetry() -> Result<()> {
    let wire = granted_everywhere()?;
    let host = "api.anthropic.com";
    for path in ["/api/event_logging/batch", "/api/claude_code/metrics", "/api/eval/sdk-x"] {
        let answer = wire.inside(host)?.ask(&post(host, path, "", "{}"))?;
        ensure!(answer.status == 204, "{path}: {answer:?}");
    }
    ensure!(wire.standin.connections().is_empty(), "telemetry went out");
    let settled = wire.claimed.report()?;
    ensure!(!format!("{settled:?}").contains("refus"), "{settled:?}");
    ensure!(wire.house.ledger()?.iter().all(|line| line["verdict"] != "refuse"), "{:?}", wire.house.ledger()?);
    Ok(())
}

fn durable() -> Result<()> {
    let wire = granted_everywhere()?;
    for (host, path) in [
        ("api.anthropic.com", "/api/oauth/claude_cli/create_api_key"),
        ("api.anthropic.com", "/v1/organizations/x/api_keys"),
        ("platform.claude.com", "/v1/oauth/%74oken/"),
    ] {
        let answer = wire.inside(host)?.ask(&post(host, path, "", "{}"))?;
        ensure!(answer.status == 403 && answer.reason() == Some("durable-credential"), "{path}: {answer:?}");
    }
    ensure!(wire.standin.connections().is_empty(), "it went out");
    wire.house.wait_line("the alarm", |line| line["kind"] == "alarm" && line["reason"] == "durable-credential")?;
    Ok(())
}

/// A house that grants everything at the provider, and its credential with it.
fn granted_everywhere() -> Result<Wire> {
    let wire = Wire::with(Options::default(), |house| {
        house.grant("name = \"all\"\nhosts = [\"api.anthropic.com\", \"platform.claude.com\"]\nsecret = \"anthropic\"\nunsafe_secret_hosts = true\nunsafe_dial = \"127.0.0.1:9\"")
    })?;
    wire.answer_all();
    Ok(wire)
}
