//! The agents: pure functions from what a run is to files, arguments and variables, and from an output line to
//! what it says. Each agent is one file.

mod claude;
mod codex;
mod pi;
mod json;

use std::collections::BTreeMap;
use std::path::Path;

use box_spec::{Agent, Sentinel};
use thiserror::Error;

use crate::exit;

/// What an agent's own file needs to know of a run.
#[derive(Debug)]
pub(crate) struct Task<'a> {
    pub(crate) prompt: &'a str,
    /// What is added to the agent's own system text.
    pub(crate) system: Option<&'a str>,
    pub(crate) arguments: &'a [String],
    pub(crate) sentinels: &'a [Sentinel],
    /// The folder that the agent keeps its state in.
    pub(crate) home: &'a Path,
    pub(crate) uid: u32,
    /// The user has said what `IS_SANDBOX` is.
    pub(crate) sandbox_is_set: bool,
    pub(crate) standing: &'a Standing,
    /// The agent's own list of models, where it could be written to a file.
    pub(crate) catalog: Option<&'a Path>,
    /// RFC 3339 in UTC.
    pub(crate) now: &'a str,
}

/// The files of [`standing_files`] that are in the agent's home from before, by name.
pub(crate) type Standing = BTreeMap<&'static str, Vec<u8>>;

/// What is to be written, removed, set and passed so that the agent runs as the task says.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) files: Vec<PlannedFile>,
    pub(crate) arguments: Vec<String>,
    /// The prompt, where it does not fit into an argument. One channel: then it is not in `arguments`.
    pub(crate) stdin: Option<String>,
    pub(crate) variables: Vec<(&'static str, String)>,
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) struct PlannedFile {
    pub(crate) place: Place,
    pub(crate) name: &'static str,
    pub(crate) content: Content,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// The agent's own folder in the session.
    AgentHome,
    /// The user's `HOME`.
    UserHome,
}

#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// The file is ours alone.
    Whole(String),
    /// The file may be the user's: this one key is set in its JSON object, the rest stays.
    Merged { key: &'static str, value: bool },
    /// The file must not be there: it would be preferred to what the launch sets.
    Absent,
}

/// What an agent's final event says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

/// What a line of an agent's output says of its end.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Word {
    Final(Answer),
    /// A turn begins: an answer that was final before is not any more.
    Anew,
}

/// An argument of the caller's that contradicts what the launch fixes, or that the agent would not take.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum ArgumentRefused {
    #[error("the argument {0} cannot be passed to {1}: the launch sets it")]
    Fixed(String, Agent),
    #[error("{0} is no UUID: claude takes only a UUID for --session-id")]
    SessionId(String),
}

#[derive(Debug, Error)]
pub(crate) enum PlanFault {
    #[error(transparent)]
    Argument(#[from] ArgumentRefused),
    #[error("the house gave no sentinel that {agent} can use (it takes {wanted}): run `gateway check` on the host")]
    NoSentinel { agent: Agent, wanted: String },
    #[error(
        "the prompt has {found} characters and {agent} takes {limit} at most: put the rest into a file of the workspace"
    )]
    PromptLength { agent: Agent, found: usize, limit: usize },
    #[error("{path} {what}: correct it or remove it")]
    Standing { path: String, what: String },
}

impl PlanFault {
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Argument(_) | Self::PromptLength { .. } => exit::USAGE,
            Self::NoSentinel { .. } => exit::NO_CREDENTIAL,
            Self::Standing { .. } => exit::CANNOT_CREATE,
        }
    }

    /// A file of the agent's home is not as it must be.
    pub(crate) fn standing(home: &Path, name: &str, what: impl Into<String>) -> Self {
        Self::Standing { path: home.join(name).display().to_string(), what: what.into() }
    }

    fn no_sentinel(agent: Agent) -> Self {
        let wanted: Vec<&str> = agent.providers().iter().map(|provider| provider.as_str()).collect();
        Self::NoSentinel { agent, wanted: wanted.join(", ") }
    }
}

