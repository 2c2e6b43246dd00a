//! `gateway replay`: the recorded requests judged anew by the policy of another configuration, and what changes. Reads the
//! ledger as a stream; asks no gateway and looks nothing up.

mod groups;
mod span;
mod told;

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use box_spec::BoxId;
use jiff::Timestamp;
use serde_json::json;

use crate::config::{self, ConfigFaults};
use crate::recorded::Recorded;
use crate::recorded::stream::{self, Left, Wanted};

use super::Exit;
use super::anew::{self, Candidate, Verdict};

use groups::Groups;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// The configuration whose policy is tried, a TOML file
    #[arg(long, value_name = "FILE", env = "BOXGATE_CONFIG")]
    config: PathBuf,
    #[command(flatten)]
    place: Place,
    /// From when on: a span before now, as 7d or 12h, or a time, as 2026-01-31T00:00:00Z [default: all there is]
    #[arg(long, value_name = "WHEN", value_parser = span::since)]
    since: Option<Timestamp>,
    /// Only requests of this box
    #[arg(long = "box", value_name = "BOX")]
    box_id: Option<BoxId>,
    /// Each request that changes or cannot be judged, one a line, before the summary
    #[arg(long)]
    each: bool,
    /// As JSON: the summary in one line, and each request in one
    #[arg(long)]
    json: bool,
}

/// Where the ledger is, if not where the configuration says.
#[derive(clap::Args, Debug)]
#[group(multiple = false)]
pub(super) struct Place {
    /// The ledger itself
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// The house's state folder, with the ledger in it
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// Why nothing could be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayFault {
    #[error(transparent)]
    Config(#[from] ConfigFaults),
    #[error("open ledger {}", .0.display())]
    Open(PathBuf, #[source] io::Error),
    #[error("read the ledger")]
    Read(#[source] io::Error),
    #[error("write the output")]
    Output(#[source] io::Error),
}

/// Judges what is recorded anew, and writes what changes.
///
/// # Errors
/// The candidate has faults, or the ledger cannot be read.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<Exit, ReplayFault> {
    let Arguments { config, place, since, box_id, each, json } = arguments;
    let config = config::load(config)?;
    let ledger = place.ledger(&config.ledger.file);
    let candidate = Candidate::of(config);
    let wanted = Wanted { since: *since, box_id: box_id.clone(), run: None };
    let mut groups = Groups::default();
    let mut written = Ok(());
    let left = read(&ledger, &wanted, |recorded| {
        let change = Change::of(&recorded, &candidate);
        if *each && change.is_told() && written.is_ok() {
            let one = change.each(&recorded);
            written = if *json { writeln!(out, "{one}") } else { writeln!(out, "{}", told::each(&one)) };
        }
        groups.add(&recorded, change);
    })?;
    written.map_err(ReplayFault::Output)?;
    let text = if *json { format!("{}\n", groups.json(left)) } else { told::summary(&groups, left) };
    out.write_all(text.as_bytes()).map_err(ReplayFault::Output)?;
    Ok(groups.exit(left))
}

/// What becomes of one recorded request.
struct Change {
    before: Verdict,
    after: Verdict,
}

impl Change {
    fn of(recorded: &Recorded, candidate: &Candidate) -> Self {
        Self { before: anew::before(recorded), after: candidate.judge(recorded) }
    }

    /// Another verdict. Another grant or another reason for the same one is none.
    fn is_change(&self) -> bool {
        self.before.word() != self.after.word() && !self.is_unknown()
    }

    const fn is_unknown(&self) -> bool {
        matches!(self.after, Verdict::Unknown(_))
    }

    fn is_told(&self) -> bool {
        self.is_change() || self.is_unknown()
    }

    fn each(&self, recorded: &Recorded) -> serde_json::Value {
        let asked = &recorded.asked;
        json!({
            "seq": asked.sequence,
            "time": asked.time.to_string(),
            "box": asked.box_id.as_str(),
            "run": asked.run.as_ref().map(box_spec::RunId::as_str),
            "target": asked.target.to_string(),
            "method": asked.method.as_ref().map(http::Method::as_str),
            "path": asked.path,
            "count": asked.count,
            "before": told::verdict(&self.before),
            "after": told::verdict(&self.after),
        })
    }
}

/// Reads a ledger as it lies there.
pub(super) fn read(ledger: &Path, wanted: &Wanted, give: impl FnMut(Recorded)) -> Result<Left, ReplayFault> {
    let file = File::open(ledger).map_err(|source| ReplayFault::Open(ledger.to_owned(), source))?;
    stream::read(BufReader::with_capacity(BUFFER, file), wanted, give).map_err(ReplayFault::Read)
}

impl Place {
    pub(super) fn ledger(&self, configured: &Path) -> PathBuf {
        match self {
            Self { ledger: Some(file), .. } => file.clone(),
            Self { state: Some(folder), .. } => folder.join("ledger.jsonl"),
            Self { ledger: None, state: None } => configured.to_owned(),
        }
    }
}

impl ReplayFault {
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Config(_) | Self::Open(..) => Exit::Usage,
            // Who asked has heard enough.
            Self::Output(fault) if fault.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Self::Read(_) | Self::Output(_) => Exit::Internal,
        }
    }
}

const BUFFER: usize = 256 * 1024;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]
mod tests;
