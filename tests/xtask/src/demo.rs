//! `cargo xtask demo`: a governed run of each agent from nothing, its answer, and the ledger's story of it.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::build;
use crate::house::{House, Model};
use crate::provider::Provider;
use crate::steps::{MINUTE, installed, must, say};

#[derive(Args)]
pub(crate) struct Options {
    /// What the agents are asked.
    prompt: Option<String>,
    /// One agent alone.
    #[arg(long, value_parser = AGENTS)]
    agent: Option<String>,
    /// Ask a provider itself, with the key or login token in this variable of the environment.
    #[arg(long, value_name = "VARIABLE")]
    real: Option<String>,
    /// Whose that is, where it does not say so itself.
    #[arg(long, requires = "real")]
    provider: Option<Provider>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let (model, agents) = chosen(options)?;
    say(&format!("governed runs of the stock {}, in boxes without network and without a secret", agents.join(", ")));
    check_machine()?;
    build::agents()?;
    build::programs()?;
    let boxd = build::boxd()?;
    say("start the house");
    let house = House::start(&model, &agents)?;
    let prompt = match (&options.prompt, &model) {
        (Some(prompt), _) => prompt,
        (None, Model::StandIn) => SCRIPTED,
        (None, Model::Real { .. }) => ASKED,
    };
    say(&format!("the prompt: {prompt}"));
    for agent in &agents {
        must(&format!("{agent} runs; its answer:"), &mut in_box(&house, &model, &boxd, agent, prompt), 15 * MINUTE)?;
        if let Ok(text) = std::fs::read_to_string(house.path(agent).join("workspace/from-the-box.txt")) {
            say(&format!("from-the-box.txt, written by {agent} into its workspace:\n{}", text.trim_end()));
        }
        let told = must(&format!("the ledger of {agent}'s run:"), &mut story(&house, agent)?, MINUTE)?;
        if !told.contains("verdict=completed") {
            bail!("the house does not call {agent}'s run completed; the last line says why");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the models are, and which agents can use them.
fn chosen(options: &Options) -> Result<(Model, Vec<&str>)> {
    let (model, mut agents) = match &options.real {
        None => (Model::StandIn, AGENTS.to_vec()),
        Some(variable) => {
            let value = std::env::var(variable).with_context(|| format!("read {variable} from the environment"))?;
            let Some(provider) = options.provider.or_else(|| Provider::of(&value)) else {
                bail!("{variable} does not say whose it is: add --provider anthropic, openai or openai-codex");
            };
            (Model::Real { provider, variable: variable.clone() }, provider.agents().to_vec())
        }
    };
    if let Some(agent) = options.agent.as_deref() {
        if !agents.contains(&agent) {
            bail!("{agent} cannot use that credential: it is for {}", agents.join(" and "));
        }
        agents = vec![agent];
    }
    Ok((model, agents))
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

fn in_box(house: &House, model: &Model, boxd: &Path, agent: &str, prompt: &str) -> Command {
    let folder = house.path(agent);
    let mut command = Command::new(boxd);
    command.arg("--isolate").arg("--workspace").arg(folder.join("workspace"));
    command.arg("--session").arg(folder.join("session"));
    command.arg("--agent-dir").arg(build::workspace().join("box")).arg("run").arg("--door").arg(house.door(agent));
    command.args(["--agent", agent, "--output", "text", prompt]);
    if agent == "pi" && matches!(model, Model::StandIn) {
        // Of the three secrets, the one that no other agent of the demo uses.
        command.args(["--", "--provider", "openai", "--model", "gpt-5.2"]);
    }
    for name in ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"] {
        command.env_remove(name);
    }
    if let Model::Real { variable, .. } = model {
        command.env_remove(variable);
    }
    command
}

/// The story of the box's run: its name is the folder in the session.
fn story(house: &House, agent: &str) -> Result<Command> {
    let runs = house.path(agent).join("session/runs");
    let entry = std::fs::read_dir(&runs).with_context(|| format!("read {}", runs.display()))?.next();
    let run = entry.context("no run is in the session")?.context("read a folder")?.file_name();
    let mut command = Command::new(build::target()?.join("debug/gateway"));
    command.args(["ledger", "tail", "--story", "--config"]).arg(house.config()).arg("--run").arg(run);
    Ok(command)
}

const AGENTS: [&str; 3] = ["claude", "codex", "pi"];
/// The stand-in answers the markers: a shell call first, then the text.
///
/// The secrets are searched for by a pattern that does not match itself: the prompt stands in the session folder, too.
const SCRIPTED: &str = "Look around and tell me what you see. \
    <<sh:{ echo \"I am $(id -un) on $(uname -n).\"; \
    echo \"Interfaces: $(tail -n +3 /proc/net/dev | cut -d: -f1 | xargs)\"; \
    bash -c ': </dev/tcp/192.0.2.1/443' 2>/dev/null && echo 'The network is open!' || echo 'No way out but the door.'; \
    grep -rqs 'the-real-one-that-never-ent[e]rs' \"$HOME\" /session /proc/self/environ && echo 'A secret is here!' \
    || echo 'No secret is here.'; } > from-the-box.txt>>\
    <<text:I looked around and wrote what I saw into from-the-box.txt.>>";
const ASKED: &str = "Look around: who are you, which network interfaces are there? Write it into from-the-box.txt, then tell me in one sentence.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Model, Options, Provider, chosen};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn read(line: &str) -> Result<String, String> {
        let line = Line::try_parse_from(["demo"].into_iter().chain(line.split_whitespace()));
        let options = line.map_err(|fault| fault.to_string())?.options;
        let (model, agents) = chosen(&options).map_err(|fault| format!("{fault:#}"))?;
        let provider = match model {
            Model::StandIn => "stand-in",
            Model::Real { provider, .. } => Provider::name(provider),
        };
        Ok(format!("{provider}: {}", agents.join(" ")))
    }

    #[test]
    fn the_agents_are_those_that_can_use_the_credential() {
        // A variable that every test has, and whose value is nobody's credential.
        for (line, want) in [
            ("", "stand-in: claude codex pi"),
            ("--agent codex", "stand-in: codex"),
            ("--real CARGO_MANIFEST_DIR --provider anthropic", "anthropic: claude pi"),
            ("--real CARGO_MANIFEST_DIR --provider openai-codex --agent pi", "openai-codex: pi"),
        ] {
            assert_eq!(read(line).as_deref(), Ok(want), "{line}");
        }
        for (line, said) in [
            ("--real CARGO_MANIFEST_DIR", "add --provider"),
            ("--real CARGO_MANIFEST_DIR --provider openai --agent claude", "it is for codex and pi"),
            ("--real BOXGATE_NO_SUCH_VARIABLE", "BOXGATE_NO_SUCH_VARIABLE"),
            ("--agent gemini", "gemini"),
            ("--provider openai", "--real"),
        ] {
            assert!(read(line).is_err_and(|fault| fault.contains(said)), "{line}");
        }
    }
}
