//! By which name boxd is called, and whose word on the agent counts.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use box_spec::{Agent, Provider};
use harness::fakes::FakeAgents;
use harness::files::put;
use harness::{BoxRun, Case, House, Need, Ran, Tools, case, process};
use standin::Real;

pub(crate) const CASES: &[Case] = &[
    case("called::by_an_agents_name_boxd_is_that_run", by_name).needs(BOTH),
    case("called::by_an_agents_name_it_makes_the_box_too", by_name_isolated).needs(ISOLATED),
    case("called::another_agent_than_the_name_says_is_refused", conflicts).needs(BOTH),
    case("called::the_version_of_each_stock_agent_is_told_offline", versions).needs(STOCK),
    case("called::the_most_specific_word_on_the_agent_counts", whose_word).needs(BOTH),
    case("called::nothing_said_anywhere_is_pi", built_in).needs(BOTH),
    case("called::two_providers_at_once_are_refused_by_name", two_providers).needs(&[Need::Boxd]),
    case("called::other_modes_and_sessions_are_refused_before_the_start", other_modes).needs(&[Need::Boxd]),
];

fn by_name() -> Result<()> {
    let house = house()?;
    for agent in Agent::ALL {
        let fakes = fake(agent)?;
        for kind in ["symbolic", "hard"] {
            let names = tempfile::Builder::new().prefix("names-").tempdir_in(Tools::target()?)?;
            let name = names.path().join(format!("run-{agent}"));
            match kind {
                "symbolic" => symlink(Tools::boxd()?, &name)?,
                _ => std::fs::hard_link(Tools::boxd()?, &name)?,
            }
            let run = BoxRun::new(&house, agent.as_str())?;
            let mut command = command(&name, &run, fakes.folder());
            command.args(["--unsafe-open-network", "--output", "native", "hi", "--", "--model", "m"]);
            let ran = process::run(command, None, SOON)?.expect_code(0).with_context(|| format!("{kind} {agent}"))?;
            ensure!(ran.text().starts_with(&format!("{agent} ")) && ran.text().contains("--model m"), "{}", ran.text());
        }
    }
    Ok(())
}

fn by_name_isolated() -> Result<()> {
    let house = house()?;
    let fakes = fake(Agent::Pi)?;
    let names = tempfile::tempdir()?;
    let name = names.path().join("run-pi");
    symlink(Tools::boxd()?, &name)?;
    let run = BoxRun::new(&house, "pi")?;
    let mut command = command(&name, &run, fakes.folder());
    command.env_remove("BOXGATE_AGENT_PATH").arg("--isolate").arg("--workspace").arg(run.workspace_folder());
    command.arg("--agent-dir").arg(fakes.folder()).args(["--output", "native", "hi"]);
    let ran = process::run(command, None, SOON)?.expect_code(0)?;
    ensure!(ran.text().starts_with("pi -p") && ran.text().contains("/session/pi"), "{}", ran.text());
    Ok(())
}

fn conflicts() -> Result<()> {
    let house = house()?;
    let names = tempfile::tempdir()?;
    let name = names.path().join("run-codex");
    symlink(Tools::boxd()?, &name)?;
    let fakes = fake(Agent::Codex)?;
    let run = BoxRun::new(&house, "codex")?;
    let mut asked = command(&name, &run, fakes.folder());
    let ran = process::run(asked_for(&mut asked, "claude"), None, SOON)?.expect_code(64)?;
    ensure!(ran.stderr.contains("run-codex") && ran.stderr.contains("--agent claude"), "{}", ran.stderr);
    let mut same = command(&name, &run, fakes.folder());
    process::run(asked_for(&mut same, "codex"), None, SOON)?.expect_code(0)?;
    // The house has its word too.
    let other = BoxRun::new(&house, "pi")?;
    let mut other = command(&name, &other, fakes.folder());
    let ran = process::run(asked_for(&mut other, "codex"), None, SOON)?.expect_code(64)?;
    ensure!(ran.stderr.contains("pi") && ran.stderr.contains("codex"), "{}", ran.stderr);
    Ok(())
}

