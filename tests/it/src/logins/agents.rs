//! The stock agents in a box, on a login of the host that had ended before they were started.

use std::time::Duration;

use anyhow::{Result, ensure};
use box_spec::Agent;
use harness::{BoxRun, secrets};

use super::base::{CLAUDE, CODEX, FIRST, Host, Kind, PI, fresh};

pub(super) fn claude() -> Result<()> {
    runs(CLAUDE, Agent::Claude)
}

pub(super) fn codex() -> Result<()> {
    runs(CODEX, Agent::Codex)
}

pub(super) fn pi() -> Result<()> {
    runs(PI, Agent::Pi)
}

fn runs(kind: Kind, agent: Agent) -> Result<()> {
    let fresh = fresh(&kind);
    let host = Host::new(kind, -99)?;
    let launch = BoxRun::new(&host.house, "one")?.isolated().agent(agent.as_str()).prompt("<<text:on a fresh login>>");
    let ran = launch.run(Duration::from_secs(120))?.expect_code(0)?;
    let said = ran.said(agent)?;
    ensure!(!said.failed && said.text == "on a fresh login", "{said:?}");
    ensure!(host.refreshes().len() == 1, "{} refreshes", host.refreshes().len());
    let seen = host.standin.seen();
    let carried = |value: &str| value.contains(fresh.value());
    let others = seen.iter().filter(|seen| !seen.path.ends_with("/oauth/token") && seen.method != "WS");
    ensure!(others.clone().count() > 0, "nothing was asked");
    for seen in others {
        ensure!(seen.real && seen.header("authorization").into_iter().all(carried), "{seen:?}");
    }
    let text = host.read()?;
    ensure!(
        text.contains("rt-stand-in-1") && text.contains(fresh.value()) && text.ends_with(r#", "z":1e2}"#),
        "{text}"
    );
    for folder in [launch.session_folder(), launch.workspace_folder(), &launch.home()] {
        let leaks = secrets::in_files(folder, &[FIRST, "rt-stand-in-1", fresh.value()])?;
        ensure!(leaks.is_empty(), "left behind: {leaks:?}");
    }
    let lines = host.lines()?;
    ensure!(lines.len() == 1 && lines[0].1["status"] == 200, "{lines:?}");
    Ok(())
}
