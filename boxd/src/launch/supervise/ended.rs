//! Ends: what became of a run, from how the agent was seen to end.

use box_spec::{EndedBy, StdoutRecord};

use super::watch::{Cause, Watched};
use crate::agent::Answer;
use crate::environment::minutes;
use crate::exit;
use crate::reaper::Fate;

/// What became of a run.
#[derive(Debug)]
pub(in crate::launch) struct Ended {
    pub(in crate::launch) by: EndedBy,
    pub(in crate::launch) exit_code: u8,
    pub(in crate::launch) signal: Option<i32>,
    pub(in crate::launch) agent_spoke: bool,
    pub(in crate::launch) error: Option<String>,
    pub(in crate::launch) stdout: StdoutRecord,
    /// Why the caller has not all of the agent's bytes.
    pub(in crate::launch) unprinted: Option<std::io::Error>,
    pub(in crate::launch) answer: Option<Answer>,
    pub(in crate::launch) orphans: u32,
    /// Some of what the agent left behind could not be ended.
    pub(in crate::launch) survives: bool,
    pub(in crate::launch) lingered: bool,
    pub(in crate::launch) agent_version: Option<String>,
}

impl Ended {
    /// The end of a run whose agent never started.
    pub(in crate::launch) fn without_agent(exit_code: u8, error: &str) -> Self {
        Self { exit_code, error: Some(error.to_owned()), ..Self::default() }
    }
}

impl Default for Ended {
    fn default() -> Self {
        Self {
            by: EndedBy::Error,
            exit_code: exit::OWN_FAULT,
            signal: None,
            agent_spoke: false,
            error: None,
            stdout: StdoutRecord { bytes: 0, sha256: EMPTY.to_owned(), kept: false },
            unprinted: None,
            answer: None,
            orphans: 0,
            survives: false,
            lingered: false,
            agent_version: None,
        }
    }
}

/// What boxd makes of an end. Pure.
pub(super) fn ended_of(watched: &Watched, answered_with_error: Option<bool>, ceiling: Option<u64>) -> Ended {
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
            exit::CEILING,
            match ceiling {
                Some(seconds) => format!("the run reached its ceiling of {} minutes and was ended", minutes(seconds)),
                None => "the house ended the run at its ceiling".to_owned(),
            },
        ),
        Cause::Cut(EndedBy::Idle) => {
            told(EndedBy::Idle, exit::CEILING, "nothing happened for too long: the house ended the run".to_owned())
        }
        Cause::Cut(EndedBy::Operator) => {
            told(EndedBy::Operator, code_of_signal(SIGTERM), "an operator of the house stopped the run".to_owned())
        }
        Cause::Cut(by) => told(*by, exit::UNAVAILABLE, "the house ended the run".to_owned()),
        Cause::Lost(why) => {
            told(EndedBy::Error, exit::UNAVAILABLE, format!("the claim was lost and the run ended: {why}"))
        }
        Cause::Shim(why) => told(EndedBy::Error, exit::UNAVAILABLE, why.clone()),
    }
}

/// The exit code for an end by a signal.
pub(in crate::launch) fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// What a program ends with that was asked to end.
const SIGTERM: i32 = 15;
/// SHA-256 of nothing.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[cfg(test)]
mod tests {
    use box_spec::EndedBy;

    use super::{Cause, Fate, Watched, code_of_signal, ended_of};

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

    #[test]
    fn a_signal_is_128_and_its_number() {
        assert_eq!([1, 9, 15].map(code_of_signal), [129, 137, 143]);
    }
}
