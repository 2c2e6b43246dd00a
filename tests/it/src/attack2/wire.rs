//! Requests that would say more than was judged, and connections that would pile up.

use std::time::Duration;

use anyhow::{Result, ensure};
use box_spec::wire::SENTINEL_MARK;
use harness::door::connect_head;
use harness::{Case, Claimed, House, HouseBuilder, Need, Tunnel, case, secrets};
use standin::{Options, Real, StandIn};

pub(crate) const CASES: &[Case] = &[
    case("attack2::fields_after_a_body_carry_nothing_out", trailers).needs(GATEWAY),
    case("attack2::a_second_word_on_method_path_or_length_reaches_nobody", second_words).needs(GATEWAY),
    case("attack2::many_hosts_of_one_box_keep_few_connections_open", many_hosts).needs(GATEWAY),
    case("attack2::a_connection_of_one_run_is_never_used_by_the_next", next_run).needs(GATEWAY),
];

fn trailers() -> Result<()> {
    let (standin, house) = house()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let mut inside = tunnel(&house, &claimed)?;
    let fields = format!("X-Api-Key: sk-ant-{SENTINEL_MARK}-stolen\r\nX-Note: said-to-nobody\r\n");
    let answer = inside.ask(
        format!(
            "POST /v1/messages/count_tokens HTTP/1.1\r\nHost: api.anthropic.com\r\nTE: trailers\r\nTrailer: X-Api-Key, X-Note\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n{fields}\r\n"
        )
        .as_bytes(),
    )?;
    ensure!(answer.status == 200, "{answer:?}");
    let seen = standin.seen();
    ensure!(seen.len() == 1 && seen[0].body == b"{}" && seen[0].complete && seen[0].real, "{seen:?}");
    ensure!(seen[0].trailers.is_empty(), "{}", String::from_utf8_lossy(&seen[0].trailers));
    ensure!(seen[0].header("trailer").is_empty(), "fields were announced: {seen:?}");
    let raw: Vec<u8> = standin.connections().into_iter().flat_map(|one| one.raw).collect();
    ensure!(!secrets::in_bytes(&raw, &[SENTINEL_MARK, "said-to-nobody"]), "fields came through");
    Ok(())
}

fn second_words() -> Result<()> {
    let (standin, house) = house()?;
    let claimed = Claimed::take(&house.door("one"))?;
    for field in [
        "Transfer_Encoding: chunked",
        "Content_Length: 0",
        "content_length: 7",
        "HOST_: x",
        "Expect_: x",
        "X-HTTP-Method-Override: DELETE",
        "X_Http_Method: DELETE",
        "X-Method-Override: DELETE",
        "X-Original-URL: /v1/files",
        "X-Rewrite-URL: /v1/files",
        "x_original_url: /v1/files",
        "X-Forwarded-Host: platform.claude.com",
    ] {
        let mut inside = tunnel(&house, &claimed)?;
        let answer = inside.ask(count_tokens(&format!("{field}\r\n")).as_bytes())?;
        let passes = field.contains("_: ");
        ensure!((answer.reason() == Some("bad-request")) != passes, "{field}: {answer:?}");
    }
    let seen = standin.seen();
    ensure!(seen.len() == 2 && seen.iter().all(|one| one.method == "POST" && one.complete), "{seen:?}");
    Ok(())
}

fn many_hosts() -> Result<()> {
    let standin = StandIn::start(Options { plain: true, ..Options::default() })?;
    let grant =
        format!("name = \"many\"\nhosts = [\"*.many.test\"]\nplain = true\nunsafe_dial = \"{}\"", standin.address());
    let house = House::builder()
        .secret(Real::ApiKey(KEY.into()))
        .grant(&grant)
        .extra("\n[limits]\nrequests_in_flight_per_box = 4\n")
        .start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    let credential = connect_head("x:1", Some(claimed.token()));
    let credential = credential.lines().find(|line| line.starts_with("Proxy-Authorization")).unwrap_or_default();
    for at in 0..24 {
        let host = format!("h{at}.many.test");
        let head = format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{credential}\r\n\r\n");
        let answer = Tunnel::open(&house.door("one"))?.ask(head.as_bytes())?;
        ensure!(answer.reason().is_none(), "{host}: {answer:?}");
    }
    ensure!(standin.seen().len() == 24, "{} requests came", standin.seen().len());
    harness::until("connections above the limit to be closed", Duration::from_secs(5), || {
        let open = standin.connections().iter().filter(|one| one.ended.is_none()).count();
        (open <= 4).then_some(())
    })
}

fn next_run() -> Result<()> {
    let (standin, house) = house()?;
    for run in 1..=2 {
        let claimed = Claimed::take(&house.door("one"))?;
        for _ in 0..2 {
            let answer = tunnel(&house, &claimed)?.ask(count_tokens("").as_bytes())?;
            ensure!(answer.status == 200, "{answer:?}");
        }
        let used: Vec<u64> = standin.seen().iter().map(|one| one.connection).collect();
        ensure!(used.len() == 2 * run && used.iter().all(|id| *id <= run as u64), "connections {used:?} in run {run}");
        ensure!(used[2 * run - 2..].iter().all(|id| *id == run as u64), "connections {used:?} in run {run}");
        claimed.report()?;
    }
    harness::until("the connections of both runs to end", Duration::from_secs(5), || {
        standin.connections().iter().all(|one| one.ended.is_some()).then_some(())
    })
}

pub(super) fn house() -> Result<(StandIn, House)> {
    house_of(House::builder())
}

pub(super) fn house_of(builder: HouseBuilder) -> Result<(StandIn, House)> {
    let real = Real::ApiKey(KEY.into());
    let standin = StandIn::start(Options { real: vec![real.clone()], ..Options::default() })?;
    let house = builder.model_at(&standin, real).start()?;
    Ok((standin, house))
}

pub(super) fn tunnel(house: &House, claimed: &Claimed) -> Result<harness::door::Inside> {
    Tunnel::connect(&house.door("one"), claimed.token(), "api.anthropic.com:443")?
        .tls(&house.ca_pem()?, "api.anthropic.com")
}

pub(super) fn count_tokens(headers: &str) -> String {
    format!(
        "POST /v1/messages/count_tokens HTTP/1.1\r\nHost: api.anthropic.com\r\n{headers}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
    )
}

const GATEWAY: &[Need] = &[Need::Gateway];
const KEY: &str = "sk-ant-api03-REAL-KEY-of-the-second-attack-7c";
