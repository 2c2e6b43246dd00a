//! Claim: ask the door for a run, and hold the connection that is the run.

mod http;
mod held;

use std::io;

use box_spec::wire::{Identity, PROTOCOL, proof_text};
use box_spec::{Agent, Attestation, Claim, ClaimRefused, Fingerprint, FromBox, RunToken, Spec};
use thiserror::Error;

pub(super) use self::held::{Held, Told};
use self::http::{HttpFault, Lines, Reply};
use super::is_namespace_init;
use crate::exit;
use crate::inputs::Wanted;
use crate::network_door::NetworkDoor;
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
        "the gateway does not answer at {door}: start `gateway serve` on the host, and mount the folder of this box's door, or join its network"
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
    let way = Way { door: wanted.door.clone(), network_door: wanted.network_door.clone() };
    let asked = Asked { agent: wanted.agent, command: wanted.command.is_some(), reattach: None };
    let (spec, lines) = way.open(wanted.house.as_ref(), asked).await?;
    if trust::fingerprint(&spec.ca_pem).as_ref() != Some(&spec.house) {
        return Err(ClaimFault::WrongCertificate { house: spec.house });
    }
    match &wanted.house {
        Some(pinned) if *pinned != spec.house => {
            Err(ClaimFault::Foreign { door: wanted.door.name().to_owned(), found: spec.house, pinned: pinned.clone() })
        }
        pinned => {
            let held = Held::new(way, wanted.agent, &spec, lines);
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
    let mut lines = http::open(door).await.map_err(|fault| refine(door, fault))?;
    identify_on(&mut lines, door, pinned).await
}

async fn identify_on(lines: &mut Lines, door: &Door, pinned: Option<&Fingerprint>) -> Result<Identity, ClaimFault> {
    let told = match http::identity(lines).await.map_err(|fault| refine(door, fault))? {
        (200, body) => serde_json::from_slice::<Identity>(&body).ok(),
        _ => None,
    };
    match (told, pinned) {
        (Some(identity), Some(pinned)) if identity.house != *pinned => {
            Err(ClaimFault::Foreign { door: door.name().to_owned(), found: identity.house, pinned: pinned.clone() })
        }
        (Some(identity), _) => Ok(identity),
        (None, _) => Err(no_house(door, "it does not tell its identity")),
    }
}

/// The way to the house, again and again.
#[derive(Clone, Debug)]
struct Way {
    door: Door,
    network_door: Option<NetworkDoor>,
}

/// What a claim asks for.
struct Asked {
    agent: Option<Agent>,
    /// A command, in the agent's place.
    command: bool,
    reattach: Option<RunToken>,
}

impl Way {
    /// Opens the claim's connection and reads the spec. A pinned house is told nothing before it is known; at a TCP door,
    /// whose house is always pinned, the key is proved on the very connection that the claim is made on.
    async fn open(&self, pinned: Option<&Fingerprint>, asked: Asked) -> Result<(Spec, Lines), ClaimFault> {
        let door = &self.door;
        let connect = || async { http::open(door).await.map_err(|fault| refine(door, fault)) };
        let Some(network_door) = &self.network_door else {
            if pinned.is_some() {
                identify(door, pinned).await?;
            }
            return ask(door, connect().await?, asked, None).await;
        };
        let mut lines = connect().await?;
        let identity = identify_on(&mut lines, door, pinned).await?;
        let challenge = identity.challenge.ok_or_else(|| no_house(door, "it asks for no box key"))?;
        let proof = network_door.prove(&proof_text(&identity.house, &identity.box_id, &challenge));
        ask(door, lines, asked, Some(&proof)).await
    }
}

async fn ask(door: &Door, lines: Lines, asked: Asked, proof: Option<&str>) -> Result<(Spec, Lines), ClaimFault> {
    let Asked { agent, command, reattach } = asked;
    let claim = Claim {
        protocol: PROTOCOL,
        agent,
        namespace_init: is_namespace_init(),
        boxd: env!("CARGO_PKG_VERSION").to_owned(),
        reattach,
        command,
    };
    let body = serde_json::to_vec(&claim).map_err(|_| no_house(door, "the claim cannot be written"))?;
    let reply = http::claim(lines, &body, proof).await.map_err(|fault| refine(door, fault))?;
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
