//! boxd, the entrypoint of a box: arguments → inputs → (a box of its own) → launch → exit code.

mod cli;
mod inputs;
mod isolate;
mod harden;
mod filter;
mod launch;
mod doctor;
mod agent;
mod environment;
mod find;
mod files;
mod trust;
mod network_door;
mod secrets;
mod reach;
mod lock;
mod live;
mod program;
mod terminal;
mod facts;
mod workspace;
mod signals;
mod screen;
mod output;
mod reaper;
mod version;
mod say;
mod exit;
mod sys;

use std::process::ExitCode;

use crate::cli::{Cli, Deed, LaunchArguments};
use crate::inputs::{Inputs, Wanted, WantedDoctor, WantedVersion};
use crate::isolate::{Entered, Inside, IsolateOptions};

fn main() -> ExitCode {
    let environment = inputs::take_environment();
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(done) => return done,
    };
    let ended = match cli.deed {
        Deed::Version => version::of_boxd(),
        Deed::Doctor(mut arguments) => {
            let isolation = cli.isolation.options(&mut arguments.door, &mut None, &environment);
            match WantedDoctor::new(arguments, environment) {
                Ok(wanted) => examine(wanted, isolation),
                Err(fault) => say::usage(&fault),
            }
        }
        Deed::Exec(_) if cli.isolation.made.isolate => {
            say::line(&"--isolate makes a box for an agent, and exec runs in a box that is there: leave --isolate out");
            exit::USAGE
        }
        Deed::Exec(arguments) => match Wanted::of_command(*arguments, environment) {
            Ok(wanted) => run(wanted, None),
            Err(fault) => say::usage(&fault),
        },
        Deed::Run(mut arguments) => {
            let LaunchArguments { door, session, .. } = &mut arguments.launch;
            let isolation = cli.isolation.options(door, session, &environment);
            match Inputs::new(arguments, environment) {
                Ok(Inputs::AgentVersion(wanted)) => agent_version(wanted, isolation),
                Ok(Inputs::Run(wanted)) => run(*wanted, isolation),
                Err(fault) => say::usage(&fault),
            }
        }
    };
    ExitCode::from(ended)
}

fn examine(mut wanted: WantedDoctor, isolation: Option<IsolateOptions>) -> u8 {
    wanted.taken_away.wipe_if(isolation.is_some());
    match settle(isolation) {
        Ok(Some(inside)) => wanted.move_in(inside),
        Ok(None) => {}
        Err(ended) => return ended,
    }
    doctor::examine(&wanted)
}

fn run(mut wanted: Wanted, isolation: Option<IsolateOptions>) -> u8 {
    let inherited = match sys::take_hold() {
        Ok(inherited) => inherited,
        Err(fault) => {
            say::line(&format!("prepare this process: {fault}"));
            return exit::OWN_FAULT;
        }
    };
    wanted.taken_away.wipe_if(isolation.is_some());
    match settle(isolation) {
        Ok(Some(inside)) => wanted.move_in(inside),
        Ok(None) => {}
        Err(ended) => return ended,
    }
    launch::run(wanted, inherited)
}

fn agent_version(wanted: WantedVersion, isolation: Option<IsolateOptions>) -> u8 {
    match settle(isolation) {
        Ok(Some(_)) => match harden::install_filter() {
            Ok(()) => version::of_agent(&wanted),
            Err(fault) => {
                say::line(&format!("install the system call filter: {fault}"));
                exit::OWN_FAULT
            }
        },
        Ok(None) => version::of_agent(&wanted),
        Err(ended) => ended,
    }
}

/// Makes the box, where boxd was asked to, and goes on inside of it; an exit code where there is nothing to go on with.
fn settle(isolation: Option<IsolateOptions>) -> Result<Option<Inside>, u8> {
    let Some(options) = isolation else {
        return Ok(None);
    };
    match isolate::enter(&options) {
        // What boxd was told names places of the host, and the box can read it.
        Ok(Entered::Inside(inside)) => match sys::wipe_arguments() {
            Ok(()) => Ok(Some(inside)),
            Err(fault) => {
                say::line(&format!("hide the arguments: {fault}"));
                Err(exit::OWN_FAULT)
            }
        },
        Ok(Entered::Outside(ended)) => Err(ended),
        Err(fault) => {
            say::line(&say::chain(&fault));
            Err(fault.exit_code())
        }
    }
}
