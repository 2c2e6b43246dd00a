//! The checkpoint: the ledger's past up to one line, kept beside it, so that a start reads only what stands behind.
//!
//! It is bound to its line by number and hash, and is only written once that line is durable. It vouches for nothing: what
//! it skips is read after the start. Written whole or not at all; whatever is wrong with it, the whole ledger is read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use box_spec::{BoxId, RunId};
use serde::{Deserialize, Serialize};

use crate::files::{self, FileError};

use super::chain::{Receipt, hash_of, hex};
use super::entry::Caller;
use super::past::{Past, Tallies};
use super::pieces;

/// What is beside a ledger.
pub(super) enum Kept {
    /// Its line stands in the ledger where it says.
    Fits(Past),
    Nothing,
    /// It cannot be used; why.
    Useless(String),
    /// It is whole, and the ledger does not have the line that it was written at.
    Differs(Receipt),
}

/// Where the checkpoint of a ledger lies, and when the next is due.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    /// The length of the ledger at which the next is written.
    due: u64,
}

/// The words of the file, behind their own SHA-256 and a blank.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    version: u32,
    length: u64,
    lines: u64,
    /// The receipt of the last line.
    head: String,
    open: Vec<Open>,
    runs: Tallies,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Open {
    seq: u64,
    #[serde(rename = "box", skip_serializing_if = "Option::is_none")]
    box_id: Option<BoxId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
}

impl Keeper {
    /// For a ledger whose checkpoint stands at this length; 0 where it has none.
    pub(super) fn new(ledger: &Path, kept: u64) -> Self {
        Self { path: path_of(ledger), due: kept + EVERY }
    }

    /// What is to be written, and where, once it is durable: when the ledger has grown enough since the last one. The larger
    /// that was, the later the next.
    pub(super) fn due(&mut self, past: &Past) -> Option<(PathBuf, Past)> {
        if past.length < self.due {
            return None;
        }
        let words = (past.open.len() + past.tallies.len()) as u64 * WORDS;
        self.due = past.length + EVERY.max(words * SHARE);
        Some((self.path.clone(), past.clone()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads what is beside the ledger and holds it against the ledger itself.
pub(super) fn read(ledger: &Path, file: &File) -> io::Result<Kept> {
    let bytes = match files::read_limited(&path_of(ledger), LIMIT) {
        Ok(bytes) => bytes,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(Kept::Nothing),
        Err(fault) => return Ok(Kept::Useless(fault.to_string())),
    };
    let past = match parse(&bytes) {
        Ok(past) => past,
        Err(why) => return Ok(Kept::Useless(why.to_owned())),
    };
    Ok(if is_in_place(&past, file)? { Kept::Fits(past) } else { Kept::Differs(past.head) })
}

/// Writes it in the place of the one before, which stands until the new one is whole and durable.
pub(super) fn write(path: &Path, past: &Past) -> Result<(), FileError> {
    let bytes = words(past);
    let new = path.with_extension("checkpoint.new");
    // A gateway that was killed may have left one; whoever holds the ledger's lock is the only one who writes it.
    let _ = fs::remove_file(&new);
    let written = files::write_new(&new, &bytes).and_then(|()| files::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
        return written;
    }
    files::sync_folder(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new(".")))
}

/// The same. The ledger needs none: where it cannot be written, the next start only takes longer.
pub(super) fn write_or_tell(path: &Path, past: &Past) {
    if let Err(fault) = write(path, past) {
        let source = std::error::Error::source(&fault).map(ToString::to_string);
        tracing::warn!(source, "{fault}: the next start will read more of the ledger");
    }
}

fn words(past: &Past) -> Vec<u8> {
    let Past { length, lines, head, open, tallies } = past;
    let open = open.iter().map(|(seq, Caller { box_id, run_id })| Open {
        seq: *seq,
        box_id: box_id.clone(),
        run: run_id.clone(),
    });
    let words = Words {
        version: VERSION,
        length: *length,
        lines: *lines,
        head: head.to_string(),
        open: open.collect(),
        runs: tallies.clone(),
    };
    // Numbers, names and lists of them always have a JSON form.
    let json = serde_json::to_vec(&words).unwrap_or_default();
    [hex(&hash_of(&json)).as_bytes(), b" ", &json, b"\n"].concat()
}

fn parse(bytes: &[u8]) -> Result<Past, &'static str> {
    let json = bytes.strip_suffix(b"\n").and_then(|line| line.split_at_checked(65)).ok_or("it is torn")?;
    let (sum, json) = (json.0.strip_suffix(b" ").ok_or("it is torn")?, json.1);
    if sum != hex(&hash_of(json)).as_bytes() {
        return Err("it is torn or was changed");
    }
    let words: Words = serde_json::from_slice(json).map_err(|_| "another version of the gateway wrote it")?;
    let Words { version, length, lines, head, open, runs } = words;
    if version != VERSION {
        return Err("another version of the gateway wrote it");
    }
    let head = head.parse().map_err(|_| "it names no line")?;
    let open: BTreeMap<_, _> =
        open.into_iter().map(|Open { seq, box_id, run }| (seq, Caller { box_id, run_id: run })).collect();
    Ok(Past { length, lines, head, open, tallies: runs })
}

/// Whether the line that ends there is the one.
fn is_in_place(past: &Past, file: &File) -> io::Result<bool> {
    if past.length == 0 || file.metadata()?.len() < past.length {
        return Ok(false);
    }
    let start = past.length.saturating_sub(pieces::LIMIT as u64 + 1);
    let mut bytes = vec![0; usize::try_from(past.length - start).unwrap_or_default()];
    file.read_exact_at(&mut bytes, start)?;
    let Some((b'\n', before)) = bytes.split_last() else {
        return Ok(false);
    };
    let begins = before.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
    let Some(begins) = begins.or_else(|| (start == 0).then_some(0)) else {
        return Ok(false);
    };
    let number = format!("{{\"seq\":{},", past.head.sequence);
    Ok(before[begins..].starts_with(number.as_bytes()) && hash_of(&before[begins..]) == past.head.hash)
}

fn path_of(ledger: &Path) -> PathBuf {
    let mut name = ledger.file_name().unwrap_or_default().to_owned();
    name.push(".checkpoint");
    ledger.with_file_name(name)
}

const VERSION: u32 = 1;
/// The ledger grows by this much, in bytes, before the next is written: what a start reads at most, if few lines are open.
const EVERY: u64 = 1024 * 1024;
/// What an open line takes in it, in bytes, about.
const WORDS: u64 = 128;
/// The ledger grows by so many times its size before the next is written.
const SHARE: u64 = 4;
/// More than this is not read: some times what the most open lines take.
const LIMIT: u64 = 64 * 1024 * 1024;
