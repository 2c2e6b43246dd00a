//! Ten thousand of a kind: guesses, connections. They are refused and counted, and the other box does not notice.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::door::connect_head;
use harness::{Case, Claimed, House, Need, Tools, Tunnel, case, process, until};
use standin::StandIn;

use super::no_success;
use crate::crash::{ask, model, record, state_of};

pub(crate) const CASES: &[Case] = &[
    case("attack::ten_thousand_guesses_are_refused_counted_and_small", guesses).needs(GATEWAY).alone(),
    case("attack::ten_thousand_connections_harm_no_other_box", connections).needs(GATEWAY).alone(),
    case("attack::the_gateway_takes_the_descriptors_that_its_limits_need", descriptors).needs(GATEWAY),
];

fn guesses() -> Result<()> {
    let (_standin, mut house) = two_boxes("")?;
    let (run, good) = (Claimed::take(&house.door("one"))?, Claimed::take(&house.door("two"))?);
    let id = run.spec.run.clone();
    let (lines, bytes) = (house.ledger()?.len(), std::fs::metadata(house.ledger_file())?.len());
    let began = Instant::now();
    let slowest = std::thread::scope(|scope| -> Result<Duration> {
        let guessing: Vec<_> = (0..4_u32)
            .map(|thread| {
                scope.spawn({
                    let house = &house;
                    move || guess(house, thread)
                })
            })
            .collect();
        let mut slowest = Duration::ZERO;
        while guessing.iter().any(|one| !one.is_finished()) {
            let asked = Instant::now();
            ensure!(ask(&house, "two", good.token(), MODEL)?.status == 200, "the other box was refused");
            slowest = slowest.max(asked.elapsed());
        }
        guessing.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow::anyhow!("a guesser panicked"))?)?;
        Ok(slowest)
    })?;
    ensure!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    ensure!(slowest < Duration::from_secs(2), "the other box waited {slowest:?}");
    let status = house.status()?;
    ensure!(status["refusals"] == 10_000, "{status}");
    no_success("guessing", &{
        run.report()?;
        record(&house, id.as_str())?
    })?;
    ensure!(good.report()?.verdict == box_spec::RunVerdict::Completed, "the other box's run failed");
    house.term()?.expect_code(0)?;

    let all = house.ledger()?;
    let of_box: Vec<_> =
        all[lines..].iter().filter(|line| line["box"] == "one" && line["reason"] == "no-run-token").collect();
    let told: u64 = of_box.iter().map(|line| line["count"].as_u64().unwrap_or(1)).sum();
    ensure!(told == 10_000, "{told} of 10000 are in the ledger: {of_box:?}");
    ensure!(of_box.len() <= 12, "{} lines for one box's guesses", of_box.len());
    let others: u64 =
        all[lines..].iter().filter(|line| line["box"] == "two").map(|line| line.to_string().len() as u64 + 1).sum();
    let grown = std::fs::metadata(house.ledger_file())?.len() - bytes;
    ensure!(grown - others < 16 * 1024, "the ledger grew by {} bytes", grown - others);
    Ok(())
}

/// A quarter of ten thousand, on a few connections.
fn guess(house: &House, thread: u32) -> Result<()> {
    for connection in 0..25_u32 {
        let mut tunnel = Tunnel::open(&house.door("one"))?;
        for at in 0..100_u32 {
            let token = format!("{thread:08x}-{connection:04x}-4c6b-8e2f-{at:012x}");
            let answer = tunnel.ask(connect_head("api.anthropic.com:443", Some(&token)).as_bytes())?;
            ensure!(answer.status == 407, "{token} was answered {}", answer.status);
        }
    }
    Ok(())
}

fn connections() -> Result<()> {
    let (_standin, house) = two_boxes("[limits]\nhead_deadline = \"2m\"\n")?;
    let (run, good) = (Claimed::take(&house.door("one"))?, Claimed::take(&house.door("two"))?);
    let bytes = std::fs::metadata(house.ledger_file())?.len();
    let mut held = Vec::new();
    let mut refused = 0;
    let mut slowest = Duration::ZERO;
    let began = Instant::now();
    for at in 0..10_000 {
        let mut tunnel = Tunnel::open(&house.door("one")).with_context(|| format!("connection {at}"))?;
        // One place is the claim's.
        if held.len() < 511 {
            held.push(tunnel);
            continue;
        }
        let answer = String::from_utf8_lossy(&tunnel.rest()?).into_owned();
        ensure!(answer.starts_with("HTTP/1.1 503") && answer.contains("too-many"), "connection {at}: {answer}");
        refused += 1;
        if at % 500 == 0 {
            let asked = Instant::now();
            ensure!(ask(&house, "two", good.token(), MODEL)?.status == 200, "the other box was refused");
            slowest = slowest.max(asked.elapsed());
        }
    }
    ensure!(refused == 10_000 - 511, "{refused} were refused");
    ensure!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    ensure!(slowest < Duration::from_secs(2), "the other box waited {slowest:?}");
    ensure!(state_of(&house, "one")? == "held", "the run of the box itself was lost");
    let grown = std::fs::metadata(house.ledger_file())?.len() - bytes;
    ensure!(grown < 64 * 1024, "the ledger grew by {grown} bytes");

    drop(held);
    until("the box's places to be free", Duration::from_secs(5), || {
        ask(&house, "one", run.token(), MODEL).is_ok_and(|answer| answer.status == 200).then_some(())
    })?;
    run.report()?;
    good.report()?;
    Ok(())
}

fn descriptors() -> Result<()> {
    let (_standin, builder) = model()?;
    let house = builder.prepare()?;
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -Sn 256; exec \"$0\" serve --config \"$1\""])
        .arg(Tools::gateway()?)
        .arg(house.config());
    let running = process::start(command, None)?;
    until("the door", Duration::from_secs(10), || house.identity("one").ok())?;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.pid()))?;
    let line = limits.lines().find(|line| line.starts_with("Max open files")).context("no limit of files")?;
    let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (soft, hard) = (numbers.next().context("no soft limit")?, numbers.next().unwrap_or(u64::MAX));
    ensure!(soft == hard.min(25_600), "{line}");
    Ok(())
}

fn two_boxes(limits: &str) -> Result<(StandIn, House)> {
    let (standin, builder) = model()?;
    Ok((standin, builder.add_box("two", "").extra(limits).start()?))
}

const MODEL: &str = "/v1/messages";
const GATEWAY: &[Need] = &[Need::Gateway];
