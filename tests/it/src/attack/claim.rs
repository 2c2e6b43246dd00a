//! A claim by the byte: garbage, halves, too much, too slow. It never begins, or is lost; never a success.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use box_spec::{Attestation, Claim, ClaimReason, EndedBy, FromBox, FromHouse, Layer, Layers, Report, RunVerdict};
use harness::claim::{self, Answer};
use harness::{Case, Claimed, House, Need, Tunnel, case};

use super::open_house;
use crate::crash::{record, state_of};

pub(crate) const CASES: &[Case] = &[
    case("attack::a_claim_that_is_no_claim_begins_nothing", no_claim).needs(GATEWAY),
    case("attack::what_is_no_message_of_the_claim_loses_the_run", no_message).needs(GATEWAY),
    case("attack::a_report_without_or_after_its_time_is_no_success", reports).needs(GATEWAY),
    case("attack::an_attestation_that_does_not_do_ends_the_run", unproven).needs(GATEWAY),
    case("attack::a_box_that_dawdles_is_lost_at_the_deadline", dawdling).needs(GATEWAY),
    case("attack::a_word_in_halves_is_whole_whatever_happens_between", halves).needs(GATEWAY),
];

fn no_claim() -> Result<()> {
    let house = open_house().start()?;
    let door = house.door("one");
    let good = serde_json::to_vec(&claim::claim())?;
    let other = serde_json::to_vec(&Claim { protocol: box_spec::wire::PROTOCOL + 1, ..claim::claim() })?;
    let long = [&good[..], &vec![b' '; 17 * 1024]].concat();
    for (what, body) in
        [("nothing", &b""[..]), ("half", &good[..9]), ("garbage", b"\0\xff\r\n"), ("other", &other), ("long", &long)]
    {
        let Answer::Refused { status, body } = Claimed::ask_raw(&door, body)? else {
            anyhow::bail!("{what} was a claim");
        };
        ensure!(status == 400 && body.is_some_and(|body| body.reason == ClaimReason::BadClaim), "{what}: {status}");
    }
    let text = String::from_utf8(good)?;
    let head =
        |line: &str, fields: &str| format!("{line}\r\nHost: x\r\n{fields}Content-Length: {}\r\n\r\n{text}", text.len());
    let up = "Connection: Upgrade\r\nUpgrade: boxgate-claim\r\n";
    for (what, bytes, status) in [
        ("no upgrade", head("POST /claim HTTP/1.1", ""), 400),
        ("another upgrade", head("POST /claim HTTP/1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\n"), 400),
        ("HTTP/1.0", head("POST /claim HTTP/1.0", up), 400),
        ("credentials", head("POST /claim HTTP/1.1", &format!("{up}Proxy-Authorization: Basic eDp4\r\n")), 407),
        ("absolute form", head("POST http://x/claim HTTP/1.1", up), 407),
        ("GET", head("GET /claim HTTP/1.1", up), 407),
    ] {
        let answer = Tunnel::open(&door)?.ask(bytes.as_bytes())?;
        ensure!(answer.status == status, "{what}: {answer:?}");
    }
    ensure!(state_of(&house, "one")? == "free");
    ensure!(house.ledger()?.iter().all(|line| line["kind"] != "claim"), "a run began");
    Claimed::take(&door)?.report()?;
    Ok(())
}

fn no_message() -> Result<()> {
    let house = open_house().start()?;
    let endless = vec![b'x'; 80 * 1024];
    for (what, bytes) in [
        ("garbage", &b"\0\xff garbage\n"[..]),
        ("an empty line", b"\n"),
        ("an unknown word", b"{\"verdict\":\"completed\"}\n"),
        ("no end of line", &endless),
        ("half a line", b"{\"report\":{"),
        ("nothing", b""),
    ] {
        for (init, state) in [(true, "free"), (false, "shut")] {
            let mut claimed = claimed(&house, init)?;
            let (run, token) = (claimed.spec.run.clone(), claimed.token().to_owned());
            // The house may have ended the claim before all of it was sent.
            let _broken = claimed.say_raw(bytes);
            drop(claimed);
            let record = record(&house, run.as_str())?;
            ensure!(record["verdict"]["lost"].is_string(), "{what}: {record}");
            let line = house.wait_line("the loss", |line| line["kind"] == "lost" && line["run"] == run.as_str())?;
            ensure!(line["facts"]["door"] == state, "{what}: {line}");
            ensure!(state_of(&house, "one")? == state, "{what}");
            ensure!(Tunnel::connect(&house.door("one"), &token, "api.anthropic.com:443").is_err(), "{what}");
            if state == "shut" {
                house.gateway(&["runs", "release", "one"])?.expect_code(0)?;
            }
        }
    }
    Ok(())
}

