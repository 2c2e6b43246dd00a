//! Claim: ask the door for a run, and hold the connection that is the run.

mod http;
mod held;

use std::io;

use box_spec::wire::{CLAIM_PATH, HEALTH_PATH, Identity, PROTOCOL};
use box_spec::{Attestation, Claim, ClaimRefused, Fingerprint, FromBox, RunToken, Spec};
use thiserror::Error;

pub(super) use self::held::{Held, Told};
use self::http::{HttpFault, Lines, Reply};
use super::is_namespace_init;
use crate::exit;
use crate::inputs::Wanted;
use crate::trust;
use ::shim::Door;

/// What the house has given for this run.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) spec: Spec,
    /// The house was pinned before the claim.
    pub(super) pinned: bool,
}

/// Why there is no run.
#[derive(Debug, Error)]
pub(super) enum ClaimFault {
    #[error(
        "the gateway does not answer at {door}: start `gateway serve` on the host, and mount the folder of this box's door"
    )]
    NoDoor { door: String, source: io::Error },
    #[error(
        "this user may not open the door {door}: run boxd as the gateway's user, or let this one into the door's folder"
    )]
    BarredDoor { door: String, source: io::Error },
    #[error("what answers at {door} is no boxgate door: {what}")]
    NoHouse { door: String, what: String },
    #[error(
        "the door {door} belongs to the house {found}, and this box is pinned to {pinned}: correct BOXGATE_HOUSE or the mount"
    )]
    Foreign { door: String, found: Fingerprint, pinned: Fingerprint },
    #[error("the certificate that the house gave is not the one of its fingerprint {house}")]
    WrongCertificate { house: Fingerprint },
    #[error("the claim was refused: {}. {}{}", .0.said, .0.hint, holder(.0))]
    Refused(Box<ClaimRefused>),
    #[error("the house does not take what this box attests: {0}")]
    Unproven(String),
    #[error("the claim was lost before the agent started: {0}")]
    Lost(String),
}

impl ClaimFault {
    pub(super) const fn code(&self) -> u8 {
        match self {
            Self::NoDoor { .. } | Self::BarredDoor { .. } | Self::NoHouse { .. } | Self::Lost(_) => exit::UNAVAILABLE,
            Self::Foreign { .. } | Self::WrongCertificate { .. } => exit::FOREIGN_HOUSE,
            Self::Refused(refused) => refused.reason.exit_code(),
            Self::Unproven(_) => exit::UNPROVEN,
        }
    }
}

/// Asks for a run.
pub(super) async fn claim(wanted: &Wanted) -> Result<(Claimed, Held), ClaimFault> {
    if let Some(pinned) = &wanted.house {
        identify(&wanted.door, Some(pinned)).await?;
    }
    let (spec, lines) = open(&wanted.door, wanted.agent, wanted.command.is_some(), None).await?;
    if trust::fingerprint(&spec.ca_pem).as_ref() != Some(&spec.house) {
        return Err(ClaimFault::WrongCertificate { house: spec.house });
    }
    match &wanted.house {
        Some(pinned) if *pinned != spec.house => {
            Err(ClaimFault::Foreign { door: wanted.door.name().to_owned(), found: spec.house, pinned: pinned.clone() })
        }
        pinned => {
            let held = Held::new(wanted.door.clone(), wanted.agent, &spec, lines);
            let pinned = pinned.is_some();
            Ok((Claimed { spec, pinned }, held))
        }
    }
}

/// Tells the house what this box proves, and waits for its go.
pub(super) async fn attest(held: &mut Held, attestation: Attestation) -> Result<(), ClaimFault> {
    held.say(FromBox::Attest(attestation)).await;
    match held.told_in_time().await {
        Told::Go => Ok(()),
        Told::Unproven(which) => Err(ClaimFault::Unproven(which)),
        Told::Cut(ended_by) => Err(ClaimFault::Lost(format!("the house cut the run ({ended_by:?})"))),
        Told::Settled(_) => Err(ClaimFault::Lost("the house settled a report that was never given".to_owned())),
        Told::Lost(why) => Err(ClaimFault::Lost(why)),
    }
}

/// Which house is behind the door, and whether it is the one that it must be. Nothing of this box is told before that is known.
pub(super) async fn identify(door: &Door, pinned: Option<&Fingerprint>) -> Result<Identity, ClaimFault> {
    let reply = http::ask(door, "GET", HEALTH_PATH, None).await.map_err(|fault| refine(door, fault))?;
    let told = match reply {
        Reply::Answer { status: 200, body } => serde_json::from_slice::<Identity>(&body).ok(),
        Reply::Answer { .. } | Reply::Upgraded(_) => None,
    };
    match (told, pinned) {
        (Some(identity), Some(pinned)) if identity.house != *pinned => {
            Err(ClaimFault::Foreign { door: door.name().to_owned(), found: identity.house, pinned: pinned.clone() })
        }
        (Some(identity), _) => Ok(identity),
        (None, _) => Err(no_house(door, "it does not tell its identity")),
    }
}

/// Opens the claim's connection and reads the spec.
async fn open(
    door: &Door,
    agent: Option<box_spec::Agent>,
    command: bool,
    reattach: Option<RunToken>,
) -> Result<(Spec, Lines), ClaimFault> {
    let claim = Claim {
        protocol: PROTOCOL,
        agent,
        namespace_init: is_namespace_init(),
        boxd: env!("CARGO_PKG_VERSION").to_owned(),
        reattach,
        command,
    };
    let body = serde_json::to_vec(&claim).map_err(|_| no_house(door, "the claim cannot be written"))?;
    let reply = http::ask(door, "POST", CLAIM_PATH, Some(&body)).await.map_err(|fault| refine(door, fault))?;
    let mut lines = match reply {
        Reply::Upgraded(lines) => lines,
        Reply::Answer { status, body } => {
            return Err(match serde_json::from_slice::<ClaimRefused>(&body) {
                Ok(refused) if status >= 400 => ClaimFault::Refused(Box::new(refused)),
                _ => no_house(door, &format!("it answers a claim with {status}")),
            });
        }
    };
    match lines.next_in_time().await {
        Ok(box_spec::FromHouse::Spec(spec)) => Ok((*spec, lines)),
        Ok(_) => Err(no_house(door, "it does not begin with the spec")),
        Err(fault) => Err(refine(door, fault)),
    }
}

fn refine(door: &Door, fault: HttpFault) -> ClaimFault {
    match fault {
        HttpFault::Connect(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            ClaimFault::BarredDoor { door: door.name().to_owned(), source }
        }
        HttpFault::Connect(source) => ClaimFault::NoDoor { door: door.name().to_owned(), source },
        other => no_house(door, &crate::say::chain(&other)),
    }
}

fn no_house(door: &Door, what: &str) -> ClaimFault {
    ClaimFault::NoHouse { door: door.name().to_owned(), what: what.to_owned() }
}

fn holder(refused: &ClaimRefused) -> String {
    match (&refused.run, &refused.since) {
        (Some(run), Some(since)) => format!(" (run {run}, since {since})"),
        (Some(run), None) => format!(" (run {run})"),
        (None, _) => String::new(),
    }
}

#[cfg(test)]
mod tests;
