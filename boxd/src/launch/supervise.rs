//! Supervise: start the agent in a session of its own, and stay with it until it and all that it started have ended.

mod start;
mod watch;
mod ended;

use std::os::fd::OwnedFd;

use box_spec::EndedBy;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use thiserror::Error;
use tokio::task::JoinHandle;

use self::ended::ended_of;
pub(super) use self::ended::{Ended, code_of_signal};
use self::watch::Watch;
use super::claim::{Claimed, Held};
use super::seed::Seeded;
use super::shim::ShimUp;
use crate::environment::Variables;
use crate::exit;
use crate::inputs::Wanted;
use crate::output::{self, Drain, Sinks};
use crate::program::Program;
use crate::reaper;
use crate::screen::{self, Errors};
use crate::signals::{Asked, ChildEnded};
use crate::terminal::Terminal;
use crate::{cli::Output, harden, say, sys};

#[derive(Debug, Error)]
pub(super) enum SuperviseFault {
    #[error("start {program}")]
    Start { program: String, source: std::io::Error },
    #[error("prepare the agent's streams")]
    Streams(#[source] std::io::Error),
}

impl SuperviseFault {
    pub(super) fn code(&self) -> u8 {
        match self {
            // A missing interpreter reads like a missing program.
            Self::Start { source, .. } if matches!(source.raw_os_error(), Some(nix::libc::ENOENT)) => exit::NOT_FOUND,
            Self::Start { .. } => exit::NOT_EXECUTABLE,
            Self::Streams(_) => exit::OWN_FAULT,
        }
    }
}

/// Starts the agent and gives what became of it.
pub(super) async fn supervise(
    wanted: &Wanted,
    claimed: &Claimed,
    mut up: ShimUp,
    held: &mut Held,
    inherited: sys::Inherited,
    mut asked: Asked,
    children: ChildEnded,
) -> Result<Ended, SuperviseFault> {
    if let Some(signal) = asked.end_already_asked() {
        let text = format!("ended by {signal} before the agent started");
        say::line(&text);
        let code = code_of_signal(signal as i32);
        return Ok(Ended { by: EndedBy::Signal, signal: Some(signal as i32), ..Ended::without_agent(code, &text) });
    }
    let environment = up.environment(wanted, claimed);
    let ShimUp { seeded, serving, .. } = &mut up;
    let started = start::start(&seeded.program, seeded.workspace.as_deref(), &environment, inherited)?;
    offer(wanted, &started);
    let mut heard = match started.pipes {
        Some(pipes) => Some(hear(wanted, claimed, seeded, pipes).inspect_err(|_| {
            reaper::signal_group(started.agent, Signal::SIGKILL);
        })?),
        None => None,
    };
    let program = Watch { agent: started.agent, terminal: started.terminal };
    let ceiling = claimed.spec.ceiling_seconds;
    let drain = heard.as_mut().map(|(drain, _)| drain);
    let watched = watch::watch(&program, ceiling, Some(held), serving, asked, children, drain).await;
    let rest = reaper::end_the_rest().await;
    let mut ended = match heard {
        Some((drain, errors)) => {
            let (written, answer) = drain.finish().await;
            errors.finish().await;
            let ended = ended_of(&watched, answer.as_ref().map(|answer| answer.is_error), ceiling);
            Ended { stdout: written.record, unprinted: written.unprinted, answer, ..ended }
        }
        None => ended_of(&watched, None, ceiling),
    };
    if let Some(text) = &ended.error {
        say::line(text);
    }
    ended.orphans = rest.orphans;
    ended.survives = rest.survives;
    ended.agent_version.clone_from(&up.seeded.agent_version);
    Ok(ended)
}

/// A command beside the run of another boxd: as the agent's, its streams and its end, without a claim, a report and a ceiling of
/// its own. `over` ends when that run does.
pub(super) async fn accompany(
    wanted: &Wanted,
    environment: &Variables,
    inherited: sys::Inherited,
    asked: Asked,
    children: ChildEnded,
    mut over: JoinHandle<String>,
) -> Result<u8, SuperviseFault> {
    let program = Program::of_command(wanted.command.as_deref().unwrap_or_default());
    let started = start::start(&program, wanted.workspace.as_deref(), environment, inherited)?;
    offer(wanted, &started);
    let program = Watch { agent: started.agent, terminal: started.terminal };
    let watched = watch::watch(&program, None, None, &mut over, asked, children, None).await;
    let rest = reaper::end_the_rest().await;
    let ended = ended_of(&watched, None, None);
    if let Some(text) = &ended.error {
        say::line(text);
    }
    if rest.survives {
        say::line(&"WARNING: something that the command started could not be ended");
    }
    Ok(ended.exit_code)
}

/// Short of memory, the kernel is to take it before boxd.
fn offer(wanted: &Wanted, started: &Started) {
    if !wanted.left_out.has_limits() {
        harden::offer_to_the_kernel(started.agent).unwrap_or_else(|fault| {
            say::line(&format!("WARNING: short of memory, the kernel may take boxd before the agent: {fault}"));
        });
    }
}

/// Starts to read what the agent says.
fn hear(wanted: &Wanted, claimed: &Claimed, seeded: &Seeded, pipes: Pipes) -> Result<(Drain, Errors), SuperviseFault> {
    let transcript = seeded.record.create("stdout.jsonl").inspect_err(|fault| say::line(&say::chain(fault))).ok();
    let sinks = Sinks { transcript, native: wanted.output == Output::Native };
    let drain = output::drain(pipes.stdout, claimed.spec.agent, sinks).map_err(SuperviseFault::Streams)?;
    let errors = screen::errors(pipes.stderr).map_err(SuperviseFault::Streams)?;
    Ok((drain, errors))
}

/// A started agent, or a command.
struct Started {
    agent: Pid,
    /// Its output, where boxd is to read it.
    pipes: Option<Pipes>,
    /// The terminal that it has to itself.
    terminal: Option<Terminal>,
}

struct Pipes {
    stdout: OwnedFd,
    stderr: OwnedFd,
}