fn reports() -> Result<()> {
    let house = open_house().start()?;
    // Before the attestation.
    let Answer::Taken(mut early) = Claimed::ask(&house.door("one"), &claim::claim())? else {
        anyhow::bail!("the claim was refused");
    };
    early.say(&FromBox::Report(claim::report()))?;
    let FromHouse::Settled(settled) = early.next(SOON)? else { anyhow::bail!("not settled") };
    ensure!(matches!(&settled.verdict, RunVerdict::Failed(why) if why.contains("never attested")), "{settled:?}");
    drop(early);

    // A second one, on the claim itself: the first stands.
    let mut claimed = Claimed::take(&house.door("one"))?;
    let run = claimed.spec.run.clone();
    claimed.say(&FromBox::Report(Report { exit_code: 42, ..claim::report() }))?;
    claimed.say(&FromBox::Report(claim::report()))?;
    let FromHouse::Settled(settled) = claimed.next(SOON)? else { anyhow::bail!("not settled") };
    ensure!(matches!(&settled.verdict, RunVerdict::Failed(why) if why.contains("42")), "{settled:?}");
    house.wait_line("the alarm", |line| line["alarm"] == "report-refused" && line["run"] == run.as_str())?;
    let record = record(&house, run.as_str())?;
    ensure!(record["exit_code"] == 42 && record["verdict"]["failed"].is_string(), "{record}");
    let told = house.ledger()?.iter().filter(|line| line["kind"] == "report" && line["run"] == run.as_str()).count();
    ensure!(told == 1, "{told} reports");
    Ok(())
}

fn left_out() -> Layer {
    Layer::LeftOut("a test".into())
}

fn unproven() -> Result<()> {
    let house = House::builder().secret(standin::Real::ApiKey("sk-ant-api03-REAL-KEY-unproven".into())).start()?;
    let good = claim::attestation();
    for (what, attestation) in [
        ("locked", Attestation { locked: false, ..good.clone() }),
        ("non_dumpable", Attestation { non_dumpable: false, ..good.clone() }),
        ("namespace_init", Attestation { namespace_init: false, ..good.clone() }),
        ("no_new_privileges", Attestation { no_new_privileges: false, ..good.clone() }),
        ("trusts_house", Attestation { trusts_house: false, ..good.clone() }),
        ("secret_free", Attestation { secret_free: false, ..good.clone() }),
        ("layers", Attestation { layers: Layers { filter: left_out(), ..good.layers.clone() }, ..good.clone() }),
        ("layers", Attestation { layers: Layers { capabilities: left_out(), ..good.layers.clone() }, ..good.clone() }),
        ("layers", Attestation { layers: Layers { scope: left_out(), ..good.layers.clone() }, ..good.clone() }),
    ] {
        let Answer::Taken(mut claimed) = Claimed::ask(&house.door("one"), &claim::claim())? else {
            anyhow::bail!("the claim was refused");
        };
        claimed.say(&FromBox::Attest(attestation))?;
        let word = claimed.next(SOON)?;
        ensure!(matches!(&word, FromHouse::Unproven { which } if which.contains(what)), "{what}: {word:?}");
        let record = record(&house, claimed.spec.run.as_str())?;
        ensure!(record["verdict"]["failed"].as_str().is_some_and(|why| why.contains(what)), "{record}");
        ensure!(Tunnel::connect(&house.door("one"), claimed.token(), "api.anthropic.com:443").is_err(), "{what}");
    }
    // After the word to go there is an agent, and it may live on.
    let mut twice = claimed(&house, false)?;
    twice.say(&FromBox::Attest(good))?;
    ensure!(matches!(twice.next(SOON)?, FromHouse::Unproven { .. }), "a second attestation was taken");
    ensure!(record(&house, twice.spec.run.as_str())?["verdict"]["lost"].is_string());
    ensure!(state_of(&house, "one")? == "shut", "the door is open to an agent that lives");
    Ok(())
}

