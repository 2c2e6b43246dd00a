//! THE LAUNCH: one run from the claim to the report. This is the only file that calls the steps.
//!
//! First boxd hardens itself and looks at the box's network (`Before`). Then: claim → `Claimed`; seed → `Seeded`; shim →
//! `ShimUp`, proof that it listens; attest → the house's go; supervise takes `ShimUp` → `Ended`; report → exit code.
//! A command (`boxd exec`) joins the run that is under way in the box, where there is one; else it is launched like an agent.
//! Whatever goes wrong after the claim is reported too. Before the go nothing of the image runs but what seed asks a version
//! or a list of models, without prompt, token or credential.

mod claim;
mod seed;
mod shim;
mod supervise;
mod report;
mod join;

use std::path::Path;

use ::shim::Door;
use box_spec::wire::Identity;
use box_spec::{Fingerprint, Layers, Searched};
use nix::sys::signal::Signal;
use nix::unistd::getpid;
use thiserror::Error;

use self::claim::{Claimed, Held};
use self::supervise::Ended;
use crate::environment::TakenAway;
use crate::inputs::Wanted;
use crate::lock::Network;
use crate::secrets::{Looked, Places};
use crate::signals::{self, Asked, ChildEnded};
use crate::{exit, harden, lock, reaper, say, secrets, sys, workspace};

