//! The handshake: what a box packs beside it, when it leaves, and what a host answers it with.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::{Case, case, secrets, until};

use super::hostile::Talk;
use super::{GATEWAY, REAL, Stage, asking, get, switching};

pub(crate) const CASES: &[Case] = &[
    case("attack3::a_box_that_leaves_before_its_handshake_is_answered_frees_host_and_place", leaves_before)
        .needs(GATEWAY),
    case("attack3::handshakes_under_way_when_their_run_ends_are_cut_by_the_house", run_ends).needs(GATEWAY),
    case("attack3::a_credential_in_a_subprotocol_that_cannot_be_read_goes_nowhere", subprotocols).needs(GATEWAY),
    case("attack3::what_is_sent_with_a_handshake_is_read_once", sent_along).needs(GATEWAY),
    case("attack3::interim_answers_have_no_length_and_a_flood_of_them_holds_nothing", flood).needs(GATEWAY),
    case("attack3::a_101_has_no_body_whatever_it_says_and_is_never_of_http_1_0", odd_101).needs(GATEWAY),
    case("attack3::a_credential_in_the_query_goes_nowhere_in_any_list_form", query).needs(GATEWAY),
];

/// More often than there are places: each must be given back.
fn leaves_before() -> Result<()> {
    let stage = Stage::with(
        |house| house.extra("\n[limits]\nrequests_in_flight_per_box = 2\n"),
        |talk| {
            if talk.path() == "/answered" {
                talk.send(&switching(""))?;
            }
            talk.rest();
            Ok(())
        },
    )?;
    for round in 0..5 {
        let path = format!("/left-{round}");
        let mut inside = stage.inside()?;
        inside.send(&asking(&path, ""))?;
        until("the handshake to arrive", Duration::from_secs(3), || (stage.host.heads().len() > round).then_some(()))?;
        let began = Instant::now();
        inside.cut();
        let closed = stage.closed(&path)?;
        ensure!(closed["ended"] == "aborted" && closed["status"].is_null(), "{closed}");
        until("the host to be let go", Duration::from_secs(3), || (stage.host.open() == 0).then_some(()))?;
        ensure!(began.elapsed() < Duration::from_secs(3), "it took {:?}", began.elapsed());
    }
    stage.session("/answered").map(drop)
}

fn run_ends() -> Result<()> {
    let stage = Stage::start(|talk| {
        talk.rest();
        Ok(())
    })?;
    let mut waiting = Vec::new();
    for at in 0..20 {
        let mut inside = stage.inside()?;
        inside.send(&asking(&format!("/w{at}"), ""))?;
        waiting.push(inside);
    }
    until("the handshakes to arrive", Duration::from_secs(5), || (stage.host.heads().len() == 20).then_some(()))?;
    let Stage { house, claimed, host } = stage;
    claimed.report()?;
    until("the host to be let go", Duration::from_secs(3), || (host.open() == 0).then_some(()))?;
    let lines = until("the lines to close", Duration::from_secs(3), || {
        let lines = house.ledger().ok()?;
        let open = lines.iter().filter(|line| line["open"] == true).count();
        (lines.iter().filter(|line| line["kind"] == "closed").count() == open).then_some(lines)
    })?;
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).collect::<Vec<_>>();
    for asked in of("request") {
        let closed = of("closed").into_iter().find(|line| line["of"] == asked["seq"]);
        ensure!(closed.is_some_and(|closed| closed["ended"] == "cut"), "{asked}: {closed:?}");
    }
    ensure!(of("request").len() == 20);
    Ok(())
}

fn subprotocols() -> Result<()> {
    let stage = Stage::start(not_found)?;
    for (list, is_offered) in [
        (&b"realtime, chat"[..], true),
        (b"realtime, openai-insecure-api-key.MINE", false),
        (b"realtime, openai-insecure-api-key.MINE\xff", false),
        (b"realtime\xff, openai-insecure-api-key.MINE", false),
        (b"realtime, OPENAI-INSECURE-API-KEY.MINE", false),
        (b"eyJhbGciOiJSUzI1NiJ9.MINE.MINE", false),
        (b"aws-appsync-event-ws, header-eyJNSU5FMINE", false),
        (b"base64url.bearer.authorization.k8s.io.MINE, x", false),
    ] {
        let before = stage.host.heads().len();
        let asked = asking("/s", "");
        let asked = [&asked[..asked.len() - 2], b"Sec-WebSocket-Protocol: ", list, b"\r\n\r\n"].concat();
        let answer = stage.inside()?.ask(&asked)?;
        let list = String::from_utf8_lossy(list);
        ensure!(answer.status == 404, "{list}: {answer:?}");
        let heads = &stage.host.heads()[before..];
        ensure!(heads.len() == 1 && secrets::in_bytes(&heads[0], &[REAL]), "{list}");
        ensure!(!secrets::in_bytes(&heads[0], &["MINE"]), "{list}: a credential of the box's own went up");
        ensure!(secrets::in_bytes(&heads[0], &["rotocol: realtime, chat"]) == is_offered, "{list}");
    }
    Ok(())
}

