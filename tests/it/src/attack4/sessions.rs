//! A session is one run's of an agent at a time, and what interrupts a launch ends it soon.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use box_spec::Agent;
use harness::fakes::FakeAgents;
use harness::{Case, House, Need, case, waits};
use nix::sys::signal::Signal;

use crate::seeds;

pub(crate) const CASES: &[Case] = &[
    case("attack4::a_second_run_of_an_agent_in_one_session_is_refused", second_run).needs(BOTH),
    case("attack4::two_agents_share_a_session", two_agents).needs(BOTH),
    case("attack4::a_signal_while_codex_is_asked_for_its_models_ends_the_run", signalled).needs(BOTH),
];

/// Where one wrote its credentials over the other's, the first run would send a sentinel of the second: an alarm.
fn second_run() -> Result<()> {
    let house = house()?;
    for agent in Agent::ALL {
        let fakes = fake(
            agent,
            "cat \"$CODEX_HOME$PI_CODING_AGENT_DIR$CLAUDE_CONFIG_DIR\"/.cred* \"$CODEX_HOME$PI_CODING_AGENT_DIR\"/auth.json > before 2>/dev/null; touch up; until [ -e go ]; do sleep 0.05; done; cat \"$CODEX_HOME$PI_CODING_AGENT_DIR$CLAUDE_CONFIG_DIR\"/.cred* \"$CODEX_HOME$PI_CODING_AGENT_DIR\"/auth.json 2>/dev/null | cmp before -",
        )?;
        let first = seeds::launch(&house, agent)?.agents(fakes.folder());
        let running = first.start()?;
        let up = first.workspace_folder().join("up");
        waits::until("the first run", SOON, || up.exists().then_some(())).with_context(|| running.stderr())?;
        let second = first.clone().door(&house.door(&format!("{agent}-2")));
        let refused = second.run(SOON)?.expect_code(75)?;
        let session = first.session_folder().display().to_string();
        ensure!(refused.stderr.contains(&session) && refused.stderr.contains("--session"), "{}", refused.stderr);
        harness::files::put(&first.workspace_folder().join("go"), b"", 0o644)?;
        running.wait(SOON)?.expect_code(0).with_context(|| format!("{agent}: its credentials were replaced"))?;
        second.run(SOON)?.expect_code(0)?;
    }
    Ok(())
}

fn two_agents() -> Result<()> {
    let house = house()?;
    let waiting = fake(Agent::Pi, "touch up; until [ -e go ]; do sleep 0.05; done")?;
    let first = seeds::launch(&house, Agent::Pi)?.agents(waiting.folder());
    let running = first.start()?;
    let up = first.workspace_folder().join("up");
    waits::until("the first run", SOON, || up.exists().then_some(())).with_context(|| running.stderr())?;
    let other = seeds::launch(&house, Agent::Codex)?.session(first.session_folder());
    other.agents(fake(Agent::Codex, "exit 0")?.folder()).run(SOON)?.expect_code(0)?;
    harness::files::put(&up.with_file_name("go"), b"", 0o644)?;
    running.wait(SOON)?.expect_code(0)?;
    Ok(())
}

/// A container has ten seconds from TERM to KILL, and asking may take as long.
fn signalled() -> Result<()> {
    let house = house()?;
    for (signals, code, started) in [(&[Signal::SIGTERM][..], 143, false), (&[Signal::SIGWINCH], 0, true)] {
        let asked =
            "touch asked; until [ -e go ]; do sleep 0.05; done; echo '{\"models\":[{\"slug\":\"fake\"}]}'; exit";
        let fakes = FakeAgents::shell_as(
            Agent::Codex,
            &format!("[ \"$1\" != debug ] || {{ {asked}; }}\ncat \"$CODEX_HOME/config.toml\""),
        )?;
        let launch = seeds::launch(&house, Agent::Codex)?.agents(fakes.folder());
        let running = launch.start()?;
        let file = launch.workspace_folder().join("asked");
        waits::until("the question", SOON, || file.exists().then_some(())).with_context(|| running.stderr())?;
        let began = Instant::now();
        for signal in signals {
            running.signal(*signal)?;
        }
        if started {
            harness::files::put(&file.with_file_name("go"), b"", 0o644)?;
        }
        let ran = running.wait(SOON)?.expect_code(code)?;
        ensure!(began.elapsed() < Duration::from_secs(5), "{signals:?}: {:?}", began.elapsed());
        ensure!(ran.text().contains("model_catalog_json") == started, "{signals:?}: {}{}", ran.text(), ran.stderr);
    }
    Ok(())
}

/// A house with two boxes for each agent.
fn house() -> Result<House> {
    let house = House::builder()
        .secret_for(box_spec::Provider::Anthropic, seeds::anthropic())
        .secret_for(box_spec::Provider::OpenaiCodex, seeds::login());
    let second = |house: harness::HouseBuilder, agent: &Agent| {
        house.add_box(&format!("{agent}-2"), &format!("agent = \"{agent}\"\nunsafe_open_network = true\n"))
    };
    Agent::ALL.iter().fold(seeds::boxes(house), second).start()
}

pub(super) fn fake(agent: Agent, script: &str) -> Result<FakeAgents> {
    let models = "[ \"$1\" != debug ] || { echo '{\"models\":[{\"slug\":\"fake\"}]}'; exit 0; }";
    FakeAgents::shell_as(agent, &format!("{models}\n{script}"))
}

pub(super) const BOTH: &[Need] = &[Need::Gateway, Need::Boxd];
pub(super) const SOON: Duration = Duration::from_secs(30);
