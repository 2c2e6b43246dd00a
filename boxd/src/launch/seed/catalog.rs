//! The list of models that is built into the agent, written to a file: with it the agent asks nobody for one.

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use box_spec::Agent;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::de::IgnoredAny;
use thiserror::Error;

use crate::agent;
use crate::files::{FileFault, Folder};
use crate::find::Found;
use crate::inputs::Wanted;
use crate::say;
use crate::sys::{self, Inherited};

/// The file, where the agent has such a list; one that was written for the same version is used again.
///
/// An agent that does not give its list starts without one, with a warning: it then asks the house for the list.
pub(super) fn catalog(
    agent: Agent,
    found: &Found,
    home: &Folder,
    wanted: &Wanted,
    inherited: &Inherited,
) -> Result<Option<PathBuf>, FileFault> {
    let Some(arguments) = agent::catalog_arguments(agent) else {
        return Ok(None);
    };
    let version = found.version.as_deref().filter(|version| is_plain(version));
    let name = format!("models-{}.json", version.unwrap_or("unknown"));
    let standing = home.read(&name, LIMIT + 1)?;
    if version.is_some() && standing.is_some_and(|bytes| is_object(&bytes)) {
        return Ok(Some(home.path().join(name)));
    }
    let mut command = Command::new(&found.program);
    command.args(&found.script).args(arguments).env_clear().envs(wanted.variables.iter());
    command.env("CODEX_HOME", home.path());
    match ask(command, inherited) {
        Ok(bytes) => home.write(&name, &bytes).map(Some),
        Err(fault) => {
            say::line(&format!("WARNING: {agent} does not give its list of models: {}", say::chain(&fault)));
            Ok(None)
        }
    }
}

#[derive(Debug, Error)]
enum AskFault {
    #[error("run {program}")]
    Run { program: String, source: io::Error },
    #[error("it took longer than {} s", PATIENCE.as_secs())]
    Late,
    #[error("it is longer than {LIMIT} bytes")]
    Long,
    #[error("what it printed is no JSON object")]
    Malformed,
}

/// Runs the program and takes what it prints. It is the only child there is yet, so it is waited for here.
fn ask(mut command: Command, inherited: &Inherited) -> Result<Vec<u8>, AskFault> {
    let program = Path::new(command.get_program()).display().to_string();
    let run = |source| AskFault::Run { program: program.clone(), source };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    sys::start_apart(&mut command, inherited.clone());
    let mut child = command.spawn().map_err(run)?;
    let printed = child.stdout.take().map_or_else(|| Ok(Vec::new()), |pipe| read(pipe).map_err(run)?);
    let _gone_already = child.kill();
    child.wait().map_err(run)?;
    let bytes = printed?;
    if is_object(&bytes) { Ok(bytes) } else { Err(AskFault::Malformed) }
}

/// Reads to the end, or until there is too much of it or it takes too long.
fn read(mut pipe: ChildStdout) -> io::Result<Result<Vec<u8>, AskFault>> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let ready = poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], left)?;
        if ready == 0 {
            return Ok(Err(AskFault::Late));
        }
        match pipe.read(&mut chunk)? {
            0 => return Ok(Ok(bytes)),
            count => bytes.extend_from_slice(&chunk[..count]),
        }
        if bytes.len() as u64 > LIMIT {
            return Ok(Err(AskFault::Long));
        }
    }
}

fn is_object(bytes: &[u8]) -> bool {
    serde_json::from_slice::<HashMap<String, IgnoredAny>>(bytes).is_ok_and(|object| !object.is_empty())
}

/// Whether a version can be part of a file's name.
fn is_plain(version: &str) -> bool {
    !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte))
}

/// 17 times what codex 0.171.0 prints.
const LIMIT: u64 = 16 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(10);
const CHUNK: usize = 64 * 1024;
