//! The closed set of agents, and of the providers that serve them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A coding agent that a box can run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Agent {
    Pi,
    Claude,
    Codex,
}

/// Who answers an agent's model calls, and whose credential the gateway puts in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    Anthropic,
    Openai,
    OpenaiCodex,
}

/// A word that names no agent. Holds what was given, which is an argument of the user's and no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownAgent(pub String);

impl Agent {
    pub const ALL: [Self; 3] = [Self::Pi, Self::Claude, Self::Codex];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    /// The providers that can serve this agent, the preferred one first.
    #[must_use]
    pub const fn providers(self) -> &'static [Provider] {
        match self {
            Self::Claude => &[Provider::Anthropic],
            Self::Codex => &[Provider::OpenaiCodex, Provider::Openai],
            Self::Pi => &[Provider::Anthropic, Provider::OpenaiCodex, Provider::Openai],
        }
    }
}

impl Provider {
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::Openai, Self::OpenaiCodex];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::OpenaiCodex => "openai-codex",
        }
    }
}

impl FromStr for Agent {
    type Err = UnknownAgent;

    fn from_str(text: &str) -> Result<Self, UnknownAgent> {
        Self::ALL.into_iter().find(|agent| agent.as_str() == text).ok_or_else(|| UnknownAgent(text.to_owned()))
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for UnknownAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown agent {:?}: choose pi, claude or codex", self.0)
    }
}

impl std::error::Error for UnknownAgent {}

#[cfg(test)]
mod tests {
    use super::Agent;

    #[test]
    fn only_the_three_lower_case_names_are_agents() {
        for agent in Agent::ALL {
            assert_eq!(agent.as_str().parse::<Agent>(), Ok(agent));
        }
        for bad in ["Claude", " claude ", "", "/bin/sh", "claude\n", "gemini"] {
            let said = bad.parse::<Agent>().expect_err("no agent").to_string();
            assert!(said.contains(&format!("{bad:?}")) && said.contains("pi, claude or codex"), "{said}");
        }
    }
}
