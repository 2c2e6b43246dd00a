//! Arguments → command → exit code.

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use box_spec::{BoxId, Provider, RunId};
use clap::{Args, Parser, Subcommand};

use gateway::cli::{self, Exit};

/// The one door between boxes and the world: judges, records, and puts the real credential in.
#[derive(Parser)]
#[command(name = "gateway", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the boxes of a configuration until SIGTERM or SIGINT
    Serve(Of),
    /// Check a configuration and print every fault of it
    Check(Of),
    /// Say what would be said to a request of a box, why, and what would allow it; 77 where it is refused
    Explain(cli::explain::Arguments),
    /// Judge the recorded requests anew by another configuration; 0 where nothing changes, 1 where something does, 2 where
    /// nothing is known to change but not all is known
    Replay(cli::replay::Arguments),
    /// Print the smallest grants that would have let the refused calls of a run through
    Suggest(cli::suggest::Arguments),
    /// List the presets that a grant can name, or show what one means
    Presets {
        #[command(subcommand)]
        command: PresetsCommand,
    },
    /// Show what a running gateway has, holds and misses
    Status {
        #[command(flatten)]
        house: Of,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Say whether a running gateway is ready, also by the exit code: 0, or 69
    Ready(Of),
    /// Have a running gateway read its configuration again
    Reload(Of),
    /// List the runs, stop one, or free a door that was shut
    Runs {
        #[command(subcommand)]
        command: RunsCommand,
    },
    /// List the credentials, or try whether they can be used
    Credential {
        #[command(subcommand)]
        command: CredentialCommand,
    },
    /// Log in at a provider, for a house that has no login of the host
    Login {
        /// Whose: anthropic (a code is pasted here) or openai (a code is shown here)
        #[arg(value_name = "PROVIDER", value_parser = provider)]
        provider: Provider,
        /// The [[secret]] that it is for, where several could be meant
        #[arg(long, value_name = "NAME")]
        secret: Option<String>,
        #[command(flatten)]
        house: Of,
    },
    /// Read and verify the ledger
    Ledger(cli::ledger::Arguments),
}

/// Whose house.
#[derive(Args)]
struct Of {
    /// The house's configuration, a TOML file
    #[arg(long, value_name = "FILE", env = "BOXGATE_CONFIG")]
    config: PathBuf,
}

#[derive(Subcommand)]
enum RunsCommand {
    /// List the doors and the runs that hold them
    List(Of),
    /// End a run: what it has open is cut, and its agent told to end
    Stop {
        #[arg(value_name = "RUN")]
        run: RunId,
        #[command(flatten)]
        house: Of,
    },
    /// Free the door of a box whose run was lost
    Release {
        #[arg(value_name = "BOX")]
        box_id: BoxId,
        #[command(flatten)]
        house: Of,
    },
}

#[derive(Subcommand)]
enum PresetsCommand {
    /// List the presets, one a line
    List,
    /// Print the grants that a preset stands for, as TOML
    Show {
        #[arg(value_name = "PRESET")]
        name: String,
        /// A [[secret]] of yours, where the preset takes one
        #[arg(long, value_name = "NAME")]
        secret: Option<String>,
    },
}

