//! Supervise: start the agent in a session of its own, and stay with it until it and all that it started have ended.

mod start;
mod watch;
mod ended;

use box_spec::EndedBy;
use nix::unistd::Pid;
use thiserror::Error;

use self::ended::ended_of;
pub(super) use self::ended::{Ended, code_of_signal};
use super::claim::{Claimed, Held};
use super::shim::ShimUp;
use crate::exit;
use crate::inputs::Wanted;
use crate::output::{self, Sinks};
use crate::reaper;
use crate::signals::{Asked, ChildEnded};
use crate::{cli::Output, harden, say, screen, sys};

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
    up: ShimUp,
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
    let started = start::start(&up.seeded, &environment, inherited)?;
    if !wanted.left_out.has_limits() {
        harden::offer_to_the_kernel(started.agent).unwrap_or_else(|fault| {
            say::line(&format!("WARNING: short of memory, the kernel may take boxd before the agent: {fault}"));
        });
    }
    let transcript = up.seeded.record.create("stdout.jsonl").inspect_err(|fault| say::line(&say::chain(fault))).ok();
    let sinks = Sinks { transcript, native: wanted.output == Output::Native };
    let drain = output::drain(started.stdout, claimed.spec.agent, sinks).map_err(SuperviseFault::Streams);
    let streams = drain.and_then(|drain| Ok((drain, screen::errors(started.stderr).map_err(SuperviseFault::Streams)?)));
    let (mut drain, errors) =
        streams.inspect_err(|_| reaper::signal_group(started.agent, nix::sys::signal::Signal::SIGKILL))?;
    let watched =
        watch::watch(started.agent, claimed.spec.ceiling_seconds, held, up.serving, asked, children, &mut drain).await;
    let rest = reaper::end_the_rest().await;
    let (written, answer) = drain.finish().await;
    errors.finish().await;
    let mut ended = ended_of(&watched, answer.as_ref().map(|answer| answer.is_error), claimed.spec.ceiling_seconds);
    if let Some(text) = &ended.error {
        say::line(text);
    }
    ended.stdout = written.record;
    ended.unprinted = written.unprinted;
    ended.orphans = rest.orphans;
    ended.survives = rest.survives;
    ended.answer = answer;
    ended.agent_version = up.seeded.found.version;
    Ok(ended)
}

/// A started agent.
struct Started {
    agent: Pid,
    stdout: std::os::fd::OwnedFd,
    stderr: std::os::fd::OwnedFd,
}
