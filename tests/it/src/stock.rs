//! The stock agents outside of an isolated box: what leaves, what stays in the workspace, and what does not start.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use box_spec::{Agent, Provider};
use harness::files::{put, put_deep};
use harness::{Case, House, Need, case};
use serde_json::json;
use standin::{Options, StandIn};

use crate::seeds::{anthropic, boxes, key, launch, login, with_open_input};

pub(crate) const CASES: &[Case] = &[
    case("stock::r17_codex_ends_although_standard_input_is_open", open_pipe).needs(STOCK),
    case("stock::a_system_text_is_sent_and_leaves_the_workspace_clean", system_text).needs(STOCK),
    case("stock::each_agent_makes_its_model_calls_and_no_others", quiet).needs(STOCK),
    case("stock::a_workspace_starts_nothing_by_itself", starts_nothing).needs(STOCK),
    case("stock::the_users_model_survives", chosen_model).needs(STOCK),
];

fn open_pipe() -> Result<()> {
    let (_standin, house) = stock(false)?;
    let launch = launch(&house, Agent::Codex)?.prompt("<<text:patient>>").output("text");
    let told = with_open_input(&launch, Duration::from_secs(5))?;
    ensure!(told.trim_end() == "patient", "{told}");
    Ok(())
}

fn system_text() -> Result<()> {
    let (standin, house) = stock(false)?;
    let mark = "be-kind-mark\n\"quoted\" \\ <<END>> ''' ---";
    for agent in Agent::ALL {
        let launch = launch(&house, agent)?.prompt("<<text:fine>>").output("text").env("BOXGATE_SYSTEM", mark);
        ensure!(git(launch.workspace_folder(), &["init", "-q"])?.is_empty(), "git init");
        let ran = launch.run(LONG)?.expect_code(0)?;
        ensure!(ran.text().trim_end() == "fine", "{agent}: {}", ran.text());
        let status = git(launch.workspace_folder(), &["status", "--porcelain", "--ignored"])?;
        ensure!(status.is_empty(), "{agent} has left {status}");
        ensure!(standin.seen().iter().any(|seen| seen.text().contains("be-kind-mark")), "{agent} has not sent it");
    }
    Ok(())
}

/// On both transports: all that reaches the providers, and all that the ledger saw.
fn quiet() -> Result<()> {
    for websocket in [true, false] {
        let (standin, house) = stock(websocket)?;
        for agent in Agent::ALL {
            let before = standin.seen().len();
            let ran = launch(&house, agent)?.prompt("<<text:quiet>>").output("text").run(LONG)?.expect_code(0)?;
            ensure!(ran.text().trim_end() == "quiet", "{agent}: {}", ran.text());
            let seen: Vec<String> = standin.seen()[before..].iter().map(|seen| seen.path.clone()).collect();
            let model = ["/v1/messages?beta=true", "/backend-api/codex/responses"];
            ensure!(seen.iter().all(|path| model.contains(&path.as_str())), "{agent}: {seen:?}");
            ensure!(seen.len() == 1 || websocket && agent == Agent::Codex, "{agent}: {seen:?}");
        }
        let refused: Vec<_> = house.ledger()?.into_iter().filter(|line| line["reason"] != json!(null)).collect();
        let expected = refused.iter().all(|line| line["reason"] == "upgrade-refused" && !websocket);
        ensure!(expected, "{refused:?}");
    }
    Ok(())
}

