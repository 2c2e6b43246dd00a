//! The command line. What it says is checked by [`crate::inputs`]; clap's own exit codes never reach the caller.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use box_spec::Agent;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::exit;

/// The entrypoint of a box: runs one agent, governed by the house.
#[derive(Parser, Debug)]
#[command(name = "boxd", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) isolation: IsolateArguments,
    #[command(subcommand)]
    pub(crate) deed: Deed,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Deed {
    /// Claims a run, starts the agent with one prompt, and reports how it ended.
    Run(Box<RunArguments>),
    /// Runs a command as the agent would run: in the run that is under way in this box, else in one of its own.
    Exec(Box<ExecArguments>),
    /// Tells what this box is and whether a run would start in it; claims nothing.
    Doctor(DoctorArguments),
    /// Prints the version of boxd.
    Version,
}

/// The options of `--isolate`, which stand before `run`.
#[derive(Args, Debug)]
pub(crate) struct IsolateArguments {
    #[command(flatten)]
    pub(crate) made: BoxArguments,
    /// The door's socket on the host.
    #[arg(long, value_name = "PATH", requires = "isolate")]
    pub(crate) door: Option<PathBuf>,
    /// The folder that the box sees as /session; by default one for each workspace in the caller's state folder.
    #[arg(long, value_name = "DIR", requires = "isolate")]
    pub(crate) session: Option<PathBuf>,
}

/// The box that boxd makes.
#[derive(Args, Debug)]
pub(crate) struct BoxArguments {
    /// Makes the box first: namespaces, a root of its own, no network, no power. docs/isolate.md says what is in it.
    #[arg(long)]
    pub(crate) isolate: bool,
    /// The folder that the box sees as /workspace; by default the current one.
    #[arg(long, value_name = "DIR", requires = "isolate")]
    pub(crate) workspace: Option<PathBuf>,
    /// A folder that the box sees read-only as /opt/boxgate/agents: the one that holds node_modules. Repeatable.
    #[arg(long = "agent-dir", value_name = "DIR", requires = "isolate")]
    pub(crate) agent_dirs: Vec<PathBuf>,
    /// A file or folder that the box sees read-only at the same place. Repeatable.
    #[arg(long = "ro", value_name = "PATH", requires = "isolate")]
    pub(crate) read_only: Vec<PathBuf>,
    /// The box's uid; only root can choose it.
    #[arg(long, value_name = "N", requires = "isolate")]
    pub(crate) uid: Option<u32>,
}

/// Runs one agent, governed by the house: what `boxd run` does under the name of run-claude, run-codex or run-pi.
#[derive(Parser, Debug)]
#[command(disable_help_flag = true)]
struct Named {
    #[command(flatten)]
    made: BoxArguments,
    /// Prints the version of the agent, without a house.
    #[arg(long)]
    version: bool,
    #[command(flatten)]
    run: RunArguments,
}

/// What a run is told, be it an agent's or a command's.
#[derive(Args, Debug)]
pub(crate) struct LaunchArguments {
    /// pi, claude or codex: also whose credentials a command has. Also BOXGATE_AGENT; without either the agent that the
    /// house names for this box.
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// The door's socket. Also BOXGATE_DOOR; by default /run/boxgate/door/door.sock.
    #[arg(long, value_name = "PATH")]
    pub(crate) door: Option<PathBuf>,
    /// Where the agent's home and the transcripts are kept. Also BOXGATE_SESSION; by default /session, else ~/.boxgate.
    #[arg(long, value_name = "DIR")]
    pub(crate) session: Option<PathBuf>,
    /// One more variable for the agent or the command, NAME=VALUE. Repeatable. Names that the launch sets are refused.
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Runs although the box has a network of its own: what is sent there is neither judged nor recorded.
    #[arg(long)]
    pub(crate) unsafe_open_network: bool,
    /// Leaves one layer of hardening out: filter, capabilities, scope or limits. The reason is written down by the house,
    /// which must allow it. Repeatable. Not for a command beside a run that is under way.
    #[arg(long = "unsafe-without", value_name = "LAYER=REASON")]
    pub(crate) unsafe_without: Vec<String>,
}

// Only the long form of help: a prompt such as "-h is broken" must be refused, not answered with help and success.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct RunArguments {
    /// Print help.
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
    #[command(flatten)]
    pub(crate) launch: LaunchArguments,
    /// The agent that boxd's own name stands for.
    #[arg(skip)]
    pub(crate) called_for: Option<Agent>,
    /// Text that is added to the agent's own system text. Also BOXGATE_SYSTEM.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) system: Option<OsString>,
    /// What to print: the agent's own bytes, or the answer alone (the default on a terminal).
    #[arg(long, value_enum)]
    pub(crate) output: Option<Output>,
    /// The prompt, where it begins with a dash.
    #[arg(long = "prompt", value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt_option: Option<String>,
    /// A file that holds the prompt; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt_file: Option<PathBuf>,
    /// The prompt.
    pub(crate) prompt: Option<String>,
    /// Arguments for the agent, after `--`.
    #[arg(last = true, value_name = "AGENT-ARGS")]
    pub(crate) agent_arguments: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ExecArguments {
    #[command(flatten)]
    pub(crate) launch: LaunchArguments,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct DoctorArguments {
    /// Tries what a hostile agent would, and tells what came of each attempt.
    #[arg(long)]
    pub(crate) attack: bool,
    /// With --attack: one more place that must be out of reach, as ADDRESS:PORT (TCP) or as the path of a socket or file.
    /// Repeatable.
    #[arg(long, value_name = "PLACE", requires = "attack")]
    pub(crate) reach: Vec<String>,
    /// The door's socket. Also BOXGATE_DOOR; by default /run/boxgate/door/door.sock.
    #[arg(long, value_name = "PATH")]
    pub(crate) door: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Output {
    Native,
    Text,
}

impl Cli {
    /// Reads the arguments; help and errors are printed here and end the program.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, ExitCode> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let read = match arguments.first().and_then(|name| agent_of(name)) {
            Some(agent) => Named::try_parse_from(arguments).map(|named| named.into_run(agent)),
            None => Self::try_parse_from(arguments.iter()).map_err(|told| match told.use_stderr() {
                true => of_no_agent(&arguments).unwrap_or(told),
                false => told,
            }),
        };
        read.map_err(|told| {
            let code = if told.use_stderr() { exit::USAGE } else { 0 };
            let _nobody_reads = told.print();
            ExitCode::from(code)
        })
    }
}

