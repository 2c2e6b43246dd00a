//! Minting: a run's id, its token and its sentinels.

mod chatgpt;

use std::path::Path;
use std::time::Duration;

use box_spec::wire::SENTINEL_MARK;
use box_spec::{Agent, BoxId, CredentialKind, Exposed, Provider, RunId, RunToken, Sentinel, VariableName};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::grip::Grips;
use super::record::{LiveRun, RunKind, ServiceSentinel, Stain};
use super::verdict::Evidence;
use super::{Run, digest};
use crate::vault::SecretName;

/// What a run is minted from.
pub struct Ask {
    pub box_id: BoxId,
    pub agent: Agent,
    pub kind: RunKind,
    pub namespace_init: bool,
    pub ceiling: Option<Duration>,
    /// The providers that the house can serve, and how their real credential authenticates.
    pub served: Vec<(Provider, CredentialKind)>,
    pub exposures: Vec<Exposure>,
}

/// A service's secret whose stand-in a box is given, and the variables that hold it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exposure {
    pub secret: SecretName,
    pub variables: Vec<VariableName>,
}

/// A new run, and the one copy of its token that will ever leave the house.
pub struct Minted {
    pub run: Run,
    pub token: RunToken,
}

/// Mints a run that starts now.
pub(super) fn run(ask: Ask, folder: &Path) -> Minted {
    let Ask { box_id, agent, kind, namespace_init, ceiling, served, exposures } = ask;
    let started = Timestamp::now();
    let token = token();
    let id = run_id(started);
    let run = Run {
        evidence: Evidence::new(0, 0, None, Stain::of(folder, &id)),
        id,
        box_id,
        agent,
        kind,
        namespace_init,
        sentinels: served.into_iter().map(|(provider, kind)| sentinel(provider, kind, started)).collect(),
        service_sentinels: exposures.into_iter().map(service_sentinel).collect(),
        started,
        ceiling,
        token_digest: digest(&token),
        cut_at: ceiling.map(|ceiling| Instant::now() + ceiling),
        over: CancellationToken::new(),
        stopped: CancellationToken::new(),
        grips: Grips::default(),
    };
    Minted { run, token }
}

/// A worthless credential that has the form of a real one of its provider, and says what it is.
fn sentinel(provider: Provider, kind: CredentialKind, now: Timestamp) -> Sentinel {
    let random = Uuid::new_v4().simple().to_string();
    let plain = |prefix: &str| format!("{prefix}-{SENTINEL_MARK}-{random}");
    let (access, refresh) = match (provider, kind) {
        (Provider::Anthropic, CredentialKind::Login) => (plain("sk-ant-oat01"), Some(plain("sk-ant-ort01"))),
        (Provider::Anthropic, CredentialKind::ApiKey) => (plain("sk-ant-api03"), None),
        (Provider::Openai | Provider::OpenaiCodex, CredentialKind::ApiKey) => (plain("sk-proj"), None),
        (Provider::Openai | Provider::OpenaiCodex, CredentialKind::Login) => {
            (chatgpt::token(&random, now), Some(plain("rt")))
        }
    };
    Sentinel { provider, kind, access, refresh }
}

/// The same for a service, of which no form is known.
fn service_sentinel(exposure: Exposure) -> ServiceSentinel {
    let Exposure { secret, variables } = exposure;
    let value = format!("{SENTINEL_MARK}-{}", Uuid::new_v4().simple());
    ServiceSentinel { secret: secret.as_str().to_owned(), value, variables }
}

impl Run {
    /// The sentinels of this run for one provider.
    pub fn sentinels_of(&self, provider: Provider) -> impl Iterator<Item = &Sentinel> {
        self.sentinels.iter().filter(move |sentinel| sentinel.provider == provider)
    }

    /// The sentinel of this run for a service's secret, where that is exposed.
    #[must_use]
    pub fn sentinel_for(&self, secret: &SecretName) -> Option<&str> {
        let own = self.service_sentinels.iter().find(|own| own.secret == secret.as_str());
        own.map(|own| own.value.as_str())
    }

    /// The variables that the box sets for its agent.
    #[must_use]
    pub fn exposed(&self) -> Vec<Exposed> {
        let each = |own: &ServiceSentinel| {
            let value = own.value.clone();
            own.variables
                .iter()
                .map(move |name| Exposed { name: name.clone(), value: value.clone() })
                .collect::<Vec<_>>()
        };
        self.service_sentinels.iter().flat_map(each).collect()
    }

    /// A run of an earlier gateway. Its ceiling goes on from where it was, by the wall clock.
    pub(super) fn from_live(live: LiveRun, folder: &Path) -> Self {
        let LiveRun {
            run,
            box_id,
            agent,
            kind,
            namespace_init,
            sentinels,
            service_sentinels,
            started,
            ceiling_seconds,
            token_digest,
            refusals,
            requests,
            attested,
        } = live;
        let ceiling = ceiling_seconds.map(Duration::from_secs);
        let cut_at = ceiling.map(|ceiling| {
            let gone = Timestamp::now().duration_since(started);
            let gone = if gone > SignedDuration::ZERO { gone.unsigned_abs() } else { Duration::ZERO };
            Instant::now() + ceiling.saturating_sub(gone)
        });
        Self {
            evidence: Evidence::new(refusals, requests, attested, Stain::of(folder, &run)),
            id: run,
            box_id,
            agent,
            kind,
            namespace_init,
            sentinels,
            service_sentinels,
            started,
            ceiling,
            token_digest,
            cut_at,
            over: CancellationToken::new(),
            stopped: CancellationToken::new(),
            grips: Grips::default(),
        }
    }

    pub(super) fn to_live(&self) -> LiveRun {
        LiveRun {
            run: self.id.clone(),
            box_id: self.box_id.clone(),
            agent: self.agent,
            kind: self.kind,
            namespace_init: self.namespace_init,
            sentinels: self.sentinels.clone(),
            service_sentinels: self.service_sentinels.clone(),
            started: self.started,
            ceiling_seconds: self.ceiling.map(|ceiling| ceiling.as_secs()),
            token_digest: self.token_digest,
            refusals: self.refusals(),
            requests: self.requests(),
            attested: self.attested().cloned(),
        }
    }
}

fn token() -> RunToken {
    Uuid::new_v4().hyphenated().to_string().parse().expect("a version 4 UUID in lower case is a run token")
}

fn run_id(started: Timestamp) -> RunId {
    let random = &Uuid::new_v4().simple().to_string()[..8];
    let text = format!("{}-{random}", started.strftime("%Y%m%dT%H%M%S"));
    text.parse().expect("the form of a run id is fixed")
}
