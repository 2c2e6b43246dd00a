//! Claim: the one connection by which boxd asks for a run. It stays open, and it is the run.

mod key;
mod dialogue;
mod proof;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use box_spec::wire::{CLAIM_UPGRADE, PROTOCOL};
use box_spec::{Claim, ClaimReason, ClaimRefused, CredentialKind, Provider};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::upgrade::OnUpgrade;
use tokio::sync::oneshot;

use crate::config::BoxConfig;
use crate::house::{BoxHouse, House};
use crate::ledger::{Entry, Kind};
use crate::refusal::{Reason, Refusal};
use crate::runs::{Ask, ClaimError, Grip, Reattach, Run, RunKind, Taken};

pub use settle::{never_began, record_of, until_taken_up};

/// Answers `POST /claim`: 101 and the dialogue of the run, or a refusal that says what to do.
/// At a TCP door the key comes first: without it nothing of the claim is read.
pub async fn begin(
    house: Arc<House>,
    here: Arc<BoxHouse>,
    challenge: Option<&str>,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let (mut head, body) = request.into_parts();
    if !key::is_proven(&house, &here, challenge, &head.headers) {
        return refuse(&house, &here, key::refused());
    }
    let upgrade = head.extensions.remove::<OnUpgrade>();
    let claim = match understand(&head, body).await {
        Ok(claim) => claim,
        Err(refused) => return refuse(&house, &here, refused),
    };
    let Some(upgrade) = upgrade else {
        return refuse(&house, &here, bad("ask for the upgrade that docs/door.md names"));
    };
    // A client that goes away drops this future. What holds the door from here on must not go with it.
    let (answer, answered) = oneshot::channel();
    tokio::spawn(take(house, here, claim, upgrade, answer));
    answered.await.unwrap_or_else(|_| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

/// Takes the door for the claim, and holds it to the end of the run.
async fn take(
    house: Arc<House>,
    here: Arc<BoxHouse>,
    claim: Claim,
    upgrade: OnUpgrade,
    answer: oneshot::Sender<Response<Full<Bytes>>>,
) {
    let opened = match open(&house, &here, &claim).await {
        Ok(opened) => opened,
        Err(refused) => {
            let _nobody_waits = answer.send(refuse(&house, &here, refused));
            return;
        }
    };
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(CLAIM_UPGRADE));
    // Where nobody waits, the upgrade fails at once.
    let _nobody_waits = answer.send(response);
    dialogue::hold(house, here, opened, claim.namespace_init, upgrade).await;
}

/// A run whose claim was accepted, with the token to tell boxd.
struct Opened {
    run: Arc<Run>,
    grip: Grip,
    token: box_spec::RunToken,
    /// The run was taken up again: its agent may be running.
    taken_up: bool,
}

async fn understand(head: &http::request::Parts, body: Incoming) -> Result<Claim, ClaimRefused> {
    let asks =
        head.headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(CLAIM_UPGRADE.as_bytes()));
    if !asks {
        return Err(bad("send `Upgrade: boxgate-claim`"));
    }
    let read = tokio::time::timeout(CLAIM_DEADLINE, Limited::new(body, CLAIM_LIMIT).collect()).await;
    let bytes = match read {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(_)) => return Err(bad("send a claim of at most 16 KiB")),
        Err(_) => return Err(bad("send the whole claim at once")),
    };
    let claim: Claim = serde_json::from_slice(&bytes).map_err(|_| bad("use the boxd that came with this gateway"))?;
    if claim.protocol != PROTOCOL {
        return Err(bad(
            "boxd and gateway speak different versions of the claim; use the boxd that came with this gateway",
        ));
    }
    Ok(claim)
}

