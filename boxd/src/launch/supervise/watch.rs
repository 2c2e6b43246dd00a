//! Watching: from the agent's start to its end, whoever brings it about.

use std::future::pending;
use std::time::Duration;

use ::shim::ShimFault;
use box_spec::EndedBy;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::launch::claim::{Held, Told};
use crate::output::Drain;
use crate::reaper::{self, Fate};
use crate::say;
use crate::signals::{self, Asked, ChildEnded};

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
pub(super) async fn watch(
    agent: Pid,
    ceiling: Option<u64>,
    held: &mut Held,
    mut serving: JoinHandle<ShimFault>,
    mut asked: Asked,
    mut children: ChildEnded,
    drain: &mut Drain,
) -> Watched {
    let mut ending = Ending { agent, cause: Cause::Itself, kill_at: None, linger_at: None };
    let ceiling_at = ceiling.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    // The agent may have ended before anyone listened.
    let mut fate = reaper::reap(agent);
    while fate.is_none() {
        tokio::select! {
            () = children.wait() => fate = reaper::reap(agent),
            signal = asked.next() => ending.pass_on(signal),
            told = held.told(), if !ending.is_lost() => ending.hear(told),
            fault = &mut serving, if !ending.is_forced() => {
                let why = fault.map_or_else(|fault| fault.to_string(), |fault| say::chain(&fault));
                ending.begin(Cause::Shim(why), FORCED_GRACE);
            }
            stands = drain.answer(ending.linger_at.is_some()) => {
                ending.linger_at = stands.then(|| Instant::now() + LINGER);
            }
            () = at(ceiling_at), if !ending.is_forced() => ending.begin(Cause::Ceiling, FORCED_GRACE),
            () = at(ending.linger_at), if ending.kill_at.is_none() => ending.begin(Cause::Lingered, FORCED_GRACE),
            () = at(ending.kill_at) => ending.kill(),
        }
    }
    serving.abort();
    Watched { cause: ending.cause, fate: fate.unwrap_or(Fate::Killed(0)) }
}

struct Ending {
    agent: Pid,
    cause: Cause,
    kill_at: Option<Instant>,
    linger_at: Option<Instant>,
}

impl Ending {
    /// Passes a signal of the caller's on, once, and lets it count where it asks for the end.
    fn pass_on(&mut self, signal: Signal) {
        reaper::signal_group(self.agent, signal);
        if !signals::ends(signal) {
            return;
        }
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
        let at = Instant::now() + grace;
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
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
/// Where boxd itself ends the agent.
const FORCED_GRACE: Duration = Duration::from_secs(2);
/// From the final answer to the end of a process that does not exit.
const LINGER: Duration = Duration::from_secs(10);
