//! The claim: how boxd asks for a run, what it is told, and what both say while the run lives.

use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Provider};
use crate::attest::Attestation;
use crate::exposed::Exposed;
use crate::marks::Marks;
use crate::names::{BoxId, Fingerprint, RunId, RunToken};
use crate::report::{EndedBy, Report, Settled};

/// The body of `POST /claim`. A field that the house does not know makes it refuse the claim.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The version of this protocol: [`crate::wire::PROTOCOL`].
    pub protocol: u32,
    /// The agent that the caller asks for; `None` takes the one of the box.
    pub agent: Option<Agent>,
    /// Whether boxd is PID 1 of its PID namespace, so that the namespace dies with it.
    pub namespace_init: bool,
    /// The version of boxd.
    pub boxd: String,
    /// Set only to take up a run again after the gateway restarted: the run's token proves it.
    pub reattach: Option<RunToken>,
    /// Not the agent runs but a command of the caller's, in the agent's place (`boxd exec`). Absent means no: an older house
    /// that does not know the word refuses the claim.
    #[serde(default, skip_serializing_if = "is_no")]
    pub command: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_no(value: &bool) -> bool {
    !*value
}

/// What boxd is given on the claim: all it needs to run one agent, and no secret.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Spec {
    pub run: RunId,
    pub box_id: BoxId,
    /// Opens the door for this run, and for nothing after it.
    pub token: RunToken,
    pub agent: Agent,
    /// The fingerprint of [`Spec::ca_pem`].
    pub house: Fingerprint,
    /// The certificate (never the key) that the house signs its leaves with, PEM.
    pub ca_pem: String,
    /// Seconds from the claim until the run is cut; `None` for no ceiling.
    pub ceiling_seconds: Option<u64>,
    /// The worthless credentials of this run, one for each provider that the house can serve.
    pub sentinels: Vec<Sentinel>,
    /// Every secret of the house, for the search before the agent starts; none where the run is taken up again.
    pub marks: Marks,
    /// The variables that hold the stand-ins of services' credentials.
    pub exposed: Vec<Exposed>,
    /// When the run was claimed, RFC 3339 in UTC.
    pub started: String,
}

/// A stand-in for a credential: of the right shape, worth nothing, minted for one run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sentinel {
    pub provider: Provider,
    pub kind: CredentialKind,
    /// The access token or the key.
    pub access: String,
    /// The refresh token, where the kind has one.
    pub refresh: Option<String>,
}

/// Which of a provider's two ways of authentication the real credential uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CredentialKind {
    /// A subscription login: an OAuth access token.
    Login,
    ApiKey,
}

/// One line from the box on the claim, after the upgrade.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromBox {
    Attest(Attestation),
    /// The one report of the run. A second one is refused and an alarm.
    Report(Report),
}

/// One line from the house on the claim, after the upgrade.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromHouse {
    Spec(Box<Spec>),
    /// The attestation is in the ledger; the agent may start.
    Go,
    /// The attestation does not do; the run is over.
    Unproven {
        which: String,
    },
    /// The house ends the run; boxd ends the agent at once and reports.
    Cut {
        ended_by: EndedBy,
    },
    /// The report is in the ledger.
    Settled(Settled),
}

/// The body of a refused claim.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClaimRefused {
    pub reason: ClaimReason,
    /// What happened, one sentence.
    pub said: String,
    /// What to do about it.
    pub hint: String,
    /// The run that holds the door, for [`ClaimReason::DoorTaken`] and [`ClaimReason::DoorShut`].
    pub run: Option<RunId>,
    /// Since when, RFC 3339.
    pub since: Option<String>,
}

/// Why a claim was refused: a closed list, each with the exit code that boxd ends with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimReason {
    /// Another run holds the door.
    DoorTaken,
    /// A run was lost here and something of it may live on; an operator must release the box.
    DoorShut,
    /// The agent asked for is not the one of the box.
    AgentDiffers,
    /// No credential for any provider of the agent.
    NoCredential,
    /// The token does not belong to a run that can be taken up.
    NothingToReattach,
    /// A TCP door wants its box key for a claim, and the one that was shown, if any, is another.
    WrongKey,
    /// The claim could not be read, or speaks another protocol.
    BadClaim,
    /// The house is going down.
    Draining,
    /// The ledger cannot be written; nothing starts unrecorded.
    LedgerDown,
}

impl ClaimReason {
    /// boxd's exit code for this refusal.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::DoorTaken | Self::DoorShut => 75,
            Self::AgentDiffers => 64,
            Self::NoCredential | Self::WrongKey => 78,
            Self::NothingToReattach | Self::Draining | Self::LedgerDown => 69,
            Self::BadClaim => 70,
        }
    }
}