async fn open(house: &House, here: &BoxHouse, claim: &Claim) -> Result<Opened, ClaimRefused> {
    if house.drain.has_started() {
        return Err(refused(ClaimReason::Draining, "the house is going down", "try again when it is back"));
    }
    if let Some(token) = &claim.reattach {
        // Written first: a run that is taken up and then not recorded would be held by nobody.
        let from = if here.key.is_some() { Reattach::AlsoHeld } else { Reattach::Waiting };
        let id = house.runs.reattachable(&here.id, token, from).map_err(|taken| occupied(here, taken))?;
        note(house, Entry::new(Kind::Reattached).box_id(&here.id).run_id(&id)).await?;
        let (run, grip) = house.runs.reattach(&here.id, token, from).map_err(|taken| occupied(here, taken))?;
        return Ok(Opened { run, grip, token: token.clone(), taken_up: true });
    }
    // Who holds the door comes first: an intruder must not learn what else would have been wrong.
    if let Some(taken) = house.runs.door_taken(&here.id) {
        return Err(occupied(here, taken));
    }
    let settings = here.settings();
    let agent = agent_of(&settings, claim)?;
    let served = served(house, here, agent)?;
    let ask = Ask {
        box_id: here.id.clone(),
        agent,
        kind: if claim.command { RunKind::Command } else { RunKind::OneShot },
        namespace_init: claim.namespace_init,
        ceiling: settings.ceiling,
        served,
        exposures: settings.exposures.clone(),
    };
    let (run, token) = house.runs.claim(ask).map_err(|error| match error {
        ClaimError::Taken(taken) => occupied(here, taken),
        ClaimError::Record(fault) => {
            tracing::error!(%fault, source = ?std::error::Error::source(&fault), "claim");
            refused(
                ClaimReason::LedgerDown,
                "the house cannot write the record of a run",
                "an operator must free space in its state folder",
            )
        }
    })?;
    if let Err(refused) = note(house, line_of(&run, claim)).await {
        settle::abandon(house, &run, "the ledger could not be written").await;
        return Err(refused);
    }
    Ok(Opened { grip: run.grip(), run, token, taken_up: false })
}

fn line_of(run: &Run, claim: &Claim) -> Entry {
    let entry = Entry::new(Kind::Claim).box_id(&run.box_id).run_id(&run.id).fact("agent", run.agent.as_str());
    let entry = if run.kind == RunKind::Command { entry.fact("command", true) } else { entry };
    let entry = entry
        .fact("boxd", claim.boxd.chars().take(64).collect::<String>())
        .fact("namespace_init", claim.namespace_init)
        .fact("ceiling_seconds", run.ceiling.map(|ceiling| ceiling.as_secs()));
    let exposed: Vec<_> = run.exposed().into_iter().map(|exposed| exposed.name.to_string()).collect();
    if exposed.is_empty() { entry } else { entry.fact("exposed", exposed) }
}

fn agent_of(here: &BoxConfig, claim: &Claim) -> Result<box_spec::Agent, ClaimRefused> {
    match claim.agent {
        Some(asked) if asked != here.agent => Err(refused(
            ClaimReason::AgentDiffers,
            &format!("box {} runs {}, and {asked} was asked for", here.id, here.agent),
            "leave --agent out, or change `agent` of this [[box]] in the house's configuration",
        )),
        Some(_) | None => Ok(here.agent),
    }
}

fn served(
    house: &House,
    here: &BoxHouse,
    agent: box_spec::Agent,
) -> Result<Vec<(Provider, CredentialKind)>, ClaimRefused> {
    let rules = house.rules();
    let served: Vec<_> = agent
        .providers()
        .iter()
        .filter_map(|provider| rules.vault.available(*provider).map(|kind| (*provider, kind)))
        .collect();
    if served.is_empty() {
        let names: Vec<_> = agent.providers().iter().map(|provider| provider.as_str()).collect();
        return Err(refused(
            ClaimReason::NoCredential,
            &format!("box {} runs {agent}, and the house has no credential for {}", here.id, names.join(" or ")),
            "give the house one: a [[secret]] with `env`, `file` or `folder` in its configuration, or a login by `gateway login`; `gateway status` shows what it has",
        ));
    }
    Ok(served)
}

async fn note(house: &House, entry: Entry) -> Result<(), ClaimRefused> {
    match house.ledger.note(entry).await {
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::error!(%error, "record a claim");
            Err(refused(
                ClaimReason::LedgerDown,
                "the house cannot write its ledger",
                "an operator must free space for it; `gateway status` says what is wrong",
            ))
        }
    }
}

