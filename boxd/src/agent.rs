//! The agents: pure functions from what a run is to files, arguments and variables, and from an output line to
//! what it says. Each agent is one file.

mod claude;

use std::path::Path;

use box_spec::{Agent, Provider, Sentinel};
use thiserror::Error;

use crate::exit;

/// What an agent's own file needs to know of a run.
#[derive(Debug)]
pub(crate) struct Task<'a> {
    pub(crate) prompt: &'a str,
    pub(crate) arguments: &'a [String],
    pub(crate) sentinels: &'a [Sentinel],
    /// The folder that the agent keeps its state in.
    pub(crate) home: &'a Path,
    pub(crate) uid: u32,
    /// The user has said what `IS_SANDBOX` is.
    pub(crate) sandbox_is_set: bool,
}

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

/// An argument of the caller's that contradicts what the launch fixes.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the argument {0} cannot be passed to {1}: the launch sets it")]
pub(crate) struct ArgumentRefused(pub(crate) String, pub(crate) Agent);

#[derive(Debug, Error)]
pub(crate) enum PlanFault {
    #[error("{0} is not supported by this version of boxd yet: choose claude")]
    NotYet(Agent),
    #[error(transparent)]
    Argument(#[from] ArgumentRefused),
    #[error("the house gave no sentinel for {provider}, which {agent} needs: run `gateway check` on the host")]
    NoSentinel { provider: Provider, agent: Agent },
}

impl PlanFault {
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::NotYet(_) | Self::Argument(_) => exit::USAGE,
            Self::NoSentinel { .. } => exit::NO_CREDENTIAL,
        }
    }
}

/// Everything that the launch of `agent` needs.
pub(crate) fn plan(agent: Agent, task: &Task<'_>) -> Result<Plan, PlanFault> {
    check_arguments(agent, task.arguments)?;
    match agent {
        Agent::Claude => claude::plan(task),
        Agent::Pi | Agent::Codex => Err(PlanFault::NotYet(agent)),
    }
}

/// Refuses arguments that contradict the fixed ones.
pub(crate) fn check_arguments(agent: Agent, arguments: &[String]) -> Result<(), ArgumentRefused> {
    let refused = match agent {
        Agent::Claude => claude::refused_argument(arguments),
        Agent::Pi | Agent::Codex => None,
    };
    refused.map_or(Ok(()), |name| Err(ArgumentRefused(name, agent)))
}

/// What a line of the agent's output says, where it is the final one.
pub(crate) fn final_answer(agent: Agent, line: &[u8]) -> Option<Answer> {
    match agent {
        Agent::Claude => claude::final_answer(line),
        Agent::Pi | Agent::Codex => None,
    }
}

/// The npm package that holds the agent, and the packages beside it that hold its native program, by C library.
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
        Agent::Pi | Agent::Codex => Vec::new(),
    }
}