/// Everything that the launch of `agent` needs.
pub(crate) fn plan(agent: Agent, task: &Task<'_>) -> Result<Plan, PlanFault> {
    check_arguments(agent, task.arguments, task.system.is_some())?;
    match agent {
        Agent::Claude => claude::plan(task),
        Agent::Codex => codex::plan(task),
        Agent::Pi => pi::plan(task),
    }
}

/// Refuses arguments that contradict the fixed ones. `system`: text for the system prompt is given by the launch.
pub(crate) fn check_arguments(agent: Agent, arguments: &[String], system: bool) -> Result<(), ArgumentRefused> {
    let refused = match agent {
        Agent::Claude => return claude::check_arguments(arguments, system),
        Agent::Codex => codex::refused_argument(arguments, system),
        Agent::Pi => pi::refused_argument(arguments),
    };
    refused.map_or(Ok(()), |name| Err(ArgumentRefused::Fixed(name, agent)))
}

/// Hears an agent's output, line by line.
#[derive(Debug)]
pub(crate) enum Listener {
    Claude,
    Codex(codex::Heard),
    Pi(pi::Heard),
}

impl Listener {
    pub(crate) fn new(agent: Agent) -> Self {
        match agent {
            Agent::Claude => Self::Claude,
            Agent::Codex => Self::Codex(codex::Heard::default()),
            Agent::Pi => Self::Pi(pi::Heard::default()),
        }
    }

    /// What this line says of the end, if anything.
    pub(crate) fn hear(&mut self, line: &[u8]) -> Option<Word> {
        match self {
            Self::Claude => claude::hear(line),
            Self::Codex(heard) => heard.hear(line),
            Self::Pi(heard) => heard.hear(line),
        }
    }

    /// What the agent has said last, where its output ended before a final line.
    pub(crate) fn last_word(self) -> Option<Answer> {
        match self {
            Self::Claude => None,
            Self::Codex(heard) => heard.last_word(),
            Self::Pi(heard) => heard.last_word(),
        }
    }
}

/// Files in the agent's home that the plan must see, since something of the user's in them is kept.
pub(crate) const fn standing_files(agent: Agent) -> &'static [&'static str] {
    match agent {
        Agent::Claude => &[],
        Agent::Codex => codex::STANDING,
        Agent::Pi => pi::STANDING,
    }
}

/// The arguments with which the agent's program prints the list of models that is built into it, where it has one.
pub(crate) const fn catalog_arguments(agent: Agent) -> Option<&'static [&'static str]> {
    match agent {
        Agent::Codex => Some(codex::CATALOG),
        Agent::Claude | Agent::Pi => None,
    }
}

/// The npm package that holds the agent.
pub(crate) const fn package(agent: Agent) -> &'static str {
    match agent {
        Agent::Claude => "@anthropic-ai/claude-code",
        Agent::Codex => "@openai/codex",
        Agent::Pi => "@earendil-works/pi-coding-agent",
    }
}

/// The program of its own that the agent's package may bring for this processor: package and file.
pub(crate) fn native_programs(agent: Agent) -> Vec<(String, &'static str)> {
    match agent {
        Agent::Claude => claude::native_programs(),
        Agent::Codex => codex::native_programs(),
        Agent::Pi => Vec::new(),
    }
}

/// Whether the agent's package may be a script that is the agent itself, and not what starts its program.
pub(crate) const fn may_be_a_script(agent: Agent) -> bool {
    match agent {
        Agent::Claude | Agent::Pi => true,
        // Ended by force, codex's script leaves its program behind.
        Agent::Codex => false,
    }
}

/// The interpreter that may have been installed with an agent that is a script for node: package and file.
pub(crate) fn interpreters(agent: Agent) -> Vec<(String, &'static str)> {
    match agent {
        Agent::Claude | Agent::Codex => Vec::new(),
        Agent::Pi => pi::interpreters(),
    }
}

/// The name that npm packages give to this processor.
const fn processor() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" }
}

/// The kernel takes no single argument of 128 KiB.
const ARGUMENT_LIMIT: usize = 100 * 1024;
/// In milliseconds since 1970, as the agents count; the first of January 2126. Fits a JavaScript number.
const IN_A_CENTURY: u64 = 4_922_899_200_000;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod trial;