/// Tells the refusal, writes its line, and raises the alarm where somebody was at a door that is not theirs.
fn refuse(house: &House, here: &BoxHouse, refused: ClaimRefused) -> Response<Full<Bytes>> {
    let code = reason_code(refused.reason);
    let reason = recorded_as(refused.reason);
    let refusal = Refusal::new(reason, refused.said.clone(), format!("claim refused: {code}"));
    let entry = || Entry::new(Kind::Refused).box_id(&here.id).refusal(&refusal);
    match refused.reason {
        ClaimReason::DoorTaken | ClaimReason::DoorShut | ClaimReason::NothingToReattach => {
            house.ledger.alarm(reason.code(), entry())
        }
        // At a free door a wrong key is most often a mistake; where a run holds it, somebody else knocks.
        ClaimReason::WrongKey if house.runs.door_taken(&here.id).is_some() => {
            house.ledger.alarm(reason.code(), entry())
        }
        ClaimReason::WrongKey
        | ClaimReason::AgentDiffers
        | ClaimReason::NoCredential
        | ClaimReason::BadClaim
        | ClaimReason::Draining
        | ClaimReason::LedgerDown => house.ledger.refused(entry()),
    }
    // A boxd that wants its run back meets these two without any fault of its box.
    if !matches!(refused.reason, ClaimReason::Draining | ClaimReason::LedgerDown) {
        house.runs.intruded(&here.id);
    }
    let body = serde_json::to_vec(&refused).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = match refused.reason {
        ClaimReason::DoorTaken | ClaimReason::DoorShut => StatusCode::CONFLICT,
        ClaimReason::NothingToReattach | ClaimReason::NoCredential | ClaimReason::WrongKey => StatusCode::FORBIDDEN,
        ClaimReason::AgentDiffers | ClaimReason::BadClaim => StatusCode::BAD_REQUEST,
        ClaimReason::Draining | ClaimReason::LedgerDown => StatusCode::SERVICE_UNAVAILABLE,
    };
    response
}

/// What a refused claim is in the ledger: what the house cannot do is an outage, as anywhere else.
const fn recorded_as(reason: ClaimReason) -> Reason {
    match reason {
        ClaimReason::DoorTaken | ClaimReason::DoorShut | ClaimReason::AgentDiffers | ClaimReason::BadClaim => {
            Reason::ClaimRefused
        }
        ClaimReason::NothingToReattach => Reason::ReattachRefused,
        ClaimReason::WrongKey => Reason::KeyRefused,
        ClaimReason::NoCredential => Reason::CredentialOutage,
        ClaimReason::Draining => Reason::Draining,
        ClaimReason::LedgerDown => Reason::LedgerDown,
    }
}

fn occupied(here: &BoxHouse, taken: Taken) -> ClaimRefused {
    let Taken { reason, run, since } = taken;
    let since = since.map(|since| since.to_string());
    let holder = run.as_ref().map_or_else(|| "a run".to_owned(), |run| format!("run {run}"));
    let (said, hint) = match reason {
        ClaimReason::DoorShut => (
            format!("the door of box {} is shut: {holder} was lost here and something of it may live on", here.id),
            format!("end what is left of it, then `gateway runs release {}`", here.id),
        ),
        ClaimReason::NothingToReattach => {
            (format!("there is no run of box {} that this token could take up", here.id), "start a new run".to_owned())
        }
        ClaimReason::DoorTaken
        | ClaimReason::AgentDiffers
        | ClaimReason::NoCredential
        | ClaimReason::WrongKey
        | ClaimReason::BadClaim
        | ClaimReason::Draining
        | ClaimReason::LedgerDown => (
            format!("the door of box {} is held by {holder}", here.id),
            "wait for it to end, or declare another [[box]] for parallel runs".to_owned(),
        ),
    };
    ClaimRefused { reason, said, hint, run, since }
}

fn bad(hint: &str) -> ClaimRefused {
    refused(ClaimReason::BadClaim, "the claim could not be understood", hint)
}

fn refused(reason: ClaimReason, said: &str, hint: &str) -> ClaimRefused {
    ClaimRefused { reason, said: said.to_owned(), hint: hint.to_owned(), run: None, since: None }
}

fn reason_code(reason: ClaimReason) -> String {
    serde_json::to_value(reason).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

const CLAIM_LIMIT: usize = 16 * 1024;
const CLAIM_DEADLINE: Duration = Duration::from_secs(10);
