//! Starting: from what was seeded to a process.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::{Pid, pipe2};

use super::{Started, SuperviseFault};
use crate::environment::Variables;
use crate::launch::seed::Seeded;
use crate::sys;

pub(super) fn start(
    seeded: &Seeded,
    environment: &Variables,
    inherited: sys::Inherited,
) -> Result<Started, SuperviseFault> {
    let streams = |fault: nix::Error| SuperviseFault::Streams(fault.into());
    let (stdout, into_stdout) = pipe2(OFlag::O_CLOEXEC).map_err(streams)?;
    let (stderr, into_stderr) = pipe2(OFlag::O_CLOEXEC).map_err(streams)?;
    let mut command = Command::new(&seeded.found.program);
    command.args(&seeded.found.script).args(&seeded.plan.arguments).env_clear().envs(environment.iter());
    command.stdin(stdin_of(seeded.plan.stdin.as_deref())?).stdout(into_stdout).stderr(into_stderr);
    if let Some(workspace) = &seeded.workspace {
        command.current_dir(workspace);
    }
    sys::start_apart(&mut command, inherited);
    let child = command
        .spawn()
        .map_err(|source| SuperviseFault::Start { program: seeded.found.program.display().to_string(), source })?;
    // The process is waited for by the reaper alone. Dropping `command` closes boxd's end of the agent's output.
    let agent = Pid::from_raw(child.id().cast_signed());
    Ok(Started { agent, stdout, stderr })
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
