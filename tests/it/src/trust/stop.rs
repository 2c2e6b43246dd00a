//! Ending a run from outside: time to flush, an end to patience, and nothing left behind.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use box_spec::{Attestation, FromBox};
use harness::claim::{self, Answer};
use harness::fakes::FakeAgents;
use harness::process::{start, with_argument};
use harness::{Claimed, House, Ran, Running, until};
use nix::sys::signal::Signal;

use super::{SOON, house, last_facts, launch, shell};

pub(super) fn time_to_flush() -> Result<()> {
    let house = house()?;
    for isolated in [false, true] {
        let script = "trap 'sleep 1; echo flushed; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
        let ran = stopped(&house, isolated, script, &[(Signal::SIGTERM, 0)])?.expect_code(0)?;
        ensure!(ran.text() == "ready\nflushed\n", "{}", ran.text());
        let report = &last_facts(&house)?["report"];
        ensure!(report["ended_by"] == "signal" && report["exit_code"] == 0, "{report}");
        ensure!(ran.took < Duration::from_secs(4), "{:?}", ran.took);
    }
    Ok(())
}

pub(super) fn deaf() -> Result<()> {
    let house = house()?;
    for isolated in [false, true] {
        let script = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
        let ran = stopped(&house, isolated, script, &[(Signal::SIGTERM, 0)])?.expect_code(137)?;
        // The grace is five seconds.
        ensure!(ran.took > Duration::from_secs(5) && ran.took < Duration::from_secs(7), "{:?}", ran.took);
    }
    Ok(())
}

pub(super) fn deaf_child() -> Result<()> {
    let house = house()?;
    for (isolated, mark) in [(false, "7541"), (true, "7542")] {
        let script = format!("sh -c 'trap \"\" TERM; while :; do sleep {mark}; done' & sleep 0.2; exit 3");
        let ran = shell(&house, isolated, &script)?.expect_code(3)?;
        ensure!(ran.took < Duration::from_secs(4), "{:?}", ran.took);
        ensure!(with_argument(mark).is_empty(), "the agent's child lives on");
        // The shell and its sleep.
        ensure!(last_facts(&house)?["report"]["orphans"].as_u64() >= Some(1), "{}", last_facts(&house)?);
    }
    Ok(())
}

pub(super) fn passed_on_once() -> Result<()> {
    let house = house()?;
    for isolated in [false, true] {
        for (name, signal) in [
            ("INT", Signal::SIGINT),
            ("HUP", Signal::SIGHUP),
            ("USR1", Signal::SIGUSR1),
            ("USR2", Signal::SIGUSR2),
            ("WINCH", Signal::SIGWINCH),
            ("QUIT", Signal::SIGQUIT),
        ] {
            let script = format!(
                "trap 'echo got {name}' {name}; echo ready; n=0; while [ $n -lt 12 ]; do sleep 0.05; n=$((n+1)); done; exit 9"
            );
            let ran = stopped(&house, isolated, &script, &[(signal, 0)])?.expect_code(9)?;
            ensure!(ran.text() == format!("ready\ngot {name}\n"), "{name}: {}", ran.text());
        }
    }
    Ok(())
}

pub(super) fn second_term() -> Result<()> {
    let house = house()?;
    for isolated in [false, true] {
        let flushes =
            "trap 'trap \"\" TERM; sleep 0.5; echo flushed; exit 4' TERM; echo ready; while :; do sleep 0.05; done";
        let twice = [(Signal::SIGTERM, 0), (Signal::SIGTERM, 200)];
        let ran = stopped(&house, isolated, flushes, &twice)?.expect_code(4)?;
        ensure!(ran.text() == "ready\nflushed\n", "{}", ran.text());
        let deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
        let ran = stopped(&house, isolated, deaf, &twice)?.expect_code(137)?;
        ensure!(ran.took < Duration::from_secs(4), "a second TERM did not shorten the grace: {:?}", ran.took);
    }
    Ok(())
}

/// At every moment from boxd's first on: the run ends soon, is not a success, and where it was claimed it is reported.
pub(super) fn early_term() -> Result<()> {
    let house = house()?;
    let fakes = FakeAgents::shell("sleep 60")?;
    for isolated in [false, true] {
        for delay in [0, 1, 2, 3, 5, 8, 12, 20, 40] {
            let launch = launch(&house, isolated)?.agents(fakes.folder());
            let running = launch.start()?;
            std::thread::sleep(Duration::from_millis(delay));
            running.signal(Signal::SIGTERM)?;
            let ran = running.wait(Duration::from_secs(20)).with_context(|| format!("TERM after {delay} ms"))?;
            // Before its first instruction the kernel ends boxd by the signal itself.
            ensure!(ran.code == Some(143) || ran.signal == Some(15), "after {delay} ms: {:?} {}", ran.code, ran.stderr);
            ensure!(ran.took < Duration::from_secs(3), "after {delay} ms it took {:?}", ran.took);
            free(&house).with_context(|| format!("after {delay} ms"))?;
        }
    }
    shell(&house, false, "exit 0")?.expect_code(0)?;
    Ok(())
}