impl Named {
    fn into_run(self, agent: Agent) -> Cli {
        let Self { made, version, mut run } = self;
        run.called_for = Some(agent);
        if version {
            run.agent_arguments.push("--version".to_owned());
        }
        Cli { isolation: IsolateArguments { made, door: None, session: None }, deed: Deed::Run(Box::new(run)) }
    }
}

/// What is wrong where boxd is called `run-` and something, and what follows is no command either.
fn of_no_agent(arguments: &[OsString]) -> Option<clap::Error> {
    let name = Path::new(arguments.first()?).file_name()?.to_str()?;
    let asked = name.strip_prefix("run-")?;
    let text =
        format!("boxd is called as {name:?}, and {asked:?} is no agent: call it run-pi, run-claude or run-codex");
    Some(Cli::command().error(clap::error::ErrorKind::InvalidValue, text))
}

/// The agent of a program that is called run-claude, run-codex or run-pi.
fn agent_of(program: &OsStr) -> Option<Agent> {
    Path::new(program).file_name()?.to_str()?.strip_prefix("run-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use box_spec::Agent;

    use super::{Cli, Deed, RunArguments};

    fn read(arguments: &[&str]) -> Option<RunArguments> {
        let arguments = ["boxd", "run"].iter().chain(arguments).map(Into::into);
        match Cli::read(arguments).ok()?.deed {
            Deed::Run(run) => Some(*run),
            Deed::Exec(_) | Deed::Doctor(_) | Deed::Version => None,
        }
    }

    #[test]
    fn a_prompt_and_the_agents_own_arguments_are_told_apart() {
        let run = read(&["--agent", "claude", "say hi", "--", "--model", "x"]).expect("good");
        assert_eq!(run.prompt.as_deref(), Some("say hi"));
        assert_eq!(run.agent_arguments, ["--model", "x"]);
    }

    #[test]
    fn a_command_has_all_that_follows_it() {
        let read = |line: &str| {
            let cli = Cli::read(line.split(' ').map(Into::into)).ok()?;
            match cli.deed {
                Deed::Exec(exec) => Some((exec.launch.session, exec.command)),
                Deed::Run(_) | Deed::Doctor(_) | Deed::Version => None,
            }
        };
        for (line, command) in [
            ("boxd exec --session /s -- sh -c x", &["sh", "-c", "x"][..]),
            ("boxd exec --session /s sh --session /t", &["sh", "--session", "/t"]),
            ("boxd exec --session /s -- --odd -- x", &["--odd", "--", "x"]),
        ] {
            let (session, found) = read(line).expect(line);
            assert_eq!((session.as_deref(), found.len()), (Some("/s".as_ref()), command.len()), "{line}");
            assert!(found.iter().zip(command).all(|(found, want)| found == want), "{line}");
        }
        for bad in ["boxd exec", "boxd exec --", "boxd exec --no-such sh"] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_prompt_that_begins_with_a_dash_has_an_option_of_its_own() {
        assert_eq!(read(&["--prompt=--help me"]).expect("good").prompt_option.as_deref(), Some("--help me"));
        for bad in [&["--help-me"][..], &["--agnet=claude", "hi"], &["one", "two"]] {
            assert!(read(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn under_an_agents_name_boxd_is_that_run() {
        let read = |line: &str| {
            let cli = Cli::read(line.split(' ').map(Into::into)).ok()?;
            match cli.deed {
                Deed::Run(run) => Some((cli.isolation.made.isolate, run)),
                Deed::Exec(_) | Deed::Doctor(_) | Deed::Version => None,
            }
        };
        for (line, agent) in [
            ("/usr/bin/run-claude hi", Some(Agent::Claude)),
            ("run-codex hi", Some(Agent::Codex)),
            ("./run-pi hi", Some(Agent::Pi)),
            ("run-gemini run hi", None),
            ("boxd run hi", None),
        ] {
            let (_, run) = read(line).expect(line);
            assert_eq!((run.called_for, run.prompt.as_deref()), (agent, Some("hi")), "{line}");
        }
        let (isolate, run) = read("run-pi --isolate --door /d --ro /r hi -- --model x").expect("good");
        assert!(isolate && run.launch.door.is_some() && run.agent_arguments == ["--model", "x"]);
        assert_eq!(read("run-pi --version").expect("good").1.agent_arguments, ["--version"]);
        assert!(read("run-pi --ro /r hi").is_none(), "an option of the box without a box");
        assert!(read("run-gemini hi").is_none(), "no agent, and no command");
        assert!(read("run-pi -h").is_none() && read("run-pi -V").is_none());
    }
}
