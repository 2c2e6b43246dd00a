//! The two shells of docs/compose.md: one in a box of its own, one beside a live run.

use anyhow::{Context, Result, ensure};
use harness::{Case, Generation, case, files, process};

use super::devcontainer::LOOK;
use super::{House, MINUTES, NEEDS, the_box};

pub(crate) const CASES: &[Case] =
    &[case("docker::a_shell_alone_and_one_beside_a_run_are_governed", || shells(Generation::Old)).needs(NEEDS).alone()];

pub(super) fn shells(generation: Generation) -> Result<()> {
    let house = House::of(generation)?;
    let engine = house.engine;
    let script = format!("{LOOK}; exit 5");
    let alone = ["--entrypoint", "/boxgate/boxd", "claude", "exec", "--", "sh", "-c", &script];
    let ran = engine.start_run(&alone)?.wait(MINUTES)?.expect_code(5)?;
    let alone = governed(&ran.text())?;
    // Beside a run, which stays until it is told to go.
    let go = engine.project().join("box/workspace/go");
    house.standin.forget();
    let prompt = "<<sh:while [ ! -e /workspace/go ]; do sleep 0.1; done>><<text:gone>>";
    let running = engine.start_run(&["claude", "--output", "text", prompt])?;
    house.standin.wait_seen(1, MINUTES).with_context(|| running.stderr())?;
    let shell = ["/boxgate/boxd", "exec", "--", "sh", "-c", &script];
    let joined = match generation {
        // It knows no container of its own `run`.
        Generation::Old => engine.docker(&[&["exec", &the_box(engine, &running)?], &shell[..]].concat()),
        Generation::New => engine.compose(&[&["exec", "-T", "claude"], &shell[..]].concat()),
    };
    let joined = process::run(joined, None, MINUTES).and_then(|ran| ran.expect_code(5));
    let other = ["exec", "--user", "0", &the_box(engine, &running)?, "/boxgate/boxd", "exec", "--", "true"];
    let other = process::run(engine.docker(&other), None, MINUTES).and_then(|ran| ran.expect_code(73));
    let status = engine.must(engine.compose(&["exec", "-T", "gateway", "gateway", "status"]));
    files::put(&go, b"", 0o644)?;
    let ran = running.wait(MINUTES)?.expect_code(0)?;
    std::fs::remove_file(&go).context("remove the sign")?;
    ensure!(ran.text().contains("gone"), "{}", ran.text());
    let (beside, status) = (governed(&joined?.text())?, status?.text());
    let other = other?.stderr;
    ensure!(other.contains("/session is closed to user 0") && other.contains("--user 1000"), "{other}");
    ensure!(status.contains(&format!("run {beside} since")), "the house knows no run {beside}: {status}");
    ensure!(alone != beside, "two runs have one name: {alone}");
    house.ledger_is_whole()
}

/// The run that a shell is in, with the way through the house and no other.
fn governed(told: &str) -> Result<String> {
    let run = told.lines().find_map(|line| line.strip_prefix("run ")).with_context(|| format!("it saw {told}"))?;
    ensure!(!run.is_empty(), "it is in no run: {told}");
    ensure!(told.contains("proxy http://127.0.0.1:3128") && told.contains("interfaces lo\n"), "it saw {told}");
    Ok(run.to_owned())
}