fn starts_nothing() -> Result<()> {
    let (_standin, house) = stock(true)?;
    for (agent, arguments, starts) in [
        (Agent::Codex, &[][..], false),
        (Agent::Codex, &["--trust"], true),
        (Agent::Pi, &[], false),
        (Agent::Pi, &["--approve", "-e", "builtin:mcp"], true),
        (Agent::Claude, &["--mcp-config", "{\"mcpServers\":{}}"], false),
    ] {
        let launch = launch(&house, agent)?.prompt("<<text:fine>>").output("text");
        let workspace = launch.workspace_folder().to_owned();
        let mark = workspace.join("started");
        let server = json!({"command": "/bin/sh", "args": ["-c", format!("touch {}; sleep 2", mark.display())]});
        let servers = json!({"mcpServers": {"of-the-workspace": server}}).to_string();
        put(&workspace.join(".mcp.json"), servers.as_bytes(), 0o644)?;
        put_deep(&workspace.join(".pi/mcp.json"), servers.as_bytes(), 0o644)?;
        let codex = format!("[mcp_servers.x]\ncommand = {}\nargs = {}\n", server["command"], server["args"]);
        put_deep(&workspace.join(".codex/config.toml"), codex.as_bytes(), 0o644)?;
        let launch = arguments.iter().fold(launch, |launch, argument| launch.argument(argument));
        let ran = launch.run(LONG)?.expect_code(0)?;
        ensure!(ran.text().trim_end() == "fine", "{agent}: {}", ran.text());
        ensure!(mark.exists() == starts, "{agent} {arguments:?}: started {}", mark.exists());
    }
    Ok(())
}

fn chosen_model() -> Result<()> {
    let (standin, house) = stock(false)?;
    for (agent, file, text, arguments, model) in [
        (Agent::Codex, "config.toml", "model = \"gpt-of-the-file\"\n", &[][..], "gpt-of-the-file"),
        (Agent::Codex, "config.toml", "model = \"gpt-of-the-file\"\n", &["--model", "gpt-5.5"], "gpt-5.5"),
        (
            Agent::Pi,
            "settings.json",
            "{\"defaultProvider\":\"openai-codex\",\"defaultModel\":\"gpt-6-luna\",\"defaultThinkingLevel\":\"low\"}",
            &[],
            "gpt-6-luna",
        ),
        (Agent::Pi, "settings.json", "{}", &["--model", "anthropic/claude-sonnet-4-5"], "claude-sonnet-4-5"),
        (Agent::Claude, "unused", "", &["--model", "claude-sonnet-4-5"], "claude-sonnet-4-5"),
    ] {
        let mut launch = launch(&house, agent)?.prompt("<<text:fine>>").output("text");
        put_deep(&launch.session_folder().join(agent.as_str()).join(file), text.as_bytes(), 0o600)?;
        launch = arguments.iter().fold(launch, |launch, argument| launch.argument(argument));
        let before = standin.seen().len();
        // Twice: what the first launch writes must keep the choice.
        for _ in 0..2 {
            launch.run(LONG)?.expect_code(0).with_context(|| format!("{agent} with {model}"))?;
        }
        let asked = standin.seen().split_off(before);
        let asked: Vec<_> = asked.iter().filter(|seen| seen.method == "POST").collect();
        let all = asked.iter().all(|seen| seen.text().contains(&format!("\"{model}\"")));
        ensure!(asked.len() == 2 && all, "{agent} has not asked {model} twice: {}", asked.len());
    }
    Ok(())
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = std::process::Command::new("git").arg("-C").arg(folder).args(arguments).output().context("run git")?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// A house that serves every provider by one stand-in, over WebSocket where the grants allow it.
fn stock(websocket: bool) -> Result<(StandIn, House)> {
    let real = [anthropic(), login(), key()];
    let standin = StandIn::start(Options { real: real.to_vec(), ..Options::default() })?;
    let [anthropic, login, key] = real;
    let house = House::builder()
        .serve(&standin, Provider::Anthropic, anthropic)
        .serve(&standin, Provider::OpenaiCodex, login)
        .serve(&standin, Provider::Openai, key)
        .websocket(websocket);
    Ok((standin, boxes(house).start()?))
}

const STOCK: &[Need] = &[Need::Gateway, Need::Boxd, Need::Agent, Need::Codex, Need::Pi, Need::Git];
const LONG: Duration = Duration::from_secs(60);
