//! The handshake: what is let through, what is refused at once, and an answer that is none.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::{Case, case};
use standin::{Fault, Options, Real, Rule, StandIn, Then};

use super::super::base::{GATEWAY, REAL, Wire, get, holds, only, post};
use super::upstream::ANSWER;
use super::{Echo, KEY, asking, raw};

pub(crate) const CASES: &[Case] = &[
    case("wire::r10_the_real_credential_goes_up_and_the_handshake_stays_as_it_was", overwritten).needs(GATEWAY),
    case("wire::r10_a_websocket_that_is_not_let_through_is_426_at_once_and_no_refusal_of_the_run", refused)
        .needs(GATEWAY),
    case("wire::r10_on_a_model_route_it_is_426_too_in_the_providers_shape", on_a_model_route).needs(GATEWAY),
    case("wire::r10_what_is_no_opening_handshake_goes_nowhere", malformed).needs(GATEWAY),
    case("wire::r10_a_101_that_does_not_answer_the_handshake_is_502", mismatched).needs(GATEWAY),
    case("wire::r10_any_other_answer_passes_and_the_connection_goes_on", other_answers).needs(GATEWAY),
    case("wire::r10_a_credential_in_a_subprotocol_is_not_offered", subprotocol).needs(GATEWAY),
    case("wire::r10_a_sentinel_astray_in_a_handshake_is_refused", astray).needs(GATEWAY),
];

