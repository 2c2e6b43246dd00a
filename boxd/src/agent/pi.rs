//! pi, as measured with 1.6.0: with these files and variables a run makes its model calls and no others.

mod arguments;
mod files;
mod heard;

use box_spec::Agent;

pub(super) use self::arguments::refused_argument;
pub(super) use self::files::STANDING;
pub(super) use self::heard::Heard;
use super::{ARGUMENT_LIMIT, Plan, PlanFault, Task};

pub(super) fn plan(task: &Task<'_>) -> Result<Plan, PlanFault> {
    let auth = files::credentials(task).ok_or_else(|| PlanFault::no_sentinel(Agent::Pi))?;
    let files = files::planned(task, auth)?;
    let (arguments, stdin) = arguments(task);
    let variables = [("PI_CODING_AGENT_DIR", task.home.display().to_string())].into_iter();
    let quiet = [("PI_OFFLINE", "1"), ("PI_SKIP_VERSION_CHECK", "1"), ("PI_TELEMETRY", "0")];
    let variables = variables.chain(quiet.map(|(name, value)| (name, value.to_owned()))).collect();
    Ok(Plan { files, arguments, stdin, variables })
}

/// npm packages that hold a node for this processor: package and file.
pub(super) fn interpreters() -> Vec<(String, &'static str)> {
    vec![(format!("node-linux-{}", super::processor()), "bin/node")]
}

/// The whole argument list, with the prompt or without it. A prompt that begins with `@` would be the name of a file.
fn arguments(task: &Task<'_>) -> (Vec<String>, Option<String>) {
    let mut arguments: Vec<String> = ["-p", "--mode", "json", "--no-extensions"].map(str::to_owned).into();
    if task.standing.contains_key(files::MCP) {
        arguments.extend(MCP_EXTENSIONS.iter().flat_map(|name| ["-e".to_owned(), (*name).to_owned()]));
    }
    // pi would read the folder of its sessions from the workspace, trusted or not.
    arguments.extend(["--session-dir".to_owned(), task.home.join("sessions").display().to_string()]);
    if task.system.is_some() {
        let file = task.home.join(files::SYSTEM).display().to_string();
        arguments.extend(["--append-system-prompt".to_owned(), file]);
    }
    if !task.arguments.iter().any(|given| TRUST.contains(&given.as_str())) {
        arguments.push("--no-approve".to_owned());
    }
    arguments.extend_from_slice(task.arguments);
    if task.prompt.len() > ARGUMENT_LIMIT || task.prompt.starts_with('@') {
        return (arguments, Some(task.prompt.to_owned()));
    }
    arguments.extend(["--".to_owned(), task.prompt.to_owned()]);
    (arguments, None)
}

/// What pi brings to reach the servers of `mcp.json`; no other extension is loaded.
const MCP_EXTENSIONS: [&str; 3] = ["builtin:mcp", "builtin:codemode", "builtin:tool-search"];
/// The user's word on the workspace's own `.pi` folder.
const TRUST: [&str; 4] = ["--approve", "-a", "--no-approve", "-na"];

#[cfg(test)]
mod tests;
