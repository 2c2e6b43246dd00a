//! The outer boxd while the box lives: forwards signals, connects the door, and takes the box's end as its own.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::door::DoorKeeper;
use super::fault::{IsolateFault, at};
use crate::signals::PASSED_ON;

/// The signals of the outer boxd, held back from before the box is born so that none is lost.
pub(crate) struct Signals {
    before: SigSet,
    queue: SignalFd,
}

impl Signals {
    /// Holds back what will be forwarded, and the news of the box's end.
    pub(crate) fn hold() -> Result<Self, IsolateFault> {
        let fault = |errno: Errno| at("hold back", "signals")(errno.into());
        let mut held = SigSet::empty();
        for signal in PASSED_ON {
            held.add(signal);
        }
        held.add(Signal::SIGCHLD);
        let mut before = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&held), Some(&mut before)).map_err(fault)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let queue = SignalFd::with_flags(&held, flags).map_err(fault)?;
        Ok(Self { before, queue })
    }

    /// Gives signals back as they were: in the box, and where no box came to be.
    pub(crate) fn restore(self) -> Result<(), IsolateFault> {
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None)
            .map_err(|errno| at("give back", "signals")(errno.into()))
    }
}

/// Stays until the box has ended; gives its exit code.
pub(crate) fn stay(inner: Pid, keeper: &DoorKeeper, signals: &Signals) -> Result<u8, IsolateFault> {
    let mut asking = true;
    loop {
        let (told, asked) = wait(keeper, signals, asking).map_err(at("wait for", "the box"))?;
        if told && let Some(code) = hear(inner, signals)? {
            return Ok(code);
        }
        // A line that broke is the box ending: its exit comes as a signal. Any other fault is one question's own.
        if asked {
            asking = keeper.serve().unwrap_or_else(|fault| !is_broken(&fault));
        }
    }
}

/// Ends a box that could not be made whole.
pub(crate) fn end(inner: Pid) {
    let _gone = kill(inner, Signal::SIGKILL);
    let _reaped = waitpid(inner, None);
}

/// Waits without end on purpose: the box has the ceiling, and its end is a signal.
fn wait(keeper: &DoorKeeper, signals: &Signals, asking: bool) -> io::Result<(bool, bool)> {
    let mut both =
        [PollFd::new(signals.queue.as_fd(), PollFlags::POLLIN), PollFd::new(keeper.descriptor(), PollFlags::POLLIN)];
    let watched = if asking { 2 } else { 1 };
    match poll(&mut both[..watched], PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let ready = |fd: &PollFd<'_>| fd.any().unwrap_or(false);
    Ok((ready(&both[0]), asking && ready(&both[1])))
}

fn is_broken(fault: &io::Error) -> bool {
    matches!(fault.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn hear(inner: Pid, signals: &Signals) -> Result<Option<u8>, IsolateFault> {
    let fault = |errno: Errno| at("wait for", "the box")(errno.into());
    while let Some(told) = signals.queue.read_signal().map_err(fault)? {
        let number = i32::try_from(told.ssi_signo).unwrap_or(0);
        match Signal::try_from(number) {
            Ok(Signal::SIGCHLD) | Err(_) => {}
            Ok(signal) => {
                // Nothing to tell it to: the box is ending by itself.
                let _ = kill(inner, signal);
            }
        }
    }
    let status = waitpid(inner, Some(WaitPidFlag::WNOHANG)).map_err(fault)?;
    Ok(exit_code(status))
}

/// The exit code that a box's end gives; none while it lives.
fn exit_code(status: WaitStatus) -> Option<u8> {
    match status {
        WaitStatus::Exited(_, code) => Some(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        WaitStatus::Signaled(_, signal, _) => Some(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Pid, Signal, WaitStatus, exit_code};

    #[test]
    fn the_boxes_end_is_boxds_exit_code() {
        let pid = Pid::from_raw(7);
        let table = [
            (WaitStatus::Exited(pid, 0), Some(0)),
            (WaitStatus::Exited(pid, 255), Some(255)),
            (WaitStatus::Signaled(pid, Signal::SIGKILL, false), Some(137)),
            (WaitStatus::Stopped(pid, Signal::SIGSTOP), None),
            (WaitStatus::StillAlive, None),
        ];
        for (status, code) in table {
            assert_eq!(exit_code(status), code, "{status:?}");
        }
    }
}
