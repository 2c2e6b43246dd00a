//! Reload: the configuration read again while the house stands. It is taken whole or not at all, and the last good one stays.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::signal::unix::Signal;
use tokio::sync::watch;

use crate::config::{self, Config, ConfigFaults};
use crate::house::{Fixed, House, Rules};
use crate::ledger::{Entry, Kind, LedgerError};
use crate::vault::VaultFault;

/// The file of the configuration, and what became of it.
pub struct Source {
    file: PathBuf,
    standing: Mutex<Standing>,
    /// One reload at a time.
    turn: tokio::sync::Mutex<()>,
    changes: watch::Sender<u64>,
}

struct Standing {
    since: Timestamp,
    /// The last reading of the file, where it was not taken: when, and why.
    refused: Option<(Timestamp, String)>,
}

/// Who wanted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    Signal,
    /// The file changed.
    File,
    Operator,
}

/// A configuration that is the house's now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applied {
    pub digest: String,
    /// How many requests were under way that it does not allow, and were ended.
    pub cut: usize,
}

/// A configuration that was not taken. The one before stays in force.
#[derive(Debug, thiserror::Error)]
pub enum NotApplied {
    #[error("{0}")]
    Faults(ConfigFaults),
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Secrets(Vec<VaultFault>),
    #[error("what cannot change while the gateway runs has changed, so that nothing of the file was taken: {}; put it back, or restart the gateway", .0.join(", "))]
    NeedsRestart(Vec<String>),
    #[error("the reload could not be recorded, so that nothing of the file was taken: {0}")]
    Ledger(LedgerError),
    #[error("the file could not be looked at")]
    Internal,
}

impl Source {
    #[must_use]
    pub fn new(file: PathBuf) -> Self {
        let standing = Standing { since: Timestamp::now(), refused: None };
        Self {
            file,
            standing: Mutex::new(standing),
            turn: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// Hears of every change of the rules from here on.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The rules changed.
    pub fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// For `gateway status`.
    #[must_use]
    pub fn status(&self, digest: &str) -> Value {
        let standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let Standing { since, refused } = &*standing;
        let refused = refused.as_ref().map(|(when, why)| json!({ "when": when.to_string(), "why": why }));
        json!({ "file": self.file, "sha256": digest, "since": since.to_string(), "refused": refused })
    }

    fn stands(&self, refused: Option<String>) {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        match refused {
            Some(why) => standing.refused = Some((Timestamp::now(), why)),
            None => *standing = Standing { since: Timestamp::now(), refused: None },
        }
    }

    fn is_refused(&self) -> bool {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).refused.is_some()
    }

    /// What the file was, for as long as it is said to be bad and is the old one again.
    fn is_good_again(&self) {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).refused = None;
    }
}

/// Reads the file and takes it, if it is good and needs no restart. Written down first: rules that nobody can read of are none.
///
/// # Errors
/// Why it was not taken; that is in the log, the ledger and the status as well.
pub async fn reload(house: &House, why: Why) -> Result<Applied, NotApplied> {
    let _turn = house.source.turn.lock().await;
    let taken = take(house, why).await;
    match &taken {
        Ok(Applied { digest, cut }) => {
            house.source.stands(None);
            tracing::info!(why = why.word(), config = %digest, cut, "the configuration was reloaded");
        }
        Err(fault) => {
            house.source.stands(Some(fault.to_string()));
            tracing::error!(why = why.word(), "the configuration was not reloaded, and the one before stays: {fault}");
            let said = fault.to_string();
            let entry = entry(why, false).fact("faults", said.lines().take(FAULTS).collect::<Vec<_>>());
            if let Err(error) = house.ledger.note(entry).await {
                tracing::error!(%error, "record a reload that was refused");
            }
        }
    }
    taken
}

async fn take(house: &House, why: Why) -> Result<Applied, NotApplied> {
    let file = house.source.file.clone();
    let read = tokio::task::spawn_blocking(move || config::load(&file)).await.map_err(|_| NotApplied::Internal)?;
    let config = read.map_err(NotApplied::Faults)?;
    let differing = house.fixed.differences(&Fixed::of(&config));
    if !differing.is_empty() {
        return Err(NotApplied::NeedsRestart(differing));
    }
    let Config { digest, boxes, secrets, policy, .. } = config;
    let before = house.rules();
    let vault = before.vault.reopened(secrets).map_err(NotApplied::Secrets)?;
    let entry = entry(why, true)
        .fact("config", digest.as_str())
        .fact("before", before.digest.as_str())
        .fact("grants", policy.grants().len());
    house.ledger.note(entry).await.map_err(NotApplied::Ledger)?;
    let cut = house.rule(Rules { policy, vault, digest: digest.clone() }, boxes);
    Ok(Applied { digest, cut })
}

fn entry(why: Why, applied: bool) -> Entry {
    Entry::new(Kind::Config).fact("applied", applied).fact("why", why.word())
}

/// Reloads at every SIGHUP, and whenever the file has changed and then been left alone for a moment. Never ends.
pub async fn keep_up(house: &House, mut hang_up: Signal) {
    let file = &house.source.file;
    let mut seen = stamp(file);
    let mut read = seen;
    loop {
        tokio::select! {
            said = hang_up.recv() => {
                if said.is_none() {
                    std::future::pending::<()>().await;
                }
                read = stamp(file);
                // What it says of a fault is told already, wherever it is looked for.
                let _ = reload(house, Why::Signal).await;
            }
            () = tokio::time::sleep(EVERY) => {
                let now = stamp(file);
                // A file that is still being written is not read: a half of it might be a good one.
                let is_settled = now == seen;
                seen = now;
                if is_settled && now != read {
                    read = now;
                    changed(house).await;
                }
            }
        }
    }
}

/// The file is another, or was written anew. What says the same as before is no change.
async fn changed(house: &House) {
    let text = std::fs::read_to_string(&house.source.file);
    if text.is_ok_and(|text| config::digest(&text) == house.rules().digest) {
        if house.source.is_refused() {
            house.source.is_good_again();
            tracing::info!("the configuration is again what the gateway serves by");
        }
        return;
    }
    let _ = reload(house, Why::File).await;
}

/// What tells one state of the file from another; `None` where there is none.
fn stamp(file: &Path) -> Option<(u64, u64, u64, i64, i64)> {
    let found = std::fs::metadata(file).ok()?;
    Some((found.dev(), found.ino(), found.size(), found.mtime() * NANOS + found.mtime_nsec(), found.ctime()))
}

impl Why {
    const fn word(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::File => "file",
            Self::Operator => "operator",
        }
    }
}

const EVERY: Duration = Duration::from_millis(500);
const NANOS: i64 = 1_000_000_000;
/// Of a bad file, in the ledger; the log and the status have them all.
const FAULTS: usize = 5;
