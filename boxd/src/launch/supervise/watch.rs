//! Watching: from the agent's start to its end, whoever brings it about.

use std::future::pending;
use std::time::Duration;

use box_spec::EndedBy;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::launch::claim::{Held, Told};
use crate::output::Drain;
use crate::reaper::{self, Fate};
use crate::signals::{self, Asked, ChildEnded};
use crate::terminal::Terminal;

/// What is watched.
pub(super) struct Watch {
    pub(super) agent: Pid,
    /// The caller's, where the program has it to itself.
    pub(super) terminal: Option<Terminal>,
}

/// How the agent ended, and why.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) cause: Cause,
    pub(super) fate: Fate,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    Itself,
    /// boxd was asked to end it.
    Signal,
    Ceiling,
    /// The house ended the run for another reason.
    Cut(EndedBy),
    /// It had given its answer and did not exit.
    Lingered,
    /// The claim is gone.
    Lost(String),
    Shim(String),
}

/// Waits for the end of the agent.
///
/// `held` and `drain` are there where this boxd holds the run, and reads what its agent says.
pub(super) async fn watch(
    program: &Watch,
    ceiling: Option<u64>,
    mut held: Option<&mut Held>,
    serving: &mut JoinHandle<String>,
    mut asked: Asked,
    mut children: ChildEnded,
    mut drain: Option<&mut Drain>,
) -> Watched {
    let agent = program.agent;
    let on_terminal = program.terminal.is_some();
    let mut ending =
        Ending { agent, on_terminal, cause: Cause::Itself, kill_at: None, linger_at: None, hang_up_at: None };
    let ceiling_at = ceiling.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    // The agent may have ended before anyone listened.
    let mut fate = reaper::reap(agent);
    while fate.is_none() {
        tokio::select! {
            () = children.wait() => {
                program.go_on_after_a_stop();
                fate = reaper::reap(agent);
            }
            signal = asked.next() => ending.pass_on(signal),
            told = told(held.as_deref_mut()), if !ending.is_lost() => ending.hear(told),
            why = &mut *serving, if !ending.is_forced() => {
                ending.begin(Cause::Shim(why.unwrap_or_else(|fault| fault.to_string())), FORCED_GRACE);
            }
            stands = answer(drain.as_deref_mut(), ending.linger_at.is_some()) => {
                ending.linger_at = stands.then(|| Instant::now() + LINGER);
            }
            () = at(ceiling_at), if !ending.is_forced() => ending.begin(Cause::Ceiling, FORCED_GRACE),
            () = at(ending.linger_at), if ending.kill_at.is_none() => ending.begin(Cause::Lingered, FORCED_GRACE),
            () = at(ending.hang_up_at) => ending.hang_up(),
            () = at(ending.kill_at) => ending.kill(),
        }
    }
    serving.abort();
    program.leave_the_terminal(fate);
    Watched { cause: ending.cause, fate: fate.unwrap_or(Fate::Killed(0)) }
}

impl Watch {
    /// Somebody stopped it, from the terminal perhaps: then boxd stops too, for the shell that started boxd, and goes on
    /// with it. In a box there is no such shell, and the kernel lets boxd go on at once.
    fn go_on_after_a_stop(&self) {
        let Some(terminal) = &self.terminal else { return };
        let Some(signal) = reaper::stopped(self.agent) else { return };
        terminal.take_back(self.agent);
        let _ = nix::sys::signal::raise(Signal::SIGTSTP);
        let in_front = terminal.lend(self.agent);
        // Behind, it would only be stopped again for asking the terminal.
        if in_front || !matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU) {
            reaper::signal_group(self.agent, Signal::SIGCONT);
        }
    }

    fn leave_the_terminal(&self, fate: Option<Fate>) {
        let Some(terminal) = &self.terminal else { return };
        terminal.take_back(self.agent);
        if matches!(fate, Some(Fate::Killed(_))) {
            terminal.restore();
        }
    }
}

async fn told(held: Option<&mut Held>) -> Told {
    match held {
        Some(held) => held.told().await,
        None => pending().await,
    }
}

async fn answer(drain: Option<&mut Drain>, stands: bool) -> bool {
    match drain {
        Some(drain) => drain.answer(stands).await,
        None => pending().await,
    }
}

struct Ending {
    agent: Pid,
    on_terminal: bool,
    cause: Cause,
    kill_at: Option<Instant>,
    linger_at: Option<Instant>,
    hang_up_at: Option<Instant>,
}

impl Ending {
    /// Passes a signal of the caller's on, once, and lets it count where it asks for the end.
    fn pass_on(&mut self, signal: Signal) {
        reaper::signal_group(self.agent, signal);
        if !signals::ends(signal) {
            return;
        }
        self.hang_up();
        let now = Instant::now();
        self.kill_at = Some(match self.kill_at {
            None => now + GRACE,
            Some(at) => at.min(now + SHORT_GRACE),
        });
        if matches!(self.cause, Cause::Itself | Cause::Lingered) {
            self.cause = Cause::Signal;
        }
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Cut(EndedBy::Ceiling) => self.begin(Cause::Ceiling, FORCED_GRACE),
            Told::Cut(by) => self.begin(Cause::Cut(by), FORCED_GRACE),
            Told::Lost(why) => self.begin(Cause::Lost(why), FORCED_GRACE),
            Told::Go | Told::Unproven(_) | Told::Settled(_) => {
                self.begin(Cause::Lost("the house spoke out of turn".to_owned()), FORCED_GRACE);
            }
        }
    }

    /// Ends the agent: politely, and by force after a grace. The first cause of this kind stays.
    fn begin(&mut self, cause: Cause, grace: Duration) {
        if self.is_forced() {
            return;
        }
        self.cause = cause;
        reaper::signal_group(self.agent, Signal::SIGTERM);
        self.hang_up();
        let at = Instant::now() + grace;
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// A shell at a terminal takes no TERM, and ends with all its jobs when the terminal goes. Again and again: a shell that
    /// has just begun to wait for a line does not see the first one.
    fn hang_up(&mut self) {
        if self.on_terminal {
            reaper::signal_group(self.agent, Signal::SIGHUP);
            reaper::signal_group(self.agent, Signal::SIGCONT);
            self.hang_up_at = Some(Instant::now() + HANG_UP_EVERY);
        }
    }

    fn kill(&mut self) {
        reaper::signal_group(self.agent, Signal::SIGKILL);
        // Again, should something of the group be slow to go.
        self.kill_at = Some(Instant::now() + SHORT_GRACE);
    }

    /// Whether something that outranks the agent's own status is ending it.
    const fn is_forced(&self) -> bool {
        matches!(self.cause, Cause::Ceiling | Cause::Cut(_) | Cause::Lost(_) | Cause::Shim(_))
    }

    /// Whether the claim has nothing more to say.
    const fn is_lost(&self) -> bool {
        matches!(self.cause, Cause::Lost(_))
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

/// From a first TERM or INT to KILL.
const GRACE: Duration = Duration::from_secs(5);
/// From a second one.
const SHORT_GRACE: Duration = Duration::from_secs(1);
/// Between two, where a terminal is said to be gone.
const HANG_UP_EVERY: Duration = Duration::from_millis(500);
/// Where boxd itself ends the agent.
const FORCED_GRACE: Duration = Duration::from_secs(2);
/// From the final answer to the end of a process that does not exit.
const LINGER: Duration = Duration::from_secs(10);