fn overwritten() -> Result<()> {
    let echo = Echo::start()?;
    let sentinel = echo.wire.sentinel()?;
    let mut inside = echo.wire.inside("ws.test")?;
    let extensions = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    let headers = format!("Authorization: Bearer {sentinel}\r\nOpenAI-Beta: x\r\n{extensions}");
    let answer = inside.ask(&asking("ws.test", "/auth", &headers))?;
    ensure!(answer.status == 101, "{answer:?}");
    for (name, value) in
        [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")]
    {
        ensure!(answer.header(name) == Some(value), "{name}: {answer:?}");
    }
    ensure!(answer.header("x-mine") == Some("kept") && answer.header("content-length").is_none(), "{answer:?}");
    let seen = echo.upstream.seen();
    let head = &seen[0].head;
    let lower_of = |head: &str| head.to_ascii_lowercase();
    ensure!(seen.len() == 1 && head.starts_with("GET /auth HTTP/1.1\r\n"), "{seen:?}");
    ensure!(!lower_of(head).contains("sec-websocket-extensions"), "what is packed cannot be looked through: {head}");
    for line in [KEY, "Sec-WebSocket-Version: 13\r\n", "OpenAI-Beta: x\r\n", "Host: ws.test\r\n"] {
        ensure!(head.contains(line), "no {line:?} in {head}");
    }
    let lower = head.to_ascii_lowercase();
    ensure!(lower.contains("\r\nupgrade: websocket\r\n") && lower.contains("\r\nconnection: upgrade\r\n"), "{head}");
    ensure!(lower.matches("authorization:").count() == 1 && head.contains(&format!("Bearer {REAL}\r\n")), "{head}");
    ensure!(!head.contains(&sentinel) && !lower.contains("keep-alive"), "{head}");
    drop(inside);
    let closed = echo.closed("/auth")?;
    ensure!(closed["injected"][0] == "authorization" && closed["status"] == 101, "{closed}");
    Ok(())
}

fn refused() -> Result<()> {
    let wire = Wire::start()?;
    wire.answer_all();
    let mut inside = wire.inside("api.test")?;
    let began = Instant::now();
    let answer = inside.ask(&asking("api.test", "/no", ""))?;
    ensure!(answer.status == 426 && answer.reason() == Some("upgrade-refused"), "{answer:?}");
    ensure!(answer.header("upgrade") == Some("HTTP/1.1"), "{answer:?}");
    ensure!(answer.text().contains("websocket = true"), "the hint names the way: {}", answer.text());
    let answer = inside.ask(&asking("api.test", "/h2c", "").to_vec())?;
    ensure!(answer.status == 426, "{answer:?}");
    let h2c = b"GET /h2c HTTP/1.1\r\nHost: sock.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n";
    let answer = wire.inside("sock.test")?.ask(h2c)?;
    ensure!(answer.status == 426 && answer.reason() == Some("upgrade-refused"), "{answer:?}");
    ensure!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
    // The fallback of the agents: the same tunnel goes on, in plain requests.
    ensure!(inside.ask(&post("api.test", "/fallback", "", "{}"))?.status == 200);
    ensure!(only(&wire.standin)?.path == "/fallback", "{:?}", wire.standin.seen());
    wire.house.wait_line("the refusal", |line| line["kind"] == "refused" && line["reason"] == "upgrade-refused")?;
    let settled = wire.claimed.report()?;
    ensure!(!format!("{settled:?}").contains("refus"), "{settled:?}");
    Ok(())
}

fn on_a_model_route() -> Result<()> {
    let standin = StandIn::start(Options {
        names: vec!["api.openai.com".into()],
        real: vec![Real::Bearer(REAL.into())],
        ..Options::default()
    })?;
    let house = harness::House::builder()
        .secret(Real::Bearer(REAL.into()))
        .serve(&standin, box_spec::Provider::Openai, Real::ApiKey("sk-real".into()))
        .websocket(false)
        .start()?;
    let claimed = harness::Claimed::take(&house.door("one"))?;
    let mut inside = harness::Tunnel::connect(&house.door("one"), claimed.token(), "api.openai.com:443")?
        .tls(&house.ca_pem()?, "api.openai.com")?;
    let answer = inside.ask(&asking("api.openai.com", "/v1/responses", ""))?;
    ensure!(answer.status == 426 && answer.header("x-boxgate-status") == Some("426"), "{answer:?}");
    let said = answer.json()?;
    ensure!(said["error"]["code"] == "upgrade-refused" && said["boxgate"]["grant"].is_string(), "{said}");
    // A final refusal there is 400, as on any request.
    let answer =
        inside.ask(&asking("api.openai.com", "/v1/responses", "Authorization: Bearer x\r\nX-Http-Method: PUT\r\n"))?;
    ensure!(answer.status == 400 && answer.reason() == Some("bad-request"), "{answer:?}");
    ensure!(answer.json()?["error"]["code"] == "bad-request", "{answer:?}");
    ensure!(standin.connections().is_empty(), "something was dialled");
    Ok(())
}

fn malformed() -> Result<()> {
    let wire = Wire::start()?;
    let whole = String::from_utf8_lossy(&asking("sock.test", "/m", "")).into_owned();
    for (what, head) in [
        ("a POST", whole.replace("GET ", "POST ")),
        ("a body", whole.replace("Upgrade: websocket", "Content-Length: 2\r\nUpgrade: websocket") + "{}"),
        (
            "chunks",
            whole.replace("Upgrade: websocket", "Transfer-Encoding: chunked\r\nUpgrade: websocket") + "0\r\n\r\n",
        ),
        ("HTTP/1.0", whole.replace("HTTP/1.1", "HTTP/1.0")),
        ("no key", whole.replace(KEY, "")),
        ("two keys", whole.replace(KEY, &KEY.repeat(2))),
        ("a short key", whole.replace(KEY, "Sec-WebSocket-Key: c2hvcnQ=\r\n")),
        ("version 12", whole.replace("Version: 13", "Version: 12")),
        ("no Connection", whole.replace("keep-alive, Upgrade", "keep-alive")),
        ("the key taken away", whole.replace("keep-alive, Upgrade", "Upgrade, Sec-WebSocket-Key")),
        ("a field spelled twice", whole.replace(KEY, &format!("{KEY}Sec_WebSocket_Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"))),
    ] {
        let answer = wire.inside("sock.test")?.ask(head.as_bytes())?;
        ensure!(answer.status == 400 && answer.reason() == Some("bad-request"), "{what}: {answer:?}");
        ensure!(answer.header("connection").is_some_and(|value| value.starts_with("close")), "{what}: {answer:?}");
    }
    ensure!(wire.standin.connections().is_empty(), "something was dialled");
    Ok(())
}

fn mismatched() -> Result<()> {
    let wire = Wire::start()?;
    let good = ANSWER.to_owned();
    for (path, bytes) in [
        ("/accept", good.replace("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=")),
        ("/none", good.replace("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", "")),
        ("/protocol", good.replace("X-Mine: kept", "Sec-WebSocket-Protocol: chat")),
        ("/extension", good.replace("X-Mine: kept", "Sec-WebSocket-Extensions: permessage-deflate")),
        ("/upgrade", good.replace("Upgrade: websocket", "Upgrade: h2c")),
        ("/connection", good.replace("Connection: Upgrade", "Connection: close")),
    ] {
        wire.standin.rules(vec![Rule::new("", raw(bytes.as_bytes(), Then::Drain))]);
        let answer = wire.inside("sock.test")?.ask(&asking("sock.test", path, ""))?;
        ensure!(answer.status == 502 && answer.reason() == Some("upstream-failed"), "{path}: {answer:?}");
        ensure!(answer.text().contains("handshake"), "{path}: {}", answer.text());
        let (_, closed) = wire.closed(path)?;
        ensure!(closed["ended"] == "failed" && closed["reason"] == "upstream-failed", "{path}: {closed}");
    }
    let plain = wire.inside("sock.test")?.ask(&get("sock.test", "/unasked", ""))?;
    ensure!(plain.status == 502 && plain.text().contains("unasked"), "{plain:?}");
    harness::until("every connection upstream to end", Duration::from_secs(3), || {
        wire.standin.connections().iter().all(|one| one.ended.is_some()).then_some(())
    })
}

fn other_answers() -> Result<()> {
    let wire = Wire::start()?;
    let status = |path: &str, status| {
        Rule::new(
            path,
            Fault::Status { status, headers: vec![("retry-after".into(), "7".into())], body: b"no".to_vec() },
        )
    };
    wire.standin.rules(vec![status("/429", 429), status("/404", 404), status("/401", 401), status("/after", 200)]);
    let mut inside = wire.inside("sock.test")?;
    for code in [429, 404] {
        let answer = inside.ask(&asking("sock.test", &format!("/{code}"), ""))?;
        ensure!(answer.status == code && answer.text() == "no", "{answer:?}");
        ensure!(answer.header("retry-after") == Some("7") && answer.reason().is_none(), "{answer:?}");
    }
    let answer = inside.ask(&asking("sock.test", "/401", ""))?;
    ensure!(answer.status == 503 && answer.reason() == Some("credential-rejected"), "{answer:?}");
    let answer = inside.ask(&get("sock.test", "/after", "Connection: close\r\n"))?;
    ensure!(answer.status == 200, "{answer:?}");
    ensure!(inside.rest()?.is_empty(), "the connection ends in order, though an upgrade was asked for on it");
    Ok(())
}

fn subprotocol() -> Result<()> {
    let wire = Wire::start()?;
    let chosen = ANSWER.replace("X-Mine: kept", "Sec-WebSocket-Protocol: chat");
    wire.standin.rules(vec![Rule::new("", raw(chosen.as_bytes(), Then::Drain))]);
    let offer = |list: &str| format!("Sec-WebSocket-Protocol: {list}\r\n");
    let mut inside = wire.inside("sock.test")?;
    let answer = inside.ask(&asking("sock.test", "/plain", &offer("realtime, chat")))?;
    ensure!(answer.status == 101 && answer.header("sec-websocket-protocol") == Some("chat"), "{answer:?}");
    ensure!(holds(&wire.upstream(), "realtime, chat"));
    // What carried a credential was not offered, so that it cannot be chosen.
    let hidden = "chat, openai-insecure-api-key.sk-mine";
    let answer = wire.inside("sock.test")?.ask(&asking("sock.test", "/hidden", &offer(hidden)))?;
    ensure!(answer.status == 502, "{answer:?}");
    ensure!(!holds(&wire.upstream(), "sk-mine"), "a credential of the box's own went up");
    Ok(())
}

fn astray() -> Result<()> {
    let wire = Wire::start()?;
    let sentinel = wire.sentinel()?;
    for header in [format!("X-Note: {sentinel}\r\n"), format!("Sec-WebSocket-Protocol: chat, {sentinel}\r\n")] {
        let answer = wire.inside("sock.test")?.ask(&asking("sock.test", "/s", &header))?;
        ensure!(answer.status == 403 && answer.reason() == Some("sentinel-astray"), "{header}: {answer:?}");
    }
    ensure!(wire.standin.connections().is_empty(), "something was dialled");
    wire.house.wait_line("the alarm", |line| line["kind"] == "alarm" && line["reason"] == "sentinel-astray")?;
    Ok(())
}
