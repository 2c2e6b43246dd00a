//! The report: what boxd saw of a run, and what the house made of it.

use serde::{Deserialize, Serialize};

/// What ended the agent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// It ended by itself.
    Exit,
    /// The run reached its ceiling.
    Ceiling,
    /// boxd was asked to end it.
    Signal,
    /// It could not be started, or boxd failed.
    Error,
    /// Nothing happened for too long.
    Idle,
    /// An operator of the house stopped it.
    Operator,
}

/// What boxd saw. The house checks it against its own evidence and never lets it win.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub ended_by: EndedBy,
    /// boxd's exit code: the agent's own status, `128 + n` for a signal, or a code of boxd's own.
    pub exit_code: u8,
    /// The signal that ended the agent, if one did.
    pub signal: Option<i32>,
    /// Whether [`Report::exit_code`] is the agent's (`true`) or boxd's.
    pub agent_spoke: bool,
    /// What the agent's last event said went wrong, though its status may be 0. At most 500 bytes.
    pub agent_error: Option<String>,
    /// What boxd could not do. At most 500 bytes.
    pub error: Option<String>,
    pub stdout: StdoutRecord,
    /// Processes of the agent that outlived it and were ended.
    pub orphans: u32,
    /// The agent gave its final answer and did not exit; it was ended after a grace.
    pub lingered: bool,
    /// The version of the agent's package, where known.
    pub agent_version: Option<String>,
    /// RFC 3339 in UTC, by the box's clock.
    pub started: String,
    pub ended: String,
}

/// What the agent wrote to its standard output, so that a changed transcript shows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StdoutRecord {
    pub bytes: u64,
    /// SHA-256, 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// The transcript on disk holds all of it.
    pub kept: bool,
}

/// The house's answer to a report: where in the ledger it stands, and the verdict.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settled {
    /// The sequence number of the report's ledger line.
    pub sequence: u64,
    /// SHA-256 of that line, 64 lower-case hexadecimal digits.
    pub hash: String,
    pub verdict: RunVerdict,
}

/// How the house judges a run: its own evidence first, the box's word last.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunVerdict {
    Completed,
    /// With the reason, one sentence.
    Failed(String),
    /// The claim broke and no report came. Never a success.
    Lost(String),
}
