//! The one owner of `waitpid`: takes in every child that has ended, and ends those that should have.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};
use tokio::time::{Instant, sleep};

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Exited(u8),
    Killed(i32),
}

/// Takes in all children that have ended; tells the fate of `agent` where it was among them.
pub(crate) fn reap(agent: Pid) -> Option<Fate> {
    let mut fate = None;
    while let Some((pid, ended)) = next_ended() {
        if pid == agent {
            fate = Some(ended);
        }
    }
    fate
}

/// By which signal the child was stopped, if it was since this was last asked.
pub(crate) fn stopped(child: Pid) -> Option<Signal> {
    use nix::sys::wait::{Id, waitid};
    match waitid(Id::Pid(child), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG) {
        Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
        Ok(_) | Err(_) => None,
    }
}

/// Sends a signal to the whole group of the agent. That it is gone already is no fault.
pub(crate) fn signal_group(agent: Pid, signal: Signal) {
    let _ = killpg(agent, signal);
}

/// What became of what the agent left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rest {
    /// How many there were.
    pub(crate) orphans: u32,
    /// Some could not be ended: it is nobody's word that the run is over.
    pub(crate) survives: bool,
}

/// Ends all that the agent has left behind, politely first.
///
/// Orphans come to boxd, which is their subreaper or PID 1. Only children of boxd's own are signalled, so a number
/// that was used again cannot be hit: a child keeps its number until it is reaped here.
pub(crate) async fn end_the_rest() -> Rest {
    let mut told: Vec<Pid> = Vec::new();
    let started = Instant::now();
    loop {
        while started.elapsed() <= LAST && next_ended().is_some() {}
        let survives = has_children();
        if !survives || started.elapsed() > LAST {
            return Rest { orphans: u32::try_from(told.len()).unwrap_or(u32::MAX), survives };
        }
        let children = living_children();
        let out_of_patience = started.elapsed() > POLITE;
        let forced = out_of_patience.then_some(Signal::SIGKILL);
        for child in &children {
            if !told.contains(child) {
                told.push(*child);
                let _ = kill(*child, forced.unwrap_or(Signal::SIGTERM));
            } else if let Some(signal) = forced {
                let _ = kill(*child, signal);
            }
        }
        if out_of_patience && getpid() == Pid::from_raw(1) {
            // The namespace is boxd's own: this is everything in it but boxd.
            let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        }
        sleep(PAUSE).await;
    }
}

fn next_ended() -> Option<(Pid, Fate)> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => {
                return Some((pid, Fate::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX))));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                return Some((pid, Fate::Killed(signal as i32)));
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return None,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// Whether there is any child, ended or not. Called when all that have ended were taken in.
fn has_children() -> bool {
    use nix::sys::wait::{Id, waitid};
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, flags) != Err(Errno::ECHILD)
}

/// The children of boxd that have not ended, from /proc.
fn living_children() -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let me = getpid().as_raw();
    let is_mine = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        parent_of_living(&stat) == Some(me)
    };
    numbers.filter(is_mine).map(Pid::from_raw).collect()
}

/// The parent's number in a line of /proc/PID/stat; `None` for what has ended. The name may hold anything.
fn parent_of_living(stat: &str) -> Option<i32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(parent)
}

/// How long what is left may take to end by itself.
const POLITE: Duration = Duration::from_secs(1);
/// How long boxd tries at all.
const LAST: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::parent_of_living;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        assert_eq!(parent_of_living("7 (a) S 3 4 5"), Some(3));
        assert_eq!(parent_of_living("7 (a) Z 9) R 3 4"), Some(3));
        assert_eq!(parent_of_living("7 (x y) Z 3 4"), None);
        assert_eq!(parent_of_living(""), None);
    }
}
