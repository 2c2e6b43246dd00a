//! The configuration: one TOML file, read whole or refused whole, every fault at once with line and column.
//!
//! text → [`raw`] (typed, with places) → [`convert`] (checked, with what it names). The rest of the program sees [`Config`] alone.

pub mod faults;
pub mod limits;
mod reader;
mod raw;
pub mod duration;
mod convert;
mod doors;
mod sending;
pub mod presets;
mod secrets;
mod grants;
mod effects;
mod egress;
mod exposures;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use box_spec::{Agent, BoxId};
use sha2::{Digest, Sha256};

use crate::box_key::BoxKey;
use crate::dial::DialConfig;
use crate::files;
use crate::ledger::Settings;
use crate::policy::Policy;
use crate::runs::Exposure;
use crate::vault::SecretConfig;

pub use faults::{ConfigFault, ConfigFaults};
pub use limits::Limits;

use faults::Faults;

/// Everything that the house is told. Paths are absolute.
#[derive(Debug)]
pub struct Config {
    /// The file that it was read from.
    pub file: PathBuf,
    /// SHA-256 of that file's text.
    pub digest: String,
    /// What the house keeps: `ca/`, `runs/`, the ledger.
    pub state: PathBuf,
    /// Where `gateway status` and `gateway runs` ask.
    pub operator_socket: PathBuf,
    pub ledger: Settings,
    pub limits: Limits,
    pub dial: DialConfig,
    pub boxes: Vec<BoxConfig>,
    /// In the order of the file; each source was looked at.
    pub secrets: Vec<SecretConfig>,
    pub policy: Policy,
}

/// One sandbox and its door.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoxConfig {
    pub id: BoxId,
    pub door: DoorConfig,
    pub agent: Agent,
    /// How long a run may last; `None` for as long as it likes.
    pub ceiling: Option<Duration>,
    /// A run here may attest a network of its own: what it sends there is neither judged nor recorded.
    pub unsafe_open_network: bool,
    /// A run here may go without a layer of its hardening, for a reason that it gives.
    pub unsafe_unhardened: bool,
    /// A run may start although the box holds a secret of the house.
    pub unsafe_secrets_in_box: bool,
    /// The secrets whose stand-ins its agent finds in its environment.
    pub exposures: Vec<Exposure>,
}

/// How a box reaches the house.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DoorConfig {
    /// The unix socket that this box alone is given.
    Socket(PathBuf),
    Network(NetworkDoor),
}

/// A TCP door: an address of its own, and the key of the one box that may claim there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkDoor {
    pub listen: SocketAddr,
    pub key: BoxKey,
    /// Where the house writes its fingerprint at its start, for a box that pins it by a file.
    pub house_file: Option<PathBuf>,
}

/// Where a house is: all that asking a running one takes. Paths are absolute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    pub state: PathBuf,
    pub operator_socket: PathBuf,
    pub ledger: PathBuf,
}

/// Reads the file, or says everything that is wrong with it.
pub fn load(path: &Path) -> Result<Config, ConfigFaults> {
    load_with(path, "")
}

/// The same as if more stood at the end of the file.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load_with(path: &Path, more: &str) -> Result<Config, ConfigFaults> {
    let (mut text, base) = read(path)?;
    text.push_str(more);
    parse(path, &text, &base)
}

/// Reads the text of the file whose relative paths begin at `base`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(path: &Path, text: &str, base: &Path) -> Result<Config, ConfigFaults> {
    let mut faults = Faults::default();
    let config = raw(text, &mut faults).and_then(|raw| convert::convert(raw, base, &mut faults));
    let config = config.map(|config| Config { file: path.to_owned(), digest: digest(text), ..config });
    match config {
        Some(config) if faults.is_empty() => Ok(config),
        _ => Err(faults.placed(path, text)),
    }
}

/// Finds the places of a house that runs. It was started with a good file: what is wrong with it or its secrets by now
/// must not keep its operator from asking.
///
/// # Errors
/// The file cannot be read, is no TOML or says no `state`.
pub fn places(path: &Path) -> Result<Places, ConfigFaults> {
    let (text, base) = read(path)?;
    let mut faults = Faults::default();
    let places = raw(&text, &mut faults).and_then(|raw| convert::places(&raw, &base));
    places.ok_or_else(|| faults.placed(path, &text))
}

/// The text of the file, and the folder that its relative paths begin at.
fn read(path: &Path) -> Result<(String, PathBuf), ConfigFaults> {
    let whole = |message: String| ConfigFaults::whole(path, message);
    let bytes =
        files::read_limited(path, LONGEST_FILE).map_err(|error| whole(format!("cannot be read ({})", error.kind())))?;
    let text = String::from_utf8(bytes).map_err(|_| whole("is not UTF-8".to_owned()))?;
    let absolute =
        std::path::absolute(path).map_err(|error| whole(format!("has no absolute path ({})", error.kind())))?;
    let base = absolute.parent().unwrap_or_else(|| Path::new("/"));
    Ok((text, base.to_owned()))
}

/// `None` where the text is no TOML; then there are faults.
fn raw(text: &str, faults: &mut Faults) -> Option<raw::RawConfig> {
    let (table, errors) = toml::de::DeTable::parse_recoverable(text);
    for error in &errors {
        faults.add(error.span().unwrap_or(0..0), format!("no TOML: {}", error.message()));
    }
    // What follows from a syntax error would only hide it.
    errors.is_empty().then(|| raw::read(&table, faults))
}

/// By which one text is told from another.
#[must_use]
pub fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Ten thousand grants take less than half of it.
const LONGEST_FILE: u64 = 4 * 1024 * 1024;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files there that the house would not")]
mod tests;