/// After a 101 it is the session's; after any other answer it is the next request, judged by itself.
fn sent_along() -> Result<()> {
    let stage = Stage::start(|talk| {
        let early = talk.within(Duration::from_millis(300))?;
        if talk.path() != "/switched" {
            return not_found(talk);
        }
        talk.send(&switching(&format!("X-Early: {}\r\n", early.len())))?;
        let came = talk.within(Duration::from_secs(3))?;
        talk.send(&came)?;
        talk.end()
    })?;
    let second = get("/second", "");
    let mut inside = stage.inside()?;
    let answer = inside.ask(&[asking("/switched", ""), second.clone()].concat())?;
    ensure!(answer.status == 101 && answer.header("x-early") == Some("0"), "{answer:?}");
    ensure!(inside.rest()? == second, "it did not pass as it came");
    drop(inside);
    let closed = stage.closed("/switched")?;
    ensure!(closed["bytes_up"] == second.len() && closed["bytes_down"] == second.len(), "{closed}");
    ensure!(stage.house.ledger()?.iter().all(|line| line["path"] != "/second"), "it was taken for a request");
    let mut inside = stage.inside()?;
    inside.send(&[asking("/refused", ""), second, asking("/third", "")].concat())?;
    for path in ["/refused", "/second", "/third"] {
        let answer = inside.response()?;
        ensure!(answer.status == 404, "{path}: {answer:?}");
        ensure!(stage.closed(path)?["status"] == 404, "{path}");
    }
    let heads = stage.host.heads();
    ensure!(heads.len() == 4 && heads.iter().all(|head| secrets::in_bytes(head, &[REAL])), "{}", heads.len());
    Ok(())
}

fn flood() -> Result<()> {
    let stage = Stage::start(|talk| {
        let hint = b"HTTP/1.1 103 Early Hints\r\nX-Hint: 1\r\nContent-Length: 9\r\n\r\n";
        for _ in 0..200 {
            talk.send(&hint.repeat(100))?;
        }
        talk.send(&[switching(""), GREETING.to_vec()].concat())?;
        talk.end()
    })?;
    let mut inside = stage.inside()?;
    let mut answer = inside.ask(&asking("/flood", ""))?;
    let mut hints = 0;
    while answer.status == 103 {
        ensure!(answer.header("content-length").is_none(), "{answer:?}");
        hints += 1;
        answer = inside.response()?;
    }
    ensure!(hints > 0 && answer.status == 101, "{hints} hints, {answer:?}");
    ensure!(inside.rest()? == GREETING);
    // One that does not read them loses some of them and nothing else.
    let mut inside = stage.inside()?;
    inside.send(&asking("/unread", ""))?;
    std::thread::sleep(Duration::from_secs(2));
    let came = inside.rest()?;
    ensure!(came.ends_with(GREETING) && came.len() < 20_000, "{} bytes", came.len());
    Ok(())
}

fn odd_101() -> Result<()> {
    let stage = Stage::start(|talk| {
        let answer = switching(match talk.path().as_str() {
            "/length" => "Content-Length: 5\r\n",
            "/chunked" => "Transfer-Encoding: chunked\r\n",
            "/both" => {
                "Transfer-Encoding: chunked\r\nContent-Length: 5\r\nTrailer: x\r\nX-Boxgate-Reason: no-grant\r\n"
            }
            _ => "",
        });
        let mut text = String::from_utf8_lossy(&answer).into_owned();
        if talk.path() == "/old" {
            text = text.replacen("HTTP/1.1", "HTTP/1.0", 1);
        }
        talk.send(&[text.as_bytes(), GREETING].concat())?;
        talk.end()
    })?;
    for path in ["/length", "/chunked", "/both"] {
        let mut inside = stage.inside()?;
        let answer = inside.ask(&asking(path, ""))?;
        ensure!(answer.status == 101 && answer.reason().is_none(), "{path}: {answer:?}");
        ensure!(
            ["content-length", "transfer-encoding"].iter().all(|name| answer.header(name).is_none()),
            "{path}: {answer:?}"
        );
        ensure!(inside.rest()? == GREETING, "{path}");
    }
    let answer = stage.inside()?.ask(&asking("/old", ""))?;
    ensure!(answer.status == 502 && answer.text().contains("HTTP/1.1"), "{answer:?}");
    let closed = stage.closed("/old")?;
    ensure!(closed["ended"] == "failed" && closed["reason"] == "upstream-failed", "{closed}");
    Ok(())
}

fn query() -> Result<()> {
    let stage = Stage::start(not_found)?;
    for (query, kept) in [
        ("a=1&api_key=MINE&b=2", "/q?a=1&b=2"),
        ("a=1;api_key=MINE&b=2", "/q?b=2"),
        ("a=1&;token=MINE", "/q?a=1"),
        ("api_key[]=MINE&api%5fkey%5b0%5d=MINE", "/q"),
        ("+api_key=MINE&a=b;c", "/q?a=b;c"),
    ] {
        stage.inside()?.ask(&get(&format!("/q?{query}"), ""))?;
        let head = stage.host.heads().pop().unwrap_or_default();
        ensure!(head.starts_with(format!("GET {kept} HTTP/1.1\r\n").as_bytes()), "{query}: {}", Talk::text(&head));
    }
    Ok(())
}

/// Answers whatever comes with 404.
fn not_found(talk: &mut Talk) -> Result<()> {
    loop {
        talk.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
        talk.next_head()?;
    }
}

/// A text frame.
const GREETING: &[u8] = b"\x81\x02hi";
