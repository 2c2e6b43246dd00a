//! `kill -9` of the gateway while it writes a checkpoint, and starts that take one or cannot.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use box_spec::RunToken;
use harness::door::Inside;
use harness::files::put;
use harness::{Case, Claimed, House, case, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{GATEWAY, ask, inside, lines, model, post, take_up};

pub(crate) const CASES: &[Case] = &[
    case("crash::a_gateway_killed_while_it_writes_a_checkpoint_starts_from_the_last_one", killed).needs(GATEWAY),
    case("crash::what_a_checkpoint_skips_is_read_after_the_start", skipped).needs(GATEWAY),
];

fn killed() -> Result<()> {
    let (standin, builder) = model()?;
    let mut house = builder.ceiling("10m").start()?;
    let token = Claimed::take(&house.door("one"))?.spec.token;
    house.kill()?;
    let mut sent = 0;
    for life in 0..LIVES {
        house.start()?;
        if life > 0 {
            let history = history(&house)?;
            ensure!(history == "reading", "life {life}: the whole ledger was read again: {history}");
        }
        // In one it has just come into its place, in the next the new file is there and not yet in its place.
        one_life(&mut house, &token, life % 2 == 1, &mut sent).with_context(|| format!("life {life}"))?;
    }
    house.start()?;
    until("the history to be read", WAIT, || (history(&house).ok()? == "read").then_some(()))?;
    let status = house.status()?;
    let door = status["boxes"].as_array().and_then(|doors| doors.first()).context("no box")?;
    let all = lines(&house.ledger_file())?;
    let requests = all.iter().filter(|line| line["kind"] == "request");
    let written: HashSet<&str> = requests.filter_map(|line| line["path"].as_str()).collect();
    ensure!(door["requests"] == written.len() as u64, "{} requests, counted: {door}", written.len());
    let seen = standin.seen();
    let missing = seen.iter().filter(|seen| !written.contains(seen.path.as_str())).count();
    ensure!(missing == 0 && seen.len() > LIVES * 100, "{missing} of {} requests have no line", seen.len());
    ensure!(!all.iter().any(|line| line["alarm"] == "ledger-damaged"), "a whole ledger was called damaged");
    house.term()?.expect_code(0)?;
    house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    Ok(())
}

/// Requests with long paths until the gateway is killed around its checkpoint.
fn one_life(house: &mut House, token: &RunToken, while_writing: bool, sent: &mut usize) -> Result<()> {
    let pid = Pid::from_raw(house.pid().context("no gateway")?);
    // A start may write one at once, of what the life before had left: the run is taken up before the next is waited for.
    let claimed = take_up(&house.door("one"), token)?;
    let mut tunnel = inside(house, "one", claimed.token())?;
    let (checkpoint, new) = (checkpoint(house, ""), checkpoint(house, ".new"));
    let before = std::fs::read(&checkpoint).unwrap_or_default();
    std::thread::scope(|scope| -> Result<()> {
        let killer = scope.spawn(move || -> Result<()> {
            let end = Instant::now() + WAIT;
            let is_time = || {
                if while_writing { new.exists() } else { std::fs::read(&checkpoint).is_ok_and(|now| now != before) }
            };
            while !is_time() {
                ensure!(Instant::now() < end, "no checkpoint was written");
            }
            kill(pid, Signal::SIGKILL).context("kill the gateway")
        });
        until_killed(&mut tunnel, sent);
        killer.join().map_err(|_| anyhow::anyhow!("the killer panicked"))?
    })?;
    let ran = house.kill()?;
    ensure!(ran.signal == Some(9), "the gateway had ended by itself: {}", ran.stderr);
    Ok(())
}

fn until_killed(tunnel: &mut Inside, sent: &mut usize) {
    loop {
        *sent += 1;
        let path = format!("/v1/messages/{sent}-{}", "x".repeat(1900));
        if tunnel.ask(post(&path, "{}").as_bytes()).is_err() {
            return;
        }
    }
}

fn skipped() -> Result<()> {
    let (_standin, builder) = model()?;
    let mut house = builder.start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    ensure!(ask(&house, "one", claimed.token(), "/v1/messages/first")?.reason().is_none());
    claimed.report()?;
    house.term()?.expect_code(0)?;
    let good = std::fs::read_to_string(house.ledger_file())?;
    let kept = std::fs::read(checkpoint(&house, ""))?;
    let edited = good.replacen("/v1/messages/first", "/v1/messages/other", 1);
    ensure!(edited != good);
    let cut = &good[..good.trim_end().rfind('\n').context("one line")? + 1];
    for (what, ledger, inside) in
        [("edited", edited.as_str(), "does not link to line"), ("cut", cut, "its tail was cut off")]
    {
        put(&house.ledger_file(), ledger.as_bytes(), 0o600)?;
        put(&checkpoint(&house, ""), &kept, 0o600)?;
        house.start()?;
        Claimed::take(&house.door("one"))?.report()?;
        let alarm = house.wait_line("the alarm", |line| line["alarm"] == "ledger-damaged").context(what)?;
        ensure!(alarm["inside"].as_str().is_some_and(|text| text.contains(inside)), "{what}: {alarm}");
        let history = history(&house)?;
        ensure!(history == if what == "edited" { "damaged" } else { "read" }, "{what}: {history}");
        house.term()?.expect_code(0)?;
    }
    std::fs::remove_file(checkpoint(&house, ""))?;
    put(&house.ledger_file(), good.as_bytes(), 0o600)?;
    house.start()?;
    ensure!(history(&house)? == "read", "without a checkpoint all is read at the start");
    house.term()?.expect_code(0)?;
    house.gateway(&["ledger", "verify"])?.expect_code(0)?;
    Ok(())
}

fn history(house: &House) -> Result<String> {
    let status = house.status()?;
    let history: &Value = &status["ledger"]["history"];
    history.as_str().map(str::to_owned).with_context(|| format!("no history: {status}"))
}

fn checkpoint(house: &House, more: &str) -> PathBuf {
    house.state().join(format!("ledger.jsonl.checkpoint{more}"))
}

const LIVES: usize = 8;
const WAIT: Duration = Duration::from_secs(30);