/// One byte a second in the body of the claim, one in the attestation, and a cut that is never reported.
fn dawdling() -> Result<()> {
    let builder = open_house()
        .extra("[limits]\nreport_deadline = \"100ms\"\n")
        .add_box("two", "")
        .add_box("three", "ceiling = \"1s\"");
    let house = builder.start()?;
    let began = Instant::now();
    std::thread::scope(|scope| {
        let slow = [
            scope.spawn(|| slow_body(&house)),
            scope.spawn(|| slow_attestation(&house)),
            scope.spawn(|| no_report(&house)),
        ];
        slow.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
    })?;
    ensure!(began.elapsed() < Duration::from_secs(55), "{:?}", began.elapsed());
    Ok(())
}

fn slow_body(house: &House) -> Result<()> {
    let mut tunnel = Tunnel::open(&house.door("one"))?;
    tunnel.send(b"POST /claim HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: boxgate-claim\r\nContent-Length: 100\r\n\r\n{")?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(18) && tunnel.send(b" ").is_ok() {
        std::thread::sleep(Duration::from_secs(1));
        if house.ledger()?.iter().any(|line| line["box"] == "one" && line["reason"] == "claim-refused") {
            let took = began.elapsed();
            ensure!((9000..14_000).contains(&took.as_millis()), "refused after {took:?}");
            return Ok(());
        }
    }
    anyhow::bail!("a claim of one byte a second was waited for: {:?}", began.elapsed())
}

fn slow_attestation(house: &House) -> Result<()> {
    let Answer::Taken(mut claimed) = Claimed::ask(&house.door("two"), &claim::claim())? else {
        anyhow::bail!("the claim was refused");
    };
    let began = Instant::now();
    let run = claimed.spec.run.clone();
    while began.elapsed() < Duration::from_secs(45) && claimed.say_raw(b" ").is_ok() {
        std::thread::sleep(Duration::from_millis(500));
    }
    let took = began.elapsed();
    ensure!((29..45).contains(&took.as_secs()), "held for {took:?}");
    // There was no word to go, so there was no agent: nothing was lost, and the door is free.
    let record = record(house, run.as_str())?;
    ensure!(record["verdict"]["failed"].as_str().is_some_and(|why| why.contains("in time")), "{record}");
    ensure!(state_of(house, "two")? == "free");
    Ok(())
}

fn no_report(house: &House) -> Result<()> {
    let mut claimed = Claimed::take(&house.door("three"))?;
    let run = claimed.spec.run.clone();
    let word = claimed.next(SOON)?;
    ensure!(matches!(word, FromHouse::Cut { ended_by: EndedBy::Ceiling }), "{word:?}");
    let began = Instant::now();
    ensure!(claimed.next(Duration::from_secs(32)).is_err(), "the claim goes on after its report was due");
    let took = began.elapsed();
    ensure!((14..30).contains(&took.as_secs()), "waited {took:?} for a report");
    let record = record(house, run.as_str())?;
    ensure!(record["verdict"]["lost"].as_str().is_some_and(|why| why.contains("in time")), "{record}");
    Ok(())
}

/// The ceiling comes between the halves of the report; the report is read whole.
fn halves() -> Result<()> {
    let house = open_house().ceiling("1s").start()?;
    let mut claimed = Claimed::take(&house.door("one"))?;
    let mut line =
        serde_json::to_vec(&FromBox::Report(Report { ended_by: EndedBy::Ceiling, exit_code: 124, ..claim::report() }))?;
    line.push(b'\n');
    let (first, rest) = line.split_at(20);
    claimed.say_raw(first)?;
    ensure!(matches!(claimed.next(SOON)?, FromHouse::Cut { .. }));
    claimed.say_raw(rest)?;
    let word = claimed.next(SOON).context("the report was torn")?;
    ensure!(
        matches!(&word, FromHouse::Settled(settled) if matches!(&settled.verdict, RunVerdict::Failed(why) if why.contains("ceiling"))),
        "{word:?}"
    );
    Ok(())
}

fn claimed(house: &House, namespace_init: bool) -> Result<Claimed> {
    let asked = Claim { namespace_init, ..claim::claim() };
    let Answer::Taken(mut claimed) = Claimed::ask(&house.door("one"), &asked)? else {
        anyhow::bail!("the claim was refused");
    };
    claimed.say(&FromBox::Attest(Attestation { namespace_init, ..claim::attestation() }))?;
    ensure!(matches!(claimed.next(SOON)?, FromHouse::Go));
    Ok(*claimed)
}

const SOON: Duration = Duration::from_secs(10);
const GATEWAY: &[Need] = &[Need::Gateway];