/// Runs one agent and gives boxd's exit code.
pub(crate) fn run(mut wanted: Wanted, inherited: sys::Inherited) -> u8 {
    sys::keep_heap_small();
    if let Err(fault) = sys::close_to_others() {
        return own_fault(&format!("prepare this process: {fault}"));
    }
    let (before, inherited) = match prepare(&mut wanted, inherited) {
        Ok(prepared) => prepared,
        Err(unproven) => {
            say::line(&unproven);
            return exit::UNPROVEN;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(fault) => return own_fault(&format!("start the runtime: {fault}")),
    };
    runtime.block_on(async {
        match signals::listen() {
            Ok((asked, children)) => journey(wanted, before, inherited, asked, children).await,
            Err(fault) => own_fault(&format!("listen to signals: {fault}")),
        }
    })
}

/// What is settled before anyone is asked for a run.
struct Before {
    locked: bool,
    /// Why there is to be no run where the house grants one: then what answers on the network is no other run of this box.
    unlocked: Option<String>,
    network: Network,
    layers: Layers,
    /// Kept for the search alone.
    taken_away: TakenAway,
}

/// Hardens boxd, which has one thread yet, and looks at the box's network; the text says why there is to be no run.
fn prepare(wanted: &mut Wanted, inherited: sys::Inherited) -> Result<(Before, sys::Inherited), String> {
    let (layers, scope) = harden::harden(&wanted.left_out).map_err(|fault| say::chain(&fault))?;
    for (layer, reason) in wanted.left_out.iter() {
        say::line(&format!("WARNING: the agent runs without the layer {layer}: {reason}"));
    }
    if let Some(fault) = workspace::holds_the_house(&wanted.session) {
        return Err(format!("the workspace {fault}"));
    }
    if let Some(fault) = workspace::unwritable() {
        say::line(&format!("WARNING: the workspace {fault}."));
    }
    let (network, open) = lock::look(wanted.over_network);
    let mut unlocked = None;
    if let Some(open) = &open {
        let is_shared = matches!(open, lock::Open::Neighbour { .. });
        let open = say::chain(open);
        let fix = lock::fix(wanted.over_network.is_some());
        let refused = format!("the box is not locked: {open}. {fix}, or pass --unsafe-open-network");
        if !wanted.unsafe_open_network && !is_shared {
            return Err(refused);
        }
        unlocked = (!wanted.unsafe_open_network).then_some(refused);
        say::line(&format!(
            "WARNING: the box is not locked: {open}. What the agent sends there is neither judged nor recorded."
        ));
    }
    let taken_away = std::mem::take(&mut wanted.taken_away);
    Ok((Before { locked: open.is_none(), unlocked, network, layers, taken_away }, inherited.in_scope(scope)))
}

async fn journey(
    wanted: Wanted,
    before: Before,
    inherited: sys::Inherited,
    mut asked: Asked,
    children: ChildEnded,
) -> u8 {
    if wanted.command.is_some() {
        let sought = tokio::select! {
            sought = join::seek(&wanted) => sought,
            signal = asked.end_asked() => return before_any_run(signal),
        };
        match sought {
            Ok(Some(run)) => return join::join(&wanted, &run, inherited, asked, children).await,
            Ok(None) => {}
            Err(fault) => {
                say::line(&say::chain(&fault));
                return fault.code();
            }
        }
    }
    let claimed = tokio::select! {
        claimed = claim::claim(&wanted) => claimed,
        signal = asked.end_asked() => return before_any_run(signal),
    };
    let (claimed, mut held) = match claimed {
        Ok(claimed) => claimed,
        Err(fault) => {
            say::line(&say::chain(&fault));
            return fault.code();
        }
    };
    let started = report::now();
    let ended = match governed(&wanted, &claimed, &mut held, before, inherited, asked, children).await {
        Ok(ended) => ended,
        Err(fault) => {
            say::line(&say::chain(&fault));
            // Something may have been started before it went wrong.
            let rest = reaper::end_the_rest().await;
            let ended = Ended::without_agent(fault.code(), &say::chain(&fault));
            Ended { orphans: rest.orphans, survives: rest.survives, ..ended }
        }
    };
    report::report(&wanted, held, ended, started).await
}

/// The run itself, once it is claimed.
async fn governed(
    wanted: &Wanted,
    claimed: &Claimed,
    held: &mut Held,
    mut before: Before,
    inherited: sys::Inherited,
    asked: Asked,
    children: ChildEnded,
) -> Result<Ended, LaunchFault> {
    if let Some(unlocked) = before.unlocked.take() {
        return Err(LaunchFault::Unlocked(unlocked));
    }
    let seeded = seed::seed(wanted, claimed, &inherited)?;
    let secrets = search(wanted, claimed, &seeded.home, std::mem::take(&mut before.taken_away));
    sys::give_memory_back();
    let up = shim::raise(wanted, claimed, seeded).await?;
    claim::attest(held, up.attestation(claimed, &before, secrets)).await?;
    Ok(supervise::supervise(wanted, claimed, up, held, inherited, asked, children).await?)
}

/// Whether the box is free of the house's secrets, as far as it was searched.
struct Secrets {
    free: bool,
    searched: Searched,
}

/// Searches the box once, before there is an agent to be told of what is in it, and says where something was found.
fn search(wanted: &Wanted, claimed: &Claimed, home: &Path, taken_away: TakenAway) -> Secrets {
    let Wanted { variables, extra, session, .. } = wanted;
    let homes = [Some(home), variables.get("HOME").map(Path::new)];
    let places = Places { variables, extra, taken_away: &taken_away, session, homes };
    let Some(Looked { found, searched }) = places.marked(&claimed.spec.marks) else {
        say::line(&"the marks of the house's secrets cannot be read: use the boxd that came with this gateway");
        return Secrets { free: false, searched: Searched::default() };
    };
    if !found.is_empty() {
        let places = secrets::listed(&found);
        say::line(&format!(
            "a secret of the house is in this box, where the agent or another could take it: {places}. Take it out: the house puts it into the requests by itself"
        ));
    }
    for place in places.real_looking_variables().into_iter().filter(|place| !found.contains(place)) {
        say::line(&format!(
            "WARNING: {place} holds what looks like a credential. Take it out of this box: the house needs it, and no box does"
        ));
    }
    Secrets { free: found.is_empty(), searched }
}

/// Who is behind a door, and whether it is the house that it must be; the text says what is wrong.
pub(crate) async fn house_behind(door: &Door, pinned: Option<&Fingerprint>) -> Result<Identity, String> {
    claim::identify(door, pinned).await.map_err(|fault| say::chain(&fault))
}

/// What ended a launch, by its step.
#[derive(Debug, Error)]
enum LaunchFault {
    #[error("{0}")]
    Unlocked(String),
    #[error(transparent)]
    Claim(#[from] claim::ClaimFault),
    #[error(transparent)]
    Seed(#[from] seed::SeedFault),
    #[error(transparent)]
    Shim(#[from] ::shim::ShimFault),
    #[error(transparent)]
    Supervise(#[from] supervise::SuperviseFault),
}

impl LaunchFault {
    fn code(&self) -> u8 {
        match self {
            Self::Unlocked(_) => exit::UNPROVEN,
            Self::Claim(fault) => fault.code(),
            Self::Seed(fault) => fault.code(),
            Self::Shim(_) => exit::UNAVAILABLE,
            Self::Supervise(fault) => fault.code(),
        }
    }
}

fn before_any_run(signal: Signal) -> u8 {
    say::line(&format!("ended by {signal} before the run was claimed"));
    supervise::code_of_signal(signal as i32)
}

fn own_fault(text: &str) -> u8 {
    say::line(&text);
    exit::OWN_FAULT
}

/// Whether boxd is the init of its PID namespace, so that the namespace dies with it.
pub(crate) fn is_namespace_init() -> bool {
    getpid().as_raw() == 1
}