#[derive(Subcommand)]
enum CredentialCommand {
    /// List the credentials: name, provider, kind, end, source, state; no value
    List(Of),
    /// Refresh a login that is due and say whether it, or every credential, can be used; asks no model
    Test {
        #[arg(value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        house: Of,
    },
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no faults; clap prints each where it belongs.
            let wrong = error.use_stderr();
            let _ = error.print();
            return if wrong { Exit::Usage } else { Exit::Done }.into();
        }
    };
    log_to_stderr();
    match arguments.command {
        Command::Serve(Of { config }) => match cli::serve::run(&config) {
            Ok(()) => Exit::Done,
            Err(fault) => failed(&fault, fault.exit()),
        },
        Command::Check(Of { config }) => cli::check::run(&config, &mut std::io::stdout(), &mut std::io::stderr())
            .unwrap_or_else(|fault| failed(&fault, Exit::Internal)),
        Command::Explain(arguments) => match cli::explain::run(arguments) {
            Ok((exit, text)) => match said(Ok((true, text))) {
                Exit::Done => exit,
                fault => fault,
            },
            Err(fault) => failed(&fault, Exit::Usage),
        },
        Command::Replay(arguments) => match cli::replay::run(&arguments, &mut std::io::stdout().lock()) {
            Ok(exit) => exit,
            Err(fault) => failed(&fault, fault.exit()),
        },
        Command::Suggest(arguments) => match cli::suggest::run(&arguments, &mut std::io::stdout().lock()) {
            Ok(exit) => exit,
            Err(fault) => failed(&fault, fault.exit()),
        },
        Command::Presets { command: PresetsCommand::List } => said(Ok((true, cli::presets::list()))),
        Command::Presets { command: PresetsCommand::Show { name, secret } } => {
            match cli::presets::show(&name, secret.as_deref()) {
                Some(text) => said(Ok((true, text))),
                None => {
                    complain(&format!("no preset is called {name:?}; `gateway presets list` shows which there are"));
                    Exit::Usage
                }
            }
        }
        Command::Status { house: Of { config }, json } => {
            with_socket(&config, |socket| said(cli::status::run(socket, json).map(|text| (true, text))))
        }
        Command::Ready(Of { config }) => with_socket(&config, |socket| said(cli::ready::run(socket))),
        Command::Runs { command: RunsCommand::List(Of { config }) } => {
            with_socket(&config, |socket| said(cli::runs::list(socket).map(|text| (true, text))))
        }
        Command::Reload(Of { config }) => with_socket(&config, |socket| said(cli::reload::run(socket))),
        Command::Runs { command: RunsCommand::Stop { run, house: Of { config } } } => {
            with_socket(&config, |socket| said(cli::runs::stop(socket, &run)))
        }
        Command::Runs { command: RunsCommand::Release { box_id, house: Of { config } } } => {
            with_socket(&config, |socket| said(cli::runs::release(socket, &box_id)))
        }
        Command::Credential { command: CredentialCommand::List(Of { config }) } => {
            with_socket(&config, |socket| said(cli::credential::list(socket).map(|text| (true, text))))
        }
        Command::Credential { command: CredentialCommand::Test { name, house: Of { config } } } => {
            with_socket(&config, |socket| said(cli::credential::test(socket, name.as_deref())))
        }
        Command::Login { provider, secret, house: Of { config } } => {
            match cli::login::run(&config, provider, secret.as_deref(), &mut std::io::stdout()) {
                Ok(()) => Exit::Done,
                Err(fault) => failed(&fault, fault.exit()),
            }
        }
        Command::Ledger(arguments) => cli::ledger::run(&arguments),
    }
    .into()
}

/// A login at OpenAI is one of ChatGPT.
fn provider(name: &str) -> Result<Provider, &'static str> {
    match name {
        "anthropic" => Ok(Provider::Anthropic),
        "openai" | "openai-codex" => Ok(Provider::OpenaiCodex),
        _ => Err("a login is had at anthropic or openai"),
    }
}

fn with_socket(config: &std::path::Path, then: impl FnOnce(&std::path::Path) -> Exit) -> Exit {
    match gateway::config::places(config) {
        Ok(places) => then(&places.operator_socket),
        Err(faults) => {
            complain(&faults.to_string());
            Exit::Usage
        }
    }
}

fn said(answer: Result<(bool, String), cli::ask::AskFault>) -> Exit {
    match answer {
        Ok((true, text)) => {
            // What asked may have gone away, as `head` does; any other fault is an answer that was not given.
            match std::io::stdout().write_all(text.as_bytes()) {
                Ok(()) => Exit::Done,
                Err(fault) if fault.kind() == std::io::ErrorKind::BrokenPipe => Exit::Done,
                Err(fault) => failed(&fault, Exit::Internal),
            }
        }
        Ok((false, text)) => {
            complain(text.trim_end());
            Exit::Unavailable
        }
        Err(fault) => failed(&fault, Exit::Unavailable),
    }
}

/// The chain of causes, printed once, here.
fn failed(fault: &dyn Error, exit: Exit) -> Exit {
    let mut text = fault.to_string();
    let mut cause = fault.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    complain(&text);
    exit
}

fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "gateway: {text}");
}

fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("BOXGATE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false)
        .init();
}
