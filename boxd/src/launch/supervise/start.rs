//! Starting: from what was seeded to a process.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::{Pid, pipe2};

use super::{Pipes, Started, SuperviseFault};
use crate::environment::Variables;
use crate::program::{Program, Streams};
use crate::sys;
use crate::terminal::Terminal;

pub(super) fn start(
    program: &Program,
    workspace: Option<&Path>,
    environment: &Variables,
    inherited: sys::Inherited,
) -> Result<Started, SuperviseFault> {
    let mut command = Command::new(&program.path);
    command.args(&program.arguments).env_clear().envs(environment.iter());
    if let Some(workspace) = workspace {
        command.current_dir(workspace);
    }
    let (pipes, terminal) = match &program.streams {
        Streams::Boxds { stdin } => (Some(pipes(&mut command, stdin.as_deref())?), None),
        Streams::Callers => (None, Terminal::of_caller()),
    };
    let group = match &terminal {
        None => sys::Group::Session,
        Some(terminal) => sys::Group::Terminal(terminal.is_in_front().then(|| terminal.descriptor().as_raw_fd())),
    };
    sys::start_in(group, &mut command, inherited);
    let child = command.spawn().map_err(|source| {
        let program = program.path.display().to_string();
        SuperviseFault::Start { program, source }
    })?;
    // The process is waited for by the reaper alone. Dropping `command` closes boxd's end of the agent's output.
    let agent = Pid::from_raw(child.id().cast_signed());
    Ok(Started { agent, pipes, terminal })
}

fn pipes(command: &mut Command, stdin: Option<&str>) -> Result<Pipes, SuperviseFault> {
    let streams = |fault: nix::Error| SuperviseFault::Streams(fault.into());
    let (stdout, into_stdout) = pipe2(OFlag::O_CLOEXEC).map_err(streams)?;
    let (stderr, into_stderr) = pipe2(OFlag::O_CLOEXEC).map_err(streams)?;
    command.stdin(stdin_of(stdin)?).stdout(into_stdout).stderr(into_stderr);
    Ok(Pipes { stdout, stderr })
}

/// Nothing, or a file in memory that holds the prompt: both are at their end after what they hold.
fn stdin_of(prompt: Option<&str>) -> Result<Stdio, SuperviseFault> {
    let Some(prompt) = prompt else {
        return Ok(Stdio::null());
    };
    let made: OwnedFd =
        memfd_create("prompt", MFdFlags::MFD_CLOEXEC).map_err(|fault| SuperviseFault::Streams(fault.into()))?;
    let mut file = File::from(made);
    file.write_all(prompt.as_bytes()).map_err(SuperviseFault::Streams)?;
    file.seek(SeekFrom::Start(0)).map_err(SuperviseFault::Streams)?;
    Ok(file.into())
}
