//! The door by the byte: who is let in, what is told to whom, and what the upstream is shown.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use box_spec::ClaimReason;
use box_spec::wire::SENTINEL_MARK;
use harness::claim::{self, Answer};
use harness::door::connect_head;
use harness::{Case, Claimed, House, Need, Tunnel, case, secrets};
use standin::{Certificate, Options, Real, StandIn};

pub(crate) const CASES: &[Case] = &[
    case("door::without_a_run_token_everybody_is_nobody", nobody).needs(GATEWAY),
    case("door::a_second_claim_is_refused_and_a_token_dies_with_its_run", one_run).needs(GATEWAY),
    case("door::whatever_credential_a_box_sends_is_overwritten", overwritten).needs(GATEWAY),
    case("door::target_server_name_and_host_are_one", one_host).needs(GATEWAY),
    case("door::a_host_without_a_grant_is_refused_inside_the_tunnel", told_inside).needs(GATEWAY),
    case("door::what_is_not_tls_is_closed", not_tls).needs(GATEWAY),
    case("door::on_a_model_route_a_refusal_is_a_400", model_route).needs(GATEWAY),
    case("door::an_upstream_that_cannot_be_trusted_sees_nothing", untrusted).needs(GATEWAY),
    case("door::streams_are_not_held_back", streams).needs(GATEWAY).alone(),
];

fn nobody() -> Result<()> {
    let (standin, house) = house()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let good = claimed.token();
    let flipped = format!("{}0", &good[..good.len() - 1]);
    let wrong = [None, Some("x"), Some(""), Some(flipped.as_str())];
    let mut answers = Vec::new();
    for token in wrong.into_iter().filter(|token| *token != Some(good)) {
        let answer = Tunnel::open(&house.door("one"))?.ask(connect_head(TARGET, token).as_bytes())?;
        ensure!(answer.status == 407, "{token:?} was answered {}", answer.status);
        ensure!(answer.header("proxy-authenticate").is_some_and(|how| how.starts_with("Basic")), "{answer:?}");
        answers.push(answer.reason().map(str::to_owned));
    }
    ensure!(answers.iter().all(|reason| reason.as_deref() == Some("no-run-token")), "{answers:?}");
    let plain = Tunnel::open(&house.door("one"))?
        .ask(b"GET http://api.anthropic.com/ HTTP/1.1\r\nHost: api.anthropic.com\r\n\r\n")?;
    ensure!(plain.status == 407, "{plain:?}");
    ensure!(house.identity("one")?.box_id.as_str() == "one");
    house.wait_line("the refusal", |line| line["kind"] == "refused" && line["reason"] == "no-run-token")?;
    ensure!(standin.connections().is_empty(), "nobody reached the upstream");
    Ok(())
}

fn one_run() -> Result<()> {
    let (_standin, house) = house()?;
    let door = house.door("one");
    let first = Claimed::take(&door)?;
    let (run, token) = (first.spec.run.clone(), first.token().to_owned());
    let Answer::Refused { status, body } = Claimed::ask(&door, &claim::claim())? else {
        anyhow::bail!("a second claim was taken");
    };
    let body = body.context("a second claim was refused without words")?;
    ensure!(status == 409 && body.reason == ClaimReason::DoorTaken && body.run == Some(run), "{status} {body:?}");
    house.wait_line("the alarm", |line| line["kind"] == "alarm")?;
    drop(Tunnel::connect(&door, &token, TARGET)?);
    first.report()?;
    let dead = Tunnel::open(&door)?.ask(connect_head(TARGET, Some(&token)).as_bytes())?;
    ensure!(dead.status == 407, "the token of an ended run was answered {}", dead.status);
    let second = Claimed::take(&door)?;
    ensure!(second.token() != token, "a token came twice");
    Ok(())
}

fn overwritten() -> Result<()> {
    for (real, name, value) in [
        (Real::Bearer(LOGIN.into()), "authorization", format!("Bearer {LOGIN}")),
        (Real::ApiKey(KEY.into()), "x-api-key", KEY.to_owned()),
    ] {
        let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
        let house = House::builder().model_at(&standin, real).start()?;
        let claimed = Claimed::take(&house.door("one"))?;
        let sentinel = claimed.spec.sentinels.first().context("no sentinel")?.access.clone();
        ensure!(sentinel.contains(SENTINEL_MARK), "a sentinel without its mark");
        let mut inside = tunnel(&house, &claimed)?;
        let carriers =
            format!("Authorization: Bearer {sentinel}\r\nX-Api-Key: other\r\nX_Api_Key: other\r\nCookie: a=b\r\n");
        let answer = inside.ask(count_tokens(&carriers).as_bytes())?;
        ensure!(answer.status == 200, "{answer:?}");
        let seen = standin.seen();
        ensure!(seen.len() == 1 && seen[0].real && seen[0].header(name) == [value.as_str()], "{seen:?}");
        for other in ["authorization", "x-api-key", "x_api_key", "cookie", "proxy-authorization"] {
            ensure!(other == name || seen[0].header(other).is_empty(), "{other} came through: {seen:?}");
        }
        let raw = standin.connections().into_iter().flat_map(|one| one.raw).collect::<Vec<_>>();
        ensure!(!secrets::in_bytes(&raw, &[SENTINEL_MARK, claimed.token()]), "a sentinel or the token came through");
        house.wait_line("the request", |line| line["kind"] == "request")?;
        ensure!(secrets::in_files(&house.state(), &[LOGIN, KEY])?.is_empty(), "the secret is in the house's state");
    }
    Ok(())
}

