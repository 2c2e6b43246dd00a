//! Records: what of a run is on disk. `live/BOX.json` while it holds a door (`BOX.shut` once it was lost there),
//! `live/RUN.stained` when something counts against it, `runs/RUN.json` once it ended.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use box_spec::{Agent, Attestation, BoxId, EndedBy, RunId, RunVerdict, Sentinel, StdoutRecord, VariableName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::files::{self, FileError};

/// What a restarted gateway needs to know a run again: the token's digest, never the token.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveRun {
    pub run: RunId,
    pub box_id: BoxId,
    pub agent: Agent,
    #[serde(default)]
    pub kind: RunKind,
    pub namespace_init: bool,
    pub sentinels: Vec<Sentinel>,
    /// None where an earlier gateway wrote the record.
    #[serde(default)]
    pub service_sentinels: Vec<ServiceSentinel>,
    pub started: Timestamp,
    pub ceiling_seconds: Option<u64>,
    pub token_digest: [u8; 32],
    pub refusals: u64,
    pub requests: u64,
    /// What its boxd proved, once it did: the agent may have started.
    pub attested: Option<Attestation>,
}

/// The stand-in of a service's secret: worth nothing, minted for one run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSentinel {
    /// The name of the secret.
    pub secret: String,
    pub value: String,
    pub variables: Vec<VariableName>,
}

/// The record of an ended run.
#[derive(Clone, Debug, Serialize)]
pub struct RunRecord {
    pub run: RunId,
    pub box_id: BoxId,
    pub kind: RunKind,
    pub state: RunState,
    pub agent: Agent,
    pub agent_version: Option<String>,
    pub started: Timestamp,
    pub ended: Timestamp,
    pub ended_by: Option<EndedBy>,
    pub exit_code: Option<u8>,
    /// The signal that ended the agent.
    pub signal: Option<i32>,
    pub error: Option<String>,
    pub requests: u64,
    pub refusals: u64,
    pub verdict: RunVerdict,
    /// Where the transcript lies in the box's session folder, and what the box says of it.
    pub transcript: String,
    pub stdout: Option<StdoutRecord>,
    /// The ledger line of the report, `sequence:hash`, where there was one.
    pub receipt: Option<String>,
}

/// What a run is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunKind {
    /// One prompt to its end.
    #[default]
    OneShot,
    /// A command of the caller's in the agent's place, a shell perhaps.
    Command,
}

impl RunKind {
    /// Who runs in it, as verdicts say it.
    pub(super) const fn who(self) -> &'static str {
        match self {
            Self::OneShot => "the agent",
            Self::Command => "the command",
        }
    }
}

/// How a run came to its end; one that lives has no such record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    Ended,
    /// Its claim broke, and nobody knows what became of the agent.
    Lost,
}

/// A record that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordFault {
    #[error("read the record of a run {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("understand the record of a run {path}; if the run is over, remove the file")]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("write the record of a run")]
    Write(#[from] FileError),
    #[error("remove the record of a run {path}")]
    Remove { path: PathBuf, source: io::Error },
}

/// A mark on disk that something counts against a run, made once, so that a restart does not wash it off.
pub(super) struct Stain {
    path: PathBuf,
    set: AtomicBool,
}

impl Stain {
    /// That of an earlier gateway, or none yet.
    pub(super) fn of(folder: &Path, run: &RunId) -> Self {
        let path = stain_path(folder, run);
        let set = AtomicBool::new(path.exists());
        Self { path, set }
    }

    pub(super) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    pub(super) fn set(&self) {
        if self.set.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Err(error) = files::append_private(&self.path) {
            tracing::error!(%error, source = ?std::error::Error::source(&error), "mark a run");
        }
    }
}

/// The runs that hold a door, and whether it is shut.
pub(super) fn read_live(folder: &Path) -> Result<Vec<(LiveRun, bool)>, RecordFault> {
    for name in [LIVE, ENDED] {
        let path = folder.join(name);
        files::create_private_dir(&path)?;
    }
    let live = folder.join(LIVE);
    let fault = |source| RecordFault::Read { path: live.clone(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&live).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        // A temporary file of a write that was cut short was never a record, and a stain is none.
        let shut = match path.extension().and_then(|ending| ending.to_str()) {
            Some(HELD) => false,
            Some(SHUT) => true,
            _ => continue,
        };
        let bytes = std::fs::read(&path).map_err(|source| RecordFault::Read { path: path.clone(), source })?;
        let live = serde_json::from_slice(&bytes).map_err(|source| RecordFault::Damaged { path, source })?;
        found.push((live, shut));
    }
    // A door that was shut stays shut, whatever else is said of it.
    found.sort_by_key(|(_, shut)| *shut);
    Ok(found)
}

pub(super) fn write_live(folder: &Path, live: &LiveRun) -> Result<(), RecordFault> {
    write(live_path(folder, &live.box_id, HELD), live)
}

pub(super) fn write_ended(folder: &Path, record: &RunRecord) -> Result<(), RecordFault> {
    write(folder.join(ENDED).join(format!("{}.json", record.run)), record)
}

/// Says on disk that the door is shut. Needs no space: the disk may be full.
pub(super) fn shut_live(folder: &Path, box_id: &BoxId) -> Result<(), RecordFault> {
    files::rename(&live_path(folder, box_id, HELD), &live_path(folder, box_id, SHUT))?;
    Ok(files::sync_folder(&folder.join(LIVE))?)
}

pub(super) fn remove_live(folder: &Path, box_id: &BoxId, run: &RunId) -> Result<(), RecordFault> {
    for path in [live_path(folder, box_id, HELD), live_path(folder, box_id, SHUT), stain_path(folder, run)] {
        match std::fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(RecordFault::Remove { path, source }),
        }
    }
    Ok(())
}

fn write(path: PathBuf, value: &impl Serialize) -> Result<(), RecordFault> {
    let bytes = serde_json::to_vec(value).map_err(|source| RecordFault::Damaged { path: path.clone(), source })?;
    Ok(files::write_private(&path, &bytes)?)
}

fn live_path(folder: &Path, box_id: &BoxId, ending: &str) -> PathBuf {
    folder.join(LIVE).join(format!("{box_id}.{ending}"))
}

fn stain_path(folder: &Path, run: &RunId) -> PathBuf {
    folder.join(LIVE).join(format!("{run}.stained"))
}

const LIVE: &str = "live";
const ENDED: &str = "runs";
const HELD: &str = "json";
const SHUT: &str = "shut";
