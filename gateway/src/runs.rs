//! Runs: which run holds which door. `docs/door.md` is the state machine that this file keeps.

mod grip;
mod mint;
mod record;
mod stop;
mod verdict;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use box_spec::{Agent, Attestation, BoxId, ClaimReason, RunId, RunToken, Sentinel};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use grip::{Grip, Reattach};
pub use mint::{Ask, Exposure, Minted};
pub use record::{LiveRun, RecordFault, RunKind, RunRecord, RunState, ServiceSentinel};

use grip::Grips;
use verdict::Evidence;

/// Every door of the house and what holds it.
pub struct Runs {
    doors: Mutex<HashMap<BoxId, Door>>,
    folder: PathBuf,
}

/// One launch of an agent, from its claim to its report.
pub struct Run {
    pub id: RunId,
    pub box_id: BoxId,
    pub agent: Agent,
    pub kind: RunKind,
    /// boxd is PID 1 of its PID namespace: when it dies, all of the box dies.
    pub namespace_init: bool,
    pub sentinels: Vec<Sentinel>,
    /// One for each secret that is exposed.
    pub service_sentinels: Vec<ServiceSentinel>,
    pub started: Timestamp,
    pub ceiling: Option<Duration>,
    token_digest: [u8; 32],
    cut_at: Option<Instant>,
    over: CancellationToken,
    stopped: CancellationToken,
    /// Which claim connection speaks for the run.
    grips: Grips,
    evidence: Evidence,
}

/// What a door is in. The edges between these are the methods of [`Runs`].
enum Door {
    Free,
    /// A run holds it; its claim connection is open.
    Held(Arc<Run>),
    /// The gateway restarted, or the claim at a TCP door broke; the run has until the deadline to take its claim up again.
    Waiting(Arc<Run>),
    /// A run was lost and something of it may live on.
    Shut(Arc<Run>),
}

/// A door that could not be claimed.
#[derive(Clone, Debug)]
pub struct Taken {
    pub reason: ClaimReason,
    pub run: Option<RunId>,
    pub since: Option<Timestamp>,
}

/// What is left of a lost run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterLoss {
    Freed,
    Shut,
}

/// What a door looks like from outside, for `gateway status` and `gateway runs`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct DoorView {
    pub box_id: BoxId,
    pub state: &'static str,
    pub run: Option<RunId>,
    pub since: Option<String>,
    pub refusals: u64,
    pub requests: u64,
}

impl Runs {
    /// Opens the registry below `folder` and takes up what an earlier gateway left: live runs wait for their
    /// boxd to reattach, shut doors stay shut.
    ///
    /// # Errors
    /// The folder cannot be made or read, or a record in it is damaged: a run is never forgotten silently.
    pub fn open(folder: &Path, boxes: &[BoxId]) -> Result<Self, RecordFault> {
        let mut doors: HashMap<BoxId, Door> = boxes.iter().map(|id| (id.clone(), Door::Free)).collect();
        for (live, shut) in record::read_live(folder)? {
            let run = Arc::new(Run::from_live(live, folder));
            // A box that was taken out of the configuration has no door any more, so nothing to hold.
            if let Some(door) = doors.get_mut(&run.box_id) {
                *door = if shut { Door::Shut(run) } else { Door::Waiting(run) };
            }
        }
        Ok(Self { doors: Mutex::new(doors), folder: folder.to_owned() })
    }

    /// Free → held. The run is on disk before it is returned, so that a restart finds it.
    ///
    /// # Errors
    /// [`ClaimError::Taken`] when a run holds the door, [`ClaimError::Record`] when it cannot be written.
    pub fn claim(&self, ask: Ask) -> Result<(Arc<Run>, RunToken), ClaimError> {
        let mut doors = self.lock();
        let door = doors.get_mut(&ask.box_id).ok_or(ClaimError::Taken(Taken {
            reason: ClaimReason::BadClaim,
            run: None,
            since: None,
        }))?;
        if let Some(taken) = door.taken() {
            return Err(ClaimError::Taken(taken));
        }
        let Minted { run, token } = mint::run(ask, &self.folder);
        record::write_live(&self.folder, &run.to_live()).map_err(ClaimError::Record)?;
        let run = Arc::new(run);
        *door = Door::Held(Arc::clone(&run));
        Ok((run, token))
    }

    /// The run that this token could take up now. It stays as it is.
    ///
    /// # Errors
    /// As [`Runs::reattach`].
    pub fn reattachable(&self, box_id: &BoxId, token: &RunToken, from: Reattach) -> Result<RunId, Taken> {
        let doors = self.lock();
        let run = doors.get(box_id).and_then(|door| door.to_take_up(token, from));
        run.map(|run| run.id.clone()).ok_or(NOTHING)
    }

