//! Join: a command beside the agent, in the run that another boxd of this box holds. It has no token, and needs none: the
//! shim serves the whole box.

use std::time::Duration;

use ::shim::{Loopback, run_at};
use box_spec::Agent;
use thiserror::Error;
use tokio::time::sleep;

use super::claim::{self, ClaimFault};
use super::supervise;
use crate::files::FileFault;
use crate::inputs::Wanted;
use crate::live::{self, Live, LiveFault};
use crate::signals::{Asked, ChildEnded};
use crate::{exit, files, say, sys, trust};

/// Why a command cannot run in this box now.
#[derive(Debug, Error)]
pub(super) enum JoinFault {
    #[error(transparent)]
    Claim(#[from] ClaimFault),
    #[error("look for a run that `boxd exec` could join")]
    Live(#[from] LiveFault),
    #[error(
        "run {run} of box {id} is under way in a network of its own (boxd --isolate, or another container): nothing outside of it can join; wait for its end"
    )]
    Elsewhere { run: String, id: String },
    #[error("run {run} of box {id} is under way, and its shim does not answer: it begins or ends just now; try again")]
    Silent { run: String, id: String },
    #[error(
        "a run of {agent} has the session {session} and does not tell of itself, so that nothing can join it: wait for its end"
    )]
    Untold { agent: Agent, session: String },
    #[error("the certificates of run {run} are not those of the house behind the door ({what}): start the run anew")]
    Trust { run: String, what: String },
    #[error(
        "--unsafe-without is nothing for a command that joins run {0}: the house was told how that run is hardened"
    )]
    LeftOut(String),
}

impl JoinFault {
    pub(super) const fn code(&self) -> u8 {
        match self {
            Self::Claim(fault) => fault.code(),
            Self::Live(LiveFault::File(FileFault::Barred { .. })) => exit::CANNOT_CREATE,
            Self::Live(_) | Self::Trust { .. } => exit::UNPROVEN,
            Self::Elsewhere { .. } | Self::Silent { .. } | Self::Untold { .. } => exit::TAKEN,
            Self::LeftOut(_) => exit::USAGE,
        }
    }
}

/// The run that is under way in this box, if there is one. A claim beside one would be an alarm, and count against it.
pub(super) async fn seek(wanted: &Wanted) -> Result<Option<Live>, JoinFault> {
    let identity = claim::identify(&wanted.door, wanted.house.as_ref()).await?;
    let network = live::own_network();
    let mut hindered = None;
    let told = live::told(&wanted.session)?;
    let untold = untold(wanted, &told);
    for run in told {
        if run.box_id != identity.box_id {
            continue;
        }
        let (name, id) = (run.run.to_string(), run.box_id.to_string());
        if run.network != network {
            if live::is_held(&run, &wanted.session) {
                hindered = Some(JoinFault::Elsewhere { run: name, id });
            }
        } else if answers(run.shim, &name).await {
            trusts(&run, &identity.house)?;
            return match wanted.left_out.iter().next() {
                Some(_) => Err(JoinFault::LeftOut(name)),
                None => Ok(Some(run)),
            };
        } else if live::is_held(&run, &run.session) {
            hindered = Some(JoinFault::Silent { run: name, id });
        }
    }
    hindered.or(untold).map_or(Ok(None), Err)
}

/// A run that has the home of its agent in this session, and a file nowhere.
fn untold(wanted: &Wanted, told: &[Live]) -> Option<JoinFault> {
    let mut agents = Agent::ALL.into_iter().filter(|agent| {
        wanted.agent.is_none_or(|wanted| wanted == *agent) && told.iter().all(|run| run.agent != *agent)
    });
    let agent = agents.find(|agent| live::is_at_home(*agent, &wanted.session))?;
    Some(JoinFault::Untold { agent, session: wanted.session.display().to_string() })
}

/// Runs the command to its end, or to the run's, and gives its exit code.
pub(super) async fn join(
    wanted: &Wanted,
    run: &Live,
    inherited: sys::Inherited,
    asked: Asked,
    children: ChildEnded,
) -> u8 {
    let environment = run.environment(&wanted.variables, &wanted.extra);
    let over = tokio::spawn(until_over(run.shim, run.run.to_string()));
    match supervise::accompany(wanted, &environment, inherited, asked, children, over).await {
        Ok(code) => code,
        Err(fault) => {
            say::line(&say::chain(&fault));
            fault.code()
        }
    }
}

/// The files that clients are told of are of the house behind the door, and nobody's else.
fn trusts(run: &Live, house: &box_spec::Fingerprint) -> Result<(), JoinFault> {
    let read = |path| {
        let bytes = files::read_own(path, CERTIFICATES).map_err(LiveFault::File)?.unwrap_or_default();
        Ok::<_, JoinFault>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let wrong = |what: &str| JoinFault::Trust { run: run.run.to_string(), what: what.to_owned() };
    let ca = read(&run.ca)?;
    if trust::fingerprint(&ca).as_ref() != Some(house) {
        return Err(wrong("another certificate alone"));
    }
    if !trust::holds(&read(&run.bundle)?, &ca) {
        return Err(wrong("the bundle lacks it"));
    }
    if !trust::wget_is_told(&run.bundle) {
        return Err(wrong("the settings of wget are not those that boxd writes"));
    }
    Ok(())
}

async fn answers(shim: Loopback, run: &str) -> bool {
    run_at(shim).await.is_ok_and(|serves| serves == run)
}

/// Waits until the shim serves the run no more; gives what to say of it.
async fn until_over(shim: Loopback, run: String) -> String {
    let mut missed = 0;
    while missed < MISSES {
        sleep(LOOK_EVERY).await;
        missed = if answers(shim, &run).await { 0 } else { missed + 1 };
    }
    format!("run {run} is over, and what joined it ends with it")
}

/// Of a file of certificates, in bytes: the image's own roots may be as long.
const CERTIFICATES: u64 = 16 * 1024 * 1024;
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// In a box that is short of processor time a shim may be late.
const MISSES: u32 = 3;