fn versions() -> Result<()> {
    let manifest = std::fs::read_to_string(Tools::workspace().join("box/package.json"))?;
    for agent in Agent::ALL {
        let names = tempfile::tempdir()?;
        let name = names.path().join(format!("run-{agent}"));
        symlink(Tools::boxd()?, &name)?;
        let run = BoxRun::at_door("/nowhere/door.sock".into())?;
        let mut command = command(&name, &run, &Tools::agents());
        command.arg("--version");
        let ran = process::run(command, None, SOON)?.expect_code(0)?;
        let version = ran.text().split_whitespace().find(|word| word.contains('.')).context("no version")?.to_owned();
        ensure!(manifest.contains(&format!("\"{version}\"")), "{agent}: {}", ran.text());
        for folder in [run.session_folder().to_owned(), run.home()] {
            let left: Vec<_> = std::fs::read_dir(&folder)?.flatten().map(|entry| entry.path()).collect();
            ensure!(left.is_empty(), "{agent} has left {left:?}");
        }
    }
    Ok(())
}

fn whose_word() -> Result<()> {
    let house = house()?;
    let every = every_fake()?;
    // The box, --agent, BOXGATE_AGENT; the agent that runs, or what is said.
    for (at, option, variable, outcome) in [
        ("claude", None, None, Ok("claude")),
        ("codex", None, Some(""), Ok("codex")),
        ("codex", None, Some("codex"), Ok("codex")),
        ("codex", Some("codex"), Some("pi"), Ok("codex")),
        ("pi", None, Some("claude"), Err("box pi runs pi, and claude was asked for")),
        ("pi", Some("codex"), None, Err("box pi runs pi, and codex was asked for")),
        ("codex", Some("codex"), Some("gemini"), Err("BOXGATE_AGENT: unknown agent \"gemini\"")),
        ("codex", Some("gemini"), Some("codex"), Err("unknown agent \"gemini\"")),
        ("codex", Some("Codex"), None, Err("choose pi, claude or codex")),
    ] {
        let ran = chosen(&house, at, option, variable, &every)?;
        let what = format!("{at} {option:?} {variable:?}: {} {}", ran.text(), ran.stderr);
        match outcome {
            Ok(agent) => ensure!(ran.code == Some(0) && ran.text().starts_with(&format!("{agent} ")), "{what}"),
            Err(told) => ensure!(ran.code == Some(64) && ran.stderr.contains(told) && ran.stdout.is_empty(), "{what}"),
        }
    }
    Ok(())
}

fn built_in() -> Result<()> {
    let mut house = House::builder().agent("claude").secret(anthropic()).open_network().prepare()?;
    let named = std::fs::read_to_string(house.config())?;
    let text = named.replace("agent = \"claude\"\n", "");
    ensure!(text != named && !text.contains("agent ="), "{text}");
    put(&house.config(), text.as_bytes(), 0o644)?;
    house.start()?;
    let ran = chosen(&house, "one", None, None, &every_fake()?)?.expect_code(0)?;
    ensure!(ran.text().starts_with("pi -p --mode json --no-extensions --session-dir "), "{}", ran.text());
    Ok(())
}

fn two_providers() -> Result<()> {
    let run = BoxRun::at_door("/nowhere/door.sock".into())?.prompt("hi");
    let run = run.option("--env=CLAUDE_CODE_USE_BEDROCK=1").option("--env=claude_code_use_vertex=1").run(SOON)?;
    let ran = run.expect_code(64)?;
    ensure!(
        ran.stderr.contains("CLAUDE_CODE_USE_BEDROCK") && ran.stderr.contains("claude_code_use_vertex"),
        "{}",
        ran.stderr
    );
    Ok(())
}

