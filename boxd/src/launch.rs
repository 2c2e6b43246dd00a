//! THE LAUNCH: one run from the claim to the report. This is the only file that calls the steps.
//!
//! claim → `Claimed`; seed → `Seeded`; shim → `ShimUp`, proof that it listens; attest → the house's go;
//! supervise takes `ShimUp` → `Ended`; report → exit code. Whatever goes wrong after the claim is reported too.

mod claim;
mod seed;
mod shim;
mod supervise;
mod report;

use nix::sys::signal::Signal;
use nix::unistd::getpid;
use thiserror::Error;

use self::claim::{Claimed, Held};
use self::supervise::Ended;
use crate::inputs::Wanted;
use crate::signals::{self, Asked, ChildEnded};
use crate::{exit, lock, say, sys};

/// Runs one agent and gives boxd's exit code.
pub(crate) fn run(wanted: Wanted, inherited: sys::Inherited) -> u8 {
    let prepared = sys::close_to_others();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match (prepared, runtime) {
        (Ok(()), Ok(runtime)) => runtime,
        (Err(fault), _) => return own_fault(&format!("prepare this process: {fault}")),
        (_, Err(fault)) => return own_fault(&format!("start the runtime: {fault}")),
    };
    runtime.block_on(async {
        match signals::listen() {
            Ok((asked, children)) => journey(wanted, inherited, asked, children).await,
            Err(fault) => own_fault(&format!("listen to signals: {fault}")),
        }
    })
}

async fn journey(wanted: Wanted, inherited: sys::Inherited, mut asked: Asked, children: ChildEnded) -> u8 {
    let locked = match lock::check() {
        Ok(()) => true,
        Err(open) if wanted.unsafe_open_network => {
            say::line(&format!(
                "WARNING: the box is not locked: {}. What the agent sends there is neither judged nor recorded.",
                say::chain(&open)
            ));
            false
        }
        Err(open) => {
            say::line(&format!(
                "the box is not locked: {}. Let boxd make the box (boxd --isolate … run …), give yours no network but loopback (network_mode: none), or pass --unsafe-open-network",
                say::chain(&open)
            ));
            return exit::UNPROVEN;
        }
    };
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
    let ended = match governed(&wanted, &claimed, &mut held, locked, inherited, asked, children).await {
        Ok(ended) => ended,
        Err(fault) => {
            say::line(&say::chain(&fault));
            Ended::without_agent(fault.code(), &say::chain(&fault))
        }
    };
    report::report(&wanted, held, ended, started).await
}

/// The run itself, once it is claimed.
async fn governed(
    wanted: &Wanted,
    claimed: &Claimed,
    held: &mut Held,
    locked: bool,
    inherited: sys::Inherited,
    asked: Asked,
    children: ChildEnded,
) -> Result<Ended, LaunchFault> {
    let seeded = seed::seed(wanted, claimed, &inherited)?;
    sys::give_memory_back();
    let up = shim::raise(wanted, claimed, seeded).await?;
    claim::attest(held, up.attestation(claimed, locked)).await?;
    Ok(supervise::supervise(wanted, claimed, up, held, inherited, asked, children).await?)
}

/// What ended a launch, by its step.
#[derive(Debug, Error)]
enum LaunchFault {
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
fn is_namespace_init() -> bool {
    getpid().as_raw() == 1
}