/// A client that leaves between its claim and the word to go: there was no agent, so nothing can live on.
pub(super) fn broken_claim() -> Result<()> {
    let house = house()?;
    let door = house.door("one");
    let body = serde_json::to_vec(&claim::claim())?;
    let head = format!(
        "POST /claim HTTP/1.1\r\nHost: door\r\nConnection: Upgrade\r\nUpgrade: boxgate-claim\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    for round in 0..40 {
        let mut stream = UnixStream::connect(&door)?;
        stream.write_all(head.as_bytes())?;
        stream.write_all(&body)?;
        std::thread::sleep(Duration::from_micros(150 * round));
        drop(stream);
        free(&house).with_context(|| format!("round {round}"))?;
    }
    let Answer::Taken(claimed) = Claimed::ask(&door, &claim::claim())? else {
        anyhow::bail!("a claim was refused");
    };
    drop(claimed);
    free(&house).context("after the spec")?;
    house.wait_line("how it failed", |line| line["kind"] == "failed")?;
    // After the word to go an agent may live on.
    drop(Claimed::take(&door)?);
    house.wait_line("the loss", |line| line["kind"] == "lost" && line["facts"]["door"] == "free")?;
    let open = claim::claim();
    ensure!(open.namespace_init, "the harness claims as another kind of box");
    let mut open = open;
    open.namespace_init = false;
    let Answer::Taken(mut claimed) = Claimed::ask(&door, &open)? else {
        anyhow::bail!("a claim was refused");
    };
    claimed.say(&FromBox::Attest(Attestation { namespace_init: false, ..claim::attestation() }))?;
    claimed.next(Duration::from_secs(5))?;
    drop(claimed);
    house.wait_line("the loss", |line| line["kind"] == "lost" && line["facts"]["door"] == "shut")?;
    Ok(())
}

pub(super) fn own_session() -> Result<()> {
    let house = house()?;
    let free = TcpListener::bind("127.0.0.1:0")?;
    let port = free.local_addr()?.port();
    drop(free);
    let mut stranger = Command::new("sleep");
    stranger.arg("7551");
    let mut stranger = start(stranger, None)?;
    let fakes = FakeAgents::shell(&format!(
        "setsid sh -c 'trap \"\" TERM; sleep 7552; sleep 7552' &
setsid python3 -c 'import signal, socket, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
s = socket.create_server((\"127.0.0.1\", {port})); time.sleep(7552)' &
until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))' 2>/dev/null; do sleep 0.05; done
echo ready; exit 1"
    ))?;
    let ran = launch(&house, false)?.agents(fakes.folder()).run(SOON)?.expect_code(1)?;
    ensure!(ran.text() == "ready\n", "{}", ran.text());
    ensure!(with_argument("7552").is_empty(), "a helper in a session of its own lives on");
    TcpListener::bind(("127.0.0.1", port)).context("the helper's port is still taken")?;
    ensure!(!stranger.has_ended(), "a process that is not of the run was ended");
    Ok(())
}

pub(super) fn by_operator() -> Result<()> {
    let house = house()?;
    for isolated in [false, true] {
        let fakes = FakeAgents::shell("echo ready; while :; do sleep 0.05; done")?;
        let running = launch(&house, isolated)?.agents(fakes.folder()).start()?;
        ready(&running)?;
        let run = house.status()?["boxes"][0]["run"].as_str().context("no run holds the door")?.to_owned();
        let asked = Instant::now();
        let ran = house.gateway(&["runs", "stop", &run])?;
        ensure!(ran.code == Some(0), "{ran:?}");
        let ran = running.wait(SOON)?.expect_code(143)?;
        ensure!(asked.elapsed() < Duration::from_secs(6), "{:?}", asked.elapsed());
        ensure!(ran.stderr.contains("an operator of the house stopped the run"), "{}", ran.stderr);
        let facts = last_facts(&house)?;
        let verdict = facts["verdict"].to_string();
        ensure!(facts["report"]["ended_by"] == "operator" && verdict.contains("stopped by an operator"), "{facts}");
        free(&house)?;
    }
    Ok(())
}

/// The house may hear of an end a little later than who waited for boxd.
fn free(house: &House) -> Result<()> {
    until("the door to be free", Duration::from_secs(5), || {
        let status = house.status().ok()?;
        (status["boxes"][0]["state"] == "free").then_some(())
    })
}

/// Starts an agent that says when it is ready; then sends these signals, each after so many milliseconds more. Time
/// counts from the first.
fn stopped(house: &House, isolated: bool, script: &str, signals: &[(Signal, u64)]) -> Result<Ran> {
    let fakes = FakeAgents::shell(script)?;
    let running = launch(house, isolated)?.agents(fakes.folder()).start()?;
    ready(&running)?;
    let asked = Instant::now();
    for (signal, after) in signals {
        std::thread::sleep(Duration::from_millis(*after));
        running.signal(*signal)?;
    }
    let ran = running.wait(SOON)?;
    Ok(Ran { took: asked.elapsed(), ..ran })
}

fn ready(running: &Running) -> Result<()> {
    until("the agent", Duration::from_secs(20), || running.stdout().starts_with(b"ready\n").then_some(()))
        .with_context(|| running.stderr())
}