    /// Waiting → held, for the one who knows the run's token; with [`Reattach::AlsoHeld`] held → held, too, by another
    /// connection, and the one before is let go.
    ///
    /// # Errors
    /// [`ClaimReason::NothingToReattach`] in every other case; which part was wrong is not told.
    pub fn reattach(&self, box_id: &BoxId, token: &RunToken, from: Reattach) -> Result<(Arc<Run>, Grip), Taken> {
        let mut doors = self.lock();
        let door = doors.get_mut(box_id).ok_or(NOTHING)?;
        let run = Arc::clone(door.to_take_up(token, from).ok_or(NOTHING)?);
        *door = Door::Held(Arc::clone(&run));
        let grip = run.grips.next();
        Ok((run, grip))
    }

    /// Held → waiting: the claim connection of this grip broke, and may come back. False where another has the run by now,
    /// or it is over.
    pub fn detach(&self, run: &Arc<Run>, grip: &Grip) -> bool {
        let mut doors = self.lock();
        match doors.get_mut(&run.box_id) {
            Some(door @ Door::Held(_)) if door.run().is_some_and(|holder| holder.id == run.id) && grip.holds() => {
                *door = Door::Waiting(Arc::clone(run));
                true
            }
            _ => false,
        }
    }

    /// Who presents this token at this door: the run that holds it, if the token is its own and it is not over.
    #[must_use]
    pub fn caller(&self, box_id: &BoxId, token: &RunToken) -> Option<Arc<Run>> {
        let presented = digest(token);
        match self.lock().get(box_id)? {
            Door::Held(run) | Door::Waiting(run) if run.token_digest == presented && !run.over.is_cancelled() => {
                Some(Arc::clone(run))
            }
            Door::Free | Door::Held(_) | Door::Waiting(_) | Door::Shut(_) => None,
        }
    }

    /// Held → held: the attestation does, and is on disk before the agent may start. The first of a run stands.
    ///
    /// # Errors
    /// The record cannot be written: a restart would not know that there is an agent.
    pub fn attest(&self, run: &Run, attestation: Attestation) -> Result<(), RecordFault> {
        if run.attested().is_some() {
            return Ok(());
        }
        record::write_live(&self.folder, &LiveRun { attested: Some(attestation.clone()), ..run.to_live() })?;
        run.attest(attestation);
        Ok(())
    }

    /// Held or waiting → free: the run ended and its verdict stands. The door is held until the disk knows it, so that
    /// the record of the next run cannot be mistaken for this one's.
    ///
    /// # Errors
    /// A record cannot be written or removed. The door is free all the same and the token dead.
    pub fn end(&self, run: &Arc<Run>, record: &RunRecord) -> Result<(), RecordFault> {
        run.over.cancel();
        let written = record::write_ended(&self.folder, record);
        // Also when that failed: what is left here would bring the run and its token back at the next start.
        let removed = record::remove_live(&self.folder, &run.box_id, &run.id);
        self.leave(run, Door::Free);
        written.and(removed)
    }

    /// Held or waiting → free or shut: the claim broke and no report came.
    ///
    /// # Errors
    /// The record cannot be written. The door is as returned all the same, and the token dead.
    pub fn lose(&self, run: &Arc<Run>, record: &RunRecord) -> (AfterLoss, Result<(), RecordFault>) {
        if run.namespace_init {
            return (AfterLoss::Freed, self.end(run, record));
        }
        run.over.cancel();
        let written = record::write_ended(&self.folder, record);
        let shut = record::shut_live(&self.folder, &run.box_id);
        self.leave(run, Door::Shut(Arc::clone(run)));
        (AfterLoss::Shut, written.and(shut))
    }

    /// Somebody without the token of the run that holds this door knocked at it: it counts against that run.
    pub fn intruded(&self, box_id: &BoxId) {
        match self.lock().get(box_id) {
            Some(Door::Held(run) | Door::Waiting(run)) => run.count_intrusion(),
            Some(Door::Free | Door::Shut(_)) | None => {}
        }
    }

    /// Shut → free, by an operator. `None` when the door was not shut.
    ///
    /// # Errors
    /// The record cannot be removed; the door stays shut then, since a restart would shut it again.
    pub fn release(&self, box_id: &BoxId) -> Result<Option<RunId>, RecordFault> {
        let mut doors = self.lock();
        let Some(door) = doors.get_mut(box_id) else { return Ok(None) };
        let Door::Shut(run) = &*door else { return Ok(None) };
        let id = run.id.clone();
        record::remove_live(&self.folder, box_id, &id)?;
        *door = Door::Free;
        Ok(Some(id))
    }

    /// The runs that wait for their boxd after a restart.
    #[must_use]
    pub fn waiting(&self) -> Vec<Arc<Run>> {
        self.lock()
            .values()
            .filter_map(|door| if let Door::Waiting(run) = door { Some(Arc::clone(run)) } else { None })
            .collect()
    }

