//! `docker compose down` while an agent waits for its model: the run is reported, and every line that was opened is closed.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::{Case, case, process};
use serde_json::Value;

use super::{House, NEEDS};

pub(crate) const CASES: &[Case] =
    &[case("docker::down::in_mid_stream_no_line_is_lost", in_mid_stream).needs(NEEDS).alone()];

/// In a project of its own beside that of the other cases.
fn in_mid_stream() -> Result<()> {
    let house = House::open()?;
    let engine = house.engine;
    let compose = |arguments: &[&str]| -> Command {
        let mut command = engine.compose(&[&["--profile", "claude"], arguments].concat());
        command.env("COMPOSE_PROJECT_NAME", "down");
        command
    };
    engine.must(compose(&["up", "-d", "gateway"]))?;
    house.standin.forget();
    let running = process::start(compose(&["run", "--rm", "-T", "claude", "<<sleep:120>>never"]), None)?;
    house.standin.wait_seen(1, MINUTES).with_context(|| running.stderr())?;
    engine.must(compose(&["down", "--timeout", "30"]))?;
    let _ended_somehow = running.wait(MINUTES)?;
    engine.must(compose(&["up", "-d", "gateway"]))?;
    let inside = |arguments: &[&str]| engine.must(compose(&[&["exec", "-T", "gateway"], arguments].concat()));
    inside(&["gateway", "ledger", "verify", "--config", "/etc/boxgate/house.toml"])?;
    let text = inside(&["cat", "/data/state/ledger.jsonl"])?.text();
    engine.must(compose(&["down", "--volumes", "--timeout", "30"]))?;
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).collect::<Vec<_>>();
    let claim = of("claim").first().map(|line| line["run"].clone()).context("no claim")?;
    let report = of("report").into_iter().find(|line| line["run"] == claim).context("no report of the run")?;
    ensure!(report["facts"]["verdict"]["failed"].is_string(), "{report}");
    let opened: BTreeSet<u64> =
        lines.iter().filter(|line| line["open"] == true).filter_map(|line| line["seq"].as_u64()).collect();
    let closed: BTreeSet<u64> = of("closed").iter().filter_map(|line| line["of"].as_u64()).collect();
    ensure!(!opened.is_empty() && opened.is_subset(&closed), "opened {opened:?}, closed {closed:?}");
    ensure!(of("recovered").is_empty(), "a line was closed only by the next gateway");
    Ok(())
}

const MINUTES: Duration = Duration::from_secs(180);
