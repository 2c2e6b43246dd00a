//! `cargo xtask demo`: one governed run from nothing, the answer, and the ledger's story.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};
use clap::Args;

use crate::build;
use crate::house::{House, Model};
use crate::steps::{MINUTE, installed, must, say};

#[derive(Args)]
pub(crate) struct Options {
    /// What the agent is asked.
    prompt: Option<String>,
    /// Ask the provider itself, with the key or login token in this variable of the environment.
    #[arg(long, value_name = "VARIABLE")]
    real: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    say("a governed run: the stock claude, in a box without network and without a secret");
    check_machine()?;
    build::agents()?;
    build::programs()?;
    let boxd = build::boxd()?;
    let model = options.real.clone().map_or(Model::StandIn, Model::Real);
    say("start the house");
    let house = House::start(&model)?;
    let prompt = match (&options.prompt, &model) {
        (Some(prompt), _) => prompt,
        (None, Model::StandIn) => SCRIPTED,
        (None, Model::Real(_)) => ASKED,
    };
    say(&format!("the prompt: {prompt}"));
    must("the box runs; its answer:", &mut in_box(&house, &boxd, prompt), 15 * MINUTE)?;
    if let Ok(text) = std::fs::read_to_string(house.path("workspace/from-the-box.txt")) {
        say(&format!("from-the-box.txt, written by the agent into the workspace:\n{}", text.trim_end()));
    }
    must("the ledger of the run:", &mut story(&house)?, MINUTE)?;
    Ok(ExitCode::SUCCESS)
}

fn check_machine() -> Result<()> {
    if !cfg!(target_os = "linux") {
        bail!("boxes are made of Linux namespaces: run this on Linux");
    }
    for program in ["cargo", "node", "npm"] {
        if !installed(program) {
            bail!("{program} is not installed");
        }
    }
    Ok(())
}

fn in_box(house: &House, boxd: &Path, prompt: &str) -> Command {
    let mut command = Command::new(boxd);
    command
        .arg("--isolate")
        .arg("--workspace")
        .arg(house.path("workspace"))
        .arg("--session")
        .arg(house.path("session"));
    command.arg("--agent-dir").arg(build::workspace().join("box")).arg("run").arg("--door").arg(house.door());
    command.args(["--agent", "claude", "--output", "text", prompt]);
    for name in ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"] {
        command.env_remove(name);
    }
    command
}

fn story(house: &House) -> Result<Command> {
    let mut command = Command::new(build::target()?.join("debug/gateway"));
    command.args(["ledger", "tail", "--story", "--config"]).arg(house.config());
    Ok(command)
}

/// The stand-in answers the markers: a shell call first, then the text.
///
/// The secret is searched for by a pattern that does not match itself: the prompt stands in the session folder, too.
const SCRIPTED: &str = "Look around and tell me what you see. \
    <<sh:{ echo \"I am $(id -un) on $(uname -n).\"; \
    echo \"Interfaces: $(tail -n +3 /proc/net/dev | cut -d: -f1 | xargs)\"; \
    bash -c ': </dev/tcp/192.0.2.1/443' 2>/dev/null && echo 'The network is open!' || echo 'No way out but the door.'; \
    grep -rqs 'the-real-one-that-never-ent[e]rs' \"$HOME\" /session /proc/self/environ && echo 'A secret is here!' \
    || echo 'No secret is here.'; } > from-the-box.txt>>\
    <<text:I looked around and wrote what I saw into from-the-box.txt.>>";
const ASKED: &str = "Look around: who are you, which network interfaces are there? Write it into from-the-box.txt, then tell me in one sentence.";