fn one_host() -> Result<()> {
    let (standin, house) = house()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let mut inside = tunnel(&house, &claimed)?;
    let answer = inside.ask(b"GET /x HTTP/1.1\r\nHost: platform.claude.com\r\n\r\n")?;
    ensure!(answer.reason() == Some("host-mismatch"), "{answer:?}");
    let other =
        Tunnel::connect(&house.door("one"), claimed.token(), TARGET)?.tls(&house.ca_pem()?, "platform.claude.com");
    ensure!(other.is_err(), "a foreign server name was served");
    house.wait_line("the foreign server name", |line| line["reason"] == "sni-mismatch")?;
    ensure!(standin.seen().is_empty(), "{:?}", standin.seen());
    Ok(())
}

fn told_inside() -> Result<()> {
    let (standin, house) = house()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let tunnel = Tunnel::connect(&house.door("one"), claimed.token(), "nowhere.test:443")?;
    let answer = tunnel.tls(&house.ca_pem()?, "nowhere.test")?.ask(b"GET / HTTP/1.1\r\nHost: nowhere.test\r\n\r\n")?;
    ensure!(answer.status == 403 && answer.reason() == Some("no-grant"), "{answer:?}");
    ensure!(answer.text().contains("nowhere.test"), "{answer:?}");
    house.wait_line("the refusal", |line| line["reason"] == "no-grant")?;
    ensure!(standin.connections().is_empty());
    Ok(())
}

fn not_tls() -> Result<()> {
    let (_standin, house) = house()?;
    let claimed = Claimed::take(&house.door("one"))?;
    for bytes in [&b"GET / HTTP/1.1\r\nHost: api.anthropic.com\r\n\r\n"[..], b"SSH-2.0-x\r\n", &[0; 64]] {
        let mut tunnel = Tunnel::connect(&house.door("one"), claimed.token(), TARGET)?;
        tunnel.send(bytes)?;
        let rest = tunnel.rest()?;
        ensure!(!rest.starts_with(b"HTTP/"), "{}", String::from_utf8_lossy(&rest));
    }
    house.wait_line("the refusal", |line| line["reason"] == "not-tls")?;
    Ok(())
}

fn model_route() -> Result<()> {
    let house = House::builder().secret(Real::ApiKey(KEY.into())).start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let answer = tunnel(&house, &claimed)?.ask(count_tokens("").replace("/count_tokens", "").as_bytes())?;
    ensure!(answer.status == 400 && answer.header("x-boxgate-status") == Some("403"), "{answer:?}");
    let body = answer.json()?;
    ensure!(body["type"] == "error" && body["error"]["message"].is_string(), "{body}");
    Ok(())
}

fn untrusted() -> Result<()> {
    for certificate in [Certificate::SelfSigned, Certificate::Expired, Certificate::WrongName] {
        let real = Real::ApiKey(KEY.into());
        let standin = StandIn::start(Options {
            certificate: certificate.clone(),
            real: vec![real.clone()],
            ..Options::default()
        })?;
        let house = House::builder().model_at(&standin, real).start()?;
        let claimed = Claimed::take(&house.door("one"))?;
        let answer = tunnel(&house, &claimed)?.ask(count_tokens("").as_bytes())?;
        ensure!(answer.reason() == Some("upstream-untrusted"), "{certificate:?}: {answer:?}");
        ensure!(standin.seen().is_empty(), "{certificate:?}: {:?}", standin.seen());
    }
    Ok(())
}

/// Events come as they are sent, and a body goes up while it is still being written.
fn streams() -> Result<()> {
    let (standin, house) = house()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let mut inside = tunnel(&house, &claimed)?;
    let body = r#"{"stream":true,"messages":[{"role":"user","content":"<<drip:3>>"}]}"#;
    let (head, tail) = body.split_at(10);
    inside.send(
        format!(
            "POST /v1/messages HTTP/1.1\r\nHost: api.anthropic.com\r\nContent-Length: {}\r\n\r\n{head}",
            body.len()
        )
        .as_bytes(),
    )?;
    let first = standin.wait_seen(1, Duration::from_secs(5))?;
    harness::until("the first part of the body", Duration::from_secs(2), || {
        (standin.seen()[0].body_len >= 10).then_some(())
    })?;
    ensure!(!first[0].complete && !standin.seen()[0].complete, "the body was held back until it was whole");
    inside.send(tail.as_bytes())?;
    let mut times = Vec::new();
    let mut told = String::new();
    let began = Instant::now();
    while !told.contains("message_stop") {
        let piece = inside.piece()?;
        ensure!(!piece.is_empty(), "the stream ended early: {told}");
        told.push_str(&String::from_utf8_lossy(&piece));
        times.resize(told.matches("text_delta").count(), began.elapsed());
    }
    let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).take(2).collect();
    ensure!(gaps.iter().all(|gap| gap.abs_diff(Duration::from_secs(1)) < Duration::from_millis(300)), "{times:?}");
    Ok(())
}

fn house() -> Result<(StandIn, House)> {
    let real = Real::Bearer(LOGIN.into());
    let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
    let house = House::builder().model_at(&standin, real).start()?;
    Ok((standin, house))
}

fn tunnel(house: &House, claimed: &Claimed) -> Result<harness::door::Inside> {
    Tunnel::connect(&house.door("one"), claimed.token(), TARGET)?.tls(&house.ca_pem()?, "api.anthropic.com")
}

fn count_tokens(headers: &str) -> String {
    format!(
        "POST /v1/messages/count_tokens HTTP/1.1\r\nHost: api.anthropic.com\r\n{headers}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
    )
}

const TARGET: &str = "api.anthropic.com:443";
const GATEWAY: &[Need] = &[Need::Gateway];
const LOGIN: &str = "sk-ant-oat01-REAL-LOGIN-at-the-door-55aa";
const KEY: &str = "sk-ant-api03-REAL-KEY-at-the-door-aa55";
