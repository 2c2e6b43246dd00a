//! The house: what all connections share, built once from a configuration and never changed.

mod fixed;
mod rules;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use box_spec::{BoxId, Fingerprint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::box_key::BoxKey;
use crate::ca::{Ca, CaError};
use crate::config::{BoxConfig, Config, DoorConfig, Limits};
use crate::dial::Dialer;
use crate::drain::Drain;
use crate::files::{self, FileError};
use crate::flow::accept::door::{DoorFault, DoorListener};
use crate::flow::relay::Upstreams;
use crate::ledger::tail::TailFault;
use crate::ledger::{Ledger, LedgerError, count};
use crate::live::Live;
use crate::rate::Rate;
use crate::refresh::Refresher;
use crate::reload::Source;
use crate::runs::{RecordFault, Runs};
use crate::tls::{self, LeafConfigs};
use crate::vault::{Vault, VaultFault};

pub use fixed::Fixed;
pub use rules::Rules;

/// Everything that a request meets on its way.
pub struct House {
    /// What can change while the house stands.
    rules: RwLock<Arc<Rules>>,
    /// What cannot.
    pub fixed: Fixed,
    /// The file that the rules come from, and what became of it since the start.
    pub source: Source,
    pub live: Live,
    pub runs: Runs,
    pub ledger: Ledger,
    pub refresher: Refresher,
    pub leaves: LeafConfigs,
    pub upstreams: Upstreams,
    pub limits: Limits,
    pub drain: Drain,
    pub fingerprint: Fingerprint,
    pub ca_pem: String,
    /// Places for all connections of all boxes.
    pub connections: Arc<Semaphore>,
    pub boxes: Vec<Arc<BoxHouse>>,
    /// Held as long as the house stands: two gateways on one state would each think that the doors are theirs.
    _state: File,
}

/// What the house knows of one box.
pub struct BoxHouse {
    pub id: BoxId,
    /// What a run is begun under; a reload changes it for the next.
    settings: RwLock<Arc<BoxConfig>>,
    /// The key of its TCP door; a unix door has none.
    pub key: Option<BoxKey>,
    /// Where its door is, for the operator.
    pub door: String,
    pub connections: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    pub requests_rate: Rate,
    pub tunnels_rate: Rate,
}

/// A house that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum HouseFault {
    #[error("make the state folder")]
    State(#[source] FileError),
    #[error("another gateway uses the state folder {state}; stop it, or give this house a `state` of its own")]
    Taken { state: PathBuf },
    #[error(transparent)]
    Ca(#[from] CaError),
    #[error("read the secrets:\n{}", lines(.0))]
    Vault(Vec<VaultFault>),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("count in the ledger what runs under way did before")]
    Count(#[source] TailFault),
    #[error(transparent)]
    Runs(#[from] RecordFault),
    #[error("write the fingerprint for a box; `house_file` lies in a folder that the gateway can write to")]
    HouseFile(#[source] FileError),
    #[error(transparent)]
    Door(#[from] DoorFault),
}

impl House {
    /// Builds the house and opens its doors. Nothing is served yet.
    ///
    /// # Errors
    /// The first thing that stands in the way; a house is whole or not at all.
    pub fn build(config: Config) -> Result<(Arc<Self>, Vec<DoorListener>), HouseFault> {
        let fixed = Fixed::of(&config);
        let Config { file, digest, state, operator_socket: _, ledger, limits, dial, boxes, secrets, policy } = config;
        files::create_private_dir(&state).map_err(HouseFault::State)?;
        let Some(held) = files::lock_folder(&state).map_err(HouseFault::State)? else {
            return Err(HouseFault::Taken { state });
        };
        let vault = Vault::open(secrets).map_err(HouseFault::Vault)?;
        let ledger_file = ledger.file.clone();
        let ledger = Ledger::open(&ledger)?;
        let ids: Vec<BoxId> = boxes.iter().map(|of| of.id.clone()).collect();
        let runs = Runs::open(&state, &ids)?;
        count_back(&runs, &ledger, &ledger_file)?;
        // The first that needs chance, which the process has gathered by now.
        let ca = Arc::new(Ca::open_or_make(&state.join("ca"))?);
        let tls = Arc::new(tls::Upstreams::new(&ca));
        tell_fingerprint(&boxes, &ca.fingerprint())?;
        let mut doors = Vec::with_capacity(boxes.len());
        for of in &boxes {
            doors.push(DoorListener::open(&of.door)?);
        }
        let drain = Drain::default();
        let dialer = Arc::new(Dialer::new(&dial));
        let refresher = Refresher::new(Arc::clone(&dialer), Arc::clone(&tls), ledger.clone(), drain.clone());
        let upstreams = Upstreams::new(dialer, tls, &limits);
        let house = Self {
            source: Source::new(file),
            rules: RwLock::new(Arc::new(Rules { policy, vault, digest })),
            fixed,
            live: Live::default(),
            runs,
            ledger,
            refresher,
            fingerprint: ca.fingerprint(),
            ca_pem: ca.certificate_pem().to_owned(),
            leaves: LeafConfigs::new(ca, limits.leaf_cache),
            upstreams,
            drain,
            connections: Arc::new(Semaphore::new(limits.connections_total)),
            boxes: boxes.into_iter().map(|of| Arc::new(BoxHouse::new(of, &limits))).collect(),
            limits,
            _state: held,
        };
        Ok((Arc::new(house), doors))
    }

    /// What requests are judged and served by now.
    #[must_use]
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From here on these are the rules. What is under way by others that these do not allow is ended; tells how much.
    pub fn rule(&self, rules: Rules, boxes: Vec<BoxConfig>) -> usize {
        let rules = Arc::new(rules);
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&rules);
        for config in boxes {
            if let Some(of) = self.boxes.iter().find(|of| of.id == config.id) {
                *of.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
            }
        }
        let cut = self.live.cut_what_is_refused(&rules.policy);
        self.source.changed();
        cut
    }
}

impl BoxHouse {
    fn new(config: BoxConfig, limits: &Limits) -> Self {
        let (key, door) = match &config.door {
            DoorConfig::Socket(path) => (None, path.display().to_string()),
            DoorConfig::Network(door) => (Some(door.key.clone()), door.listen.to_string()),
        };
        Self {
            id: config.id.clone(),
            key,
            door,
            settings: RwLock::new(Arc::new(config)),
            connections: Arc::new(Semaphore::new(limits.connections_per_box)),
            requests: Arc::new(Semaphore::new(limits.requests_in_flight_per_box)),
            requests_rate: Rate::per_minute(limits.requests_per_minute_per_box),
            tunnels_rate: Rate::per_minute(limits.tunnels_per_minute_per_box),
        }
    }

    /// What its next run is begun under.
    #[must_use]
    pub fn settings(&self) -> Arc<BoxConfig> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A place for one more request, if the box has one left.
    #[must_use]
    pub fn request_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.requests).try_acquire_owned().ok()
    }
}

/// A box that is reached over a network pins the house before it shows anything. Its file is there before its door opens.
fn tell_fingerprint(boxes: &[BoxConfig], house: &Fingerprint) -> Result<(), HouseFault> {
    for of in boxes {
        if let DoorConfig::Network(door) = &of.door
            && let Some(file) = &door.house_file
        {
            files::write_shown(file, format!("{house}\n").as_bytes()).map_err(HouseFault::HouseFile)?;
        }
    }
    Ok(())
}

/// Refusals decide a verdict, so a restart must not forget them: the ledger has them all. It is read whole only where a run
/// was claimed and the line of its claim never came to be.
fn count_back(runs: &Runs, ledger: &Ledger, file: &Path) -> Result<(), HouseFault> {
    let mut unknown = Vec::new();
    for run in runs.waiting() {
        match ledger.left(&run.id) {
            Some(counts) => runs.counted(&run.id, counts.requests, counts.refusals),
            None => unknown.push(run.id.clone()),
        }
    }
    for (run, counts) in count::counts(file, unknown).map_err(HouseFault::Count)? {
        runs.counted(&run, counts.requests, counts.refusals);
    }
    Ok(())
}

fn lines(faults: &[VaultFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