    /// Takes up what an earlier gateway had counted of a waiting run.
    pub fn counted(&self, run: &RunId, requests: u64, refusals: u64) {
        for waiting in self.waiting().iter().filter(|waiting| waiting.id == *run) {
            waiting.had_counted(requests, refusals);
        }
    }

    /// Whether this very run still waits, and nobody came back for it since this grip.
    #[must_use]
    pub fn waits(&self, run: &Run, since: &Grip) -> bool {
        let waiting = matches!(self.lock().get(&run.box_id), Some(Door::Waiting(waiting)) if waiting.id == run.id);
        waiting && since.holds()
    }

    /// Whether the door could be claimed now.
    #[must_use]
    pub fn door_taken(&self, box_id: &BoxId) -> Option<Taken> {
        self.lock().get(box_id).and_then(Door::taken)
    }

    #[must_use]
    pub fn is_shut(&self, box_id: &BoxId) -> bool {
        matches!(self.lock().get(box_id), Some(Door::Shut(_)))
    }

    /// Every door, in the order of their boxes' names.
    #[must_use]
    pub fn view(&self) -> Vec<DoorView> {
        let mut all: Vec<DoorView> = self.lock().iter().map(|(id, door)| door.view(id)).collect();
        all.sort_by(|a, b| a.box_id.cmp(&b.box_id));
        all
    }

    fn leave(&self, run: &Arc<Run>, next: Door) {
        if let Some(door) = self.lock().get_mut(&run.box_id)
            && door.run().is_some_and(|holder| holder.id == run.id)
        {
            *door = next;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<BoxId, Door>> {
        // Every edge leaves the map whole, so a panic elsewhere while it was held spoils nothing.
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door {
    fn run(&self) -> Option<&Arc<Run>> {
        match self {
            Self::Free => None,
            Self::Held(run) | Self::Waiting(run) | Self::Shut(run) => Some(run),
        }
    }

    fn to_take_up(&self, token: &RunToken, from: Reattach) -> Option<&Arc<Run>> {
        let run = match (self, from) {
            (Self::Waiting(run), _) => run,
            // Before the word to go there is no agent, and nothing to take up.
            (Self::Held(run), Reattach::AlsoHeld) if run.attested().is_some() => run,
            (Self::Free | Self::Held(_) | Self::Shut(_), _) => return None,
        };
        Some(run).filter(|run| run.may_be_taken_up_with(token))
    }

    fn taken(&self) -> Option<Taken> {
        let reason = match self {
            Self::Free => return None,
            Self::Held(_) | Self::Waiting(_) => ClaimReason::DoorTaken,
            Self::Shut(_) => ClaimReason::DoorShut,
        };
        self.run().map(|run| Taken { reason, run: Some(run.id.clone()), since: Some(run.started) })
    }

    fn view(&self, box_id: &BoxId) -> DoorView {
        let state = match self {
            Self::Free => "free",
            Self::Held(_) => "held",
            Self::Waiting(_) => "waiting",
            Self::Shut(_) => "shut",
        };
        let run = self.run();
        DoorView {
            box_id: box_id.clone(),
            state,
            run: run.map(|run| run.id.clone()),
            since: run.map(|run| run.started.to_string()),
            refusals: run.map_or(0, |run| run.refusals()),
            requests: run.map_or(0, |run| run.requests()),
        }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("id", &self.id).field("box_id", &self.box_id).finish_non_exhaustive()
    }
}

impl Run {
    /// Resolves when the run ended, was lost or was cut: whatever it holds open is to be dropped.
    pub fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// The token dies and every tunnel of the run is cut.
    pub fn cut(&self) {
        self.over.cancel();
    }

    /// The connection that speaks for the run now.
    #[must_use]
    pub fn grip(&self) -> Grip {
        self.grips.now()
    }

    /// When the house cuts the run by itself.
    #[must_use]
    pub const fn cut_at(&self) -> Option<Instant> {
        self.cut_at
    }

    /// One that is over can still report, if it was cut at its ceiling or stopped while nobody held its claim.
    fn may_be_taken_up_with(&self, token: &RunToken) -> bool {
        self.token_digest == digest(token) && (!self.over.is_cancelled() || self.is_past_ceiling() || self.is_stopped())
    }
}

const NOTHING: Taken = Taken { reason: ClaimReason::NothingToReattach, run: None, since: None };

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("the door is taken")]
    Taken(Taken),
    #[error(transparent)]
    Record(RecordFault),
}

/// A token's digest: what is kept and compared, so that neither disk nor timing holds the token.
fn digest(token: &RunToken) -> [u8; 32] {
    Sha256::digest(token.expose().as_bytes()).into()
}

#[cfg(test)]
mod tests;
