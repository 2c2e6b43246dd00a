//! Asking: runs a program of the image for a moment and takes what it prints.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use thiserror::Error;

use crate::reaper;
use crate::sys::{self, Inherited};

#[derive(Debug, Error)]
pub(super) enum AskFault {
    #[error("run {program}")]
    Run { program: String, source: io::Error },
    #[error("it took longer than {} s, or a signal came", PATIENCE.as_secs())]
    Late,
    #[error("it printed more than {0} bytes")]
    Long(u64),
}

/// Runs the program to its end, with nothing on its standard input, and gives what it prints, `limit` bytes at most. There
/// is no other child yet, so it is waited for here.
pub(super) fn ask(mut command: Command, limit: u64, inherited: &Inherited) -> Result<Vec<u8>, AskFault> {
    let program = Path::new(command.get_program()).display().to_string();
    let run = |source| AskFault::Run { program: program.clone(), source };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    sys::start_apart(&mut command, inherited.clone());
    let mut child = command.spawn().map_err(run)?;
    let printed = child.stdout.take().map_or_else(|| Ok(Vec::new()), |pipe| read(pipe, limit).map_err(run)?);
    // With all that it started: it has a session of its own.
    if let Ok(pid) = i32::try_from(child.id()) {
        reaper::signal_group(Pid::from_raw(pid), Signal::SIGKILL);
    }
    child.wait().map_err(run)?;
    printed
}

/// Reads to the end, or until there is too much of it or it takes too long.
fn read(mut pipe: ChildStdout, limit: u64) -> io::Result<Result<Vec<u8>, AskFault>> {
    let mut until = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], left) {
            Ok(0) => return Ok(Err(AskFault::Late)),
            Ok(_) => {}
            // It may ask for the end of the run, which is heard only after this: but for one that is not, enough is left.
            Err(Errno::EINTR) => {
                until = until.min(Instant::now() + HURRY);
                continue;
            }
            Err(fault) => return Err(fault.into()),
        }
        match pipe.read(&mut chunk)? {
            0 => return Ok(Ok(bytes)),
            count => bytes.extend_from_slice(&chunk[..count]),
        }
        if bytes.len() as u64 > limit {
            return Ok(Err(AskFault::Long(limit)));
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
/// What is left of the patience once a signal has come.
const HURRY: Duration = Duration::from_secs(1);
const CHUNK: usize = 64 * 1024;
