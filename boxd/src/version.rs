//! The versions: boxd's own, and an agent's by its own word, offline and without a run.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::exit;
use crate::find;
use crate::inputs::WantedVersion;
use crate::output;
use crate::say;

/// Prints boxd's version and how it is linked.
pub(crate) fn of_boxd() -> u8 {
    let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    let line = format!("boxd {} ({linked})\n", env!("CARGO_PKG_VERSION"));
    match io::stdout().write_all(line.as_bytes()).err().and_then(output::matters) {
        None => 0,
        Some(fault) => {
            say::line(&format!("print the version: {fault}"));
            exit::UNREPORTED
        }
    }
}

/// Becomes the agent's program with `--version`. Nothing is written, claimed or asked of anyone.
pub(crate) fn of_agent(wanted: &WantedVersion) -> u8 {
    let found = match find::find(wanted.agent, &wanted.agent_path, wanted.variables.get("PATH")) {
        Ok(found) => found,
        Err(fault) => {
            say::line(&fault);
            return fault.code();
        }
    };
    let mut command = Command::new(&found.program);
    command.args(&found.script).arg("--version").stdin(Stdio::null()).env_clear().envs(wanted.variables.iter());
    for (name, value) in QUIET {
        command.env(name, value);
    }
    let fault = command.exec();
    say::line(&format!("start {}: {fault}", found.program.display()));
    exit::NOT_EXECUTABLE
}

const QUIET: [(&str, &str); 3] =
    [("DISABLE_AUTOUPDATER", "1"), ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("PI_OFFLINE", "1")];
