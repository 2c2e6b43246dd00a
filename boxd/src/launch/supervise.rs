//! Supervise: start the agent in a session of its own, and stay with it until it and all that it started have ended.

mod start;
mod watch;

use box_spec::report::EndedBy;
use nix::unistd::Pid;
use thiserror::Error;

use self::watch::{Cause, Watched};
use super::claim::{Claimed, Held};
use super::report::{Ended, code_of_signal};
use super::shim::ShimUp;
use crate::environment::minutes;
use crate::inputs::Wanted;
use crate::output::{self, Sinks};
use crate::reaper::{self, Fate};
use crate::signals::{Asked, ChildEnded};
use crate::{cli::Output, say, sys};

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
            Self::Start { source, .. } if matches!(source.raw_os_error(), Some(nix::libc::ENOENT)) => 127,
            Self::Start { .. } => 126,
            Self::Streams(_) => 70,
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
    let transcript = up.seeded.record.create("stdout.jsonl").inspect_err(|fault| say::line(&say::chain(fault))).ok();
    let sinks = Sinks { transcript, native: wanted.output == Output::Native };
    let drain = output::drain(started.stdout, claimed.spec.agent, sinks).map_err(SuperviseFault::Streams);
    let mut drain = drain.inspect_err(|_| reaper::signal_group(started.agent, nix::sys::signal::Signal::SIGKILL))?;
    let watched =
        watch::watch(started.agent, claimed.spec.ceiling_seconds, held, up.serving, asked, children, &mut drain).await;
    let orphans = reaper::end_the_rest().await;
    let (stdout, answer) = drain.finish().await;
    let mut ended = ended_of(&watched, answer.as_ref().map(|answer| answer.is_error), claimed.spec.ceiling_seconds);
    if let Some(text) = &ended.error {
        say::line(text);
    }
    ended.stdout = stdout;
    ended.orphans = orphans;
    ended.answer = answer;
    ended.agent_version = up.seeded.found.version;
    Ok(ended)
}

/// What boxd makes of an end. Pure.
fn ended_of(watched: &Watched, answered_with_error: Option<bool>, ceiling: Option<u64>) -> Ended {
    let (agents, signal) = match watched.fate {
        Fate::Exited(code) => (code, None),
        Fate::Killed(signal) => (code_of_signal(signal), Some(signal)),
    };
    let told = |by, code, text: String| Ended { by, exit_code: code, signal, error: Some(text), ..Ended::default() };
    let agents_own = |by| Ended { by, exit_code: agents, signal, agent_spoke: true, ..Ended::default() };
    match &watched.cause {
        Cause::Itself => agents_own(EndedBy::Exit),
        Cause::Signal => agents_own(EndedBy::Signal),
        Cause::Lingered => Ended {
            exit_code: u8::from(answered_with_error == Some(true)),
            lingered: true,
            ..agents_own(EndedBy::Exit)
        },
        Cause::Ceiling => told(
            EndedBy::Ceiling,
            CEILING,
            match ceiling {
                Some(seconds) => format!("the run reached its ceiling of {} minutes and was ended", minutes(seconds)),
                None => "the house ended the run at its ceiling".to_owned(),
            },
        ),
        Cause::Cut(EndedBy::Idle) => {
            told(EndedBy::Idle, CEILING, "nothing happened for too long: the house ended the run".to_owned())
        }
        Cause::Cut(by) => told(*by, NO_DOOR, "the house ended the run".to_owned()),
        Cause::Lost(why) => told(EndedBy::Error, NO_DOOR, format!("the claim was lost and the run ended: {why}")),
        Cause::Shim(why) => told(EndedBy::Error, NO_DOOR, format!("the shim cannot go on: {why}")),
    }
}

/// A started agent.
struct Started {
    agent: Pid,
    stdout: std::os::fd::OwnedFd,
}

const CEILING: u8 = 124;
const NO_DOOR: u8 = 69;

#[cfg(test)]
mod tests {
    use box_spec::report::EndedBy;

    use super::watch::{Cause, Watched};
    use super::{Fate, ended_of};

    #[test]
    fn the_exit_code_is_the_agents_unless_something_else_ended_it() {
        use EndedBy::{Ceiling, Error, Exit, Idle, Signal};
        let killed = Fate::Killed(9);
        for (cause, fate, error, code, by, spoke) in [
            (Cause::Itself, Fate::Exited(0), None, 0, Exit, true),
            (Cause::Itself, Fate::Exited(42), None, 42, Exit, true),
            (Cause::Itself, killed, None, 137, Exit, true),
            (Cause::Signal, Fate::Exited(0), None, 0, Signal, true),
            (Cause::Signal, killed, None, 137, Signal, true),
            (Cause::Lingered, killed, Some(false), 0, Exit, true),
            (Cause::Lingered, killed, Some(true), 1, Exit, true),
            (Cause::Ceiling, Fate::Exited(0), None, 124, Ceiling, false),
            (Cause::Cut(Idle), killed, None, 124, Idle, false),
            (Cause::Lost("x".to_owned()), Fate::Exited(0), None, 69, Error, false),
            (Cause::Shim("x".to_owned()), Fate::Exited(0), None, 69, Error, false),
        ] {
            let ended = ended_of(&Watched { cause: cause.clone(), fate }, error, Some(900));
            assert_eq!((ended.exit_code, ended.by, ended.agent_spoke), (code, by, spoke), "{cause:?} {fate:?}");
        }
    }
}
