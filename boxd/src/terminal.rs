//! The caller's terminal, which a command has to itself: it stands in front while the command runs, and is given back as
//! it was.

use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcgetsid, tcsetattr};
use nix::unistd::{Pid, getpgrp, getsid, tcgetpgrp, tcsetpgrp};

/// The terminal of boxd's own session.
pub(crate) struct Terminal {
    descriptor: OwnedFd,
    /// boxd's own group of processes.
    own: Pid,
    before: Option<Termios>,
}

impl Terminal {
    /// The one that a standard stream leads to, where it is that of boxd's session: in another nobody can stand in front.
    pub(crate) fn of_caller() -> Option<Self> {
        let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let streams = [
            stdin.is_terminal().then(|| stdin.as_fd()),
            stdout.is_terminal().then(|| stdout.as_fd()),
            stderr.is_terminal().then(|| stderr.as_fd()),
        ];
        let session = getsid(None).ok()?;
        let is_ours = |stream: &std::os::fd::BorrowedFd<'_>| tcgetsid(stream) == Ok(session);
        let stream = streams.into_iter().flatten().find(is_ours)?;
        let descriptor = stream.try_clone_to_owned().ok()?;
        let before = tcgetattr(&descriptor).ok();
        Some(Self { descriptor, own: getpgrp(), before })
    }

    pub(crate) const fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// Whether boxd stands in front, so that it can let another do so.
    pub(crate) fn is_in_front(&self) -> bool {
        tcgetpgrp(&self.descriptor) == Ok(self.own)
    }

    /// Lets the group stand in front, where it does so already or boxd does; tells whether it does.
    pub(crate) fn lend(&self, group: Pid) -> bool {
        match tcgetpgrp(&self.descriptor) {
            Ok(front) if front == group => true,
            Ok(front) if front == self.own => self.put_in_front(group),
            Ok(_) | Err(_) => false,
        }
    }

    /// Stands in front again, where the group did or nobody does.
    pub(crate) fn take_back(&self, group: Pid) {
        // A group that is gone keeps its place until somebody takes it.
        let front = tcgetpgrp(&self.descriptor);
        if front == Ok(group) || front.is_ok_and(|front| nix::sys::signal::killpg(front, None).is_err()) {
            self.put_in_front(self.own);
        }
    }

    /// As it was before: what was killed has not done so itself.
    pub(crate) fn restore(&self) {
        if let Some(before) = &self.before {
            let _ = with_held(|| tcsetattr(&self.descriptor, SetArg::TCSANOW, before));
        }
    }

    fn put_in_front(&self, group: Pid) -> bool {
        with_held(|| tcsetpgrp(&self.descriptor, group)).is_ok()
    }
}

/// Who is not in front is stopped when it changes the terminal, unless it holds back the signal that stops it.
fn with_held(change: impl FnOnce() -> nix::Result<()>) -> nix::Result<()> {
    let mut held = SigSet::empty();
    held.add(Signal::SIGTTOU);
    let mut before = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&held), Some(&mut before))?;
    let changed = change();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
    changed
}