fn other_modes() -> Result<()> {
    for (agent, arguments, told) in [
        ("pi", &["--mode", "rpc"][..], "--mode"),
        ("pi", &["--session", "x"], "--session"),
        ("codex", &["resume", "--last"], "resume"),
        ("codex", &["-c", "chatgpt_base_url=http://elsewhere"], "chatgpt_base_url"),
        ("codex", &["--sandbox", "read-only"], "--sandbox"),
        ("claude", &["--input-format", "stream-json"], "--input-format"),
        ("claude", &["--session-id", "mine"], "no UUID"),
    ] {
        let run = BoxRun::at_door("/nowhere/door.sock".into())?.agent(agent).prompt("hi");
        let run = arguments.iter().fold(run, |run, argument| run.argument(argument));
        let ran = run.run(SOON)?.expect_code(64).with_context(|| format!("{agent} {arguments:?}"))?;
        ensure!(ran.stderr.contains(told) && ran.stderr.contains(agent), "{}", ran.stderr);
    }
    Ok(())
}

fn asked_for(command: &mut Command, agent: &str) -> Command {
    command.args(["--agent", agent, "--unsafe-open-network", "hi"]);
    std::mem::replace(command, Command::new("true"))
}

/// boxd under a name, at the door of the run and with its folders.
fn command(name: &Path, run: &BoxRun, agents: &Path) -> Command {
    let mut command = Command::new(name);
    command.env_clear().current_dir(run.workspace_folder());
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", run.home());
    command.env("BOXGATE_AGENT_PATH", agents.join("node_modules/.bin"));
    command.arg("--door").arg(run.door_socket()).arg("--session").arg(run.session_folder());
    command
}

fn chosen(house: &House, at: &str, option: Option<&str>, variable: Option<&str>, every: &[FakeAgents]) -> Result<Ran> {
    let run = BoxRun::new(house, at)?;
    let mut command = Command::new(Tools::boxd()?);
    command.env_clear().current_dir(run.workspace_folder());
    command.env("PATH", "/usr/bin:/bin").env("HOME", run.home());
    let folders = every.iter().map(|fakes| fakes.folder().join("node_modules/.bin"));
    command.env("BOXGATE_AGENT_PATH", std::env::join_paths(folders).context("join the fakes")?);
    if let Some(value) = variable {
        command.env("BOXGATE_AGENT", value);
    }
    command.args(["run", "--unsafe-open-network"]).arg("--door").arg(house.door(at));
    command.arg("--session").arg(run.session_folder());
    if let Some(agent) = option {
        command.args(["--agent", agent]);
    }
    command.arg("hi");
    process::run(command, None, SOON)
}

fn every_fake() -> Result<Vec<FakeAgents>> {
    Agent::ALL.into_iter().map(fake).collect()
}

/// Says its name and its arguments.
fn fake(agent: Agent) -> Result<FakeAgents> {
    let list = "[ \"$1\" != debug ] || { echo '{\"models\":[{\"slug\":\"x\"}]}'; exit 0; }";
    FakeAgents::shell_as(agent, &format!("{list}\necho {agent} \"$@\""))
}

/// A house with a box for each agent.
fn house() -> Result<House> {
    let login =
        Real::Login { token: "REAL-login-of-the-names".into(), account: "11111111-2222-4333-8444-555555555555".into() };
    let house = House::builder().secret(anthropic()).secret_for(Provider::OpenaiCodex, login).no_boxes();
    let house =
        Agent::ALL.iter().fold(house, |house, agent| house.add_box(agent.as_str(), &format!("agent = \"{agent}\"\n")));
    house.open_network().start()
}

fn anthropic() -> Real {
    Real::Bearer("sk-ant-oat01-REAL-of-the-names".into())
}

const BOTH: &[Need] = &[Need::Gateway, Need::Boxd];
const ISOLATED: &[Need] = &[Need::Gateway, Need::Boxd, Need::Namespaces];
const STOCK: &[Need] = &[Need::Boxd, Need::Agent, Need::Codex, Need::Pi];
const SOON: Duration = Duration::from_secs(30);
