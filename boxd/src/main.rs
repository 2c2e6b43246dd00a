//! boxd, the entrypoint of a box: arguments → inputs → launch → exit code.

mod cli;
mod inputs;
mod launch;
mod agent;
mod environment;
mod find;
mod files;
mod trust;
mod lock;
mod signals;
mod output;
mod reaper;
mod version;
mod say;
mod sys;

use std::process::ExitCode;

use crate::cli::{Cli, Deed};
use crate::inputs::Inputs;

fn main() -> ExitCode {
    let environment = inputs::take_environment();
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(done) => return done,
    };
    let ended = match cli.deed {
        Deed::Version => version::of_boxd(),
        Deed::Run(arguments) => match Inputs::new(arguments, environment) {
            Ok(Inputs::AgentVersion(wanted)) => version::of_agent(&wanted),
            Ok(Inputs::Run(wanted)) => launch::run(*wanted),
            Err(fault) => say::usage(&fault),
        },
    };
    ExitCode::from(ended)
}
