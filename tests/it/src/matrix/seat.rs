//! Seats: an agent, its login, and its way to the model.

use box_spec::{Agent, Provider};
use harness::{Bare, BoxRun, House, HouseBuilder};
use standin::{Fault, Real, Rule, StandIn};

/// Who is run, with what credential, by which transport.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) name: &'static str,
    pub(crate) agent: Agent,
    pub(crate) provider: Provider,
    pub(crate) login: bool,
    pub(crate) transport: Transport,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    /// Server-sent events, the only one that there is.
    Events,
    /// Server-sent events, since the house refuses WebSockets.
    Fallback,
    WebSocket,
}

pub(crate) const SEATS: [Seat; 11] = [
    seat("claude_login", Agent::Claude, Provider::Anthropic, true, Transport::Events),
    seat("claude_key", Agent::Claude, Provider::Anthropic, false, Transport::Events),
    seat("codex_login_websocket", Agent::Codex, Provider::OpenaiCodex, true, Transport::WebSocket),
    seat("codex_login_events", Agent::Codex, Provider::OpenaiCodex, true, Transport::Fallback),
    seat("codex_key_websocket", Agent::Codex, Provider::Openai, false, Transport::WebSocket),
    seat("codex_key_events", Agent::Codex, Provider::Openai, false, Transport::Fallback),
    seat("pi_anthropic_login", Agent::Pi, Provider::Anthropic, true, Transport::Events),
    seat("pi_anthropic_key", Agent::Pi, Provider::Anthropic, false, Transport::Events),
    seat("pi_codex_websocket", Agent::Pi, Provider::OpenaiCodex, true, Transport::WebSocket),
    seat("pi_codex_events", Agent::Pi, Provider::OpenaiCodex, true, Transport::Fallback),
    seat("pi_openai_key", Agent::Pi, Provider::Openai, false, Transport::Events),
];

const fn seat(name: &'static str, agent: Agent, provider: Provider, login: bool, transport: Transport) -> Seat {
    Seat { name, agent, provider, login, transport }
}

impl Seat {
    /// The real credential, which only the house holds.
    pub(crate) fn real(&self) -> Real {
        match (self.provider, self.login) {
            (Provider::Anthropic, true) => Real::Bearer("sk-ant-oat01-REAL-of-the-matrix-3b7e".into()),
            (Provider::Anthropic, false) => Real::ApiKey("sk-ant-api03-REAL-of-the-matrix-91d0".into()),
            (Provider::OpenaiCodex, _) => Real::chatgpt(ACCOUNT, "REAL-of-the-matrix-5c2a"),
            (Provider::Openai, _) => Real::ApiKey("sk-proj-REAL-of-the-matrix-e84f".into()),
        }
    }

    pub(crate) fn standin(&self) -> anyhow::Result<StandIn> {
        StandIn::start(standin::Options { real: vec![self.real()], ..standin::Options::default() })
    }

    pub(crate) fn house(&self, standin: &StandIn) -> HouseBuilder {
        self.set(House::builder().serve(standin, self.provider, self.real()))
    }

    /// A house that has the credential, and no grant for it.
    pub(crate) fn ungranting_house(&self) -> HouseBuilder {
        self.set(House::builder().secret_for(self.provider, self.real()))
    }

    fn set(&self, house: HouseBuilder) -> HouseBuilder {
        let house = house.agent(self.agent.as_str());
        match self.transport {
            Transport::Events => house,
            Transport::Fallback => house.websocket(false),
            Transport::WebSocket => house.websocket(true),
        }
    }

    /// An isolated box of this agent.
    pub(crate) fn launch(&self, house: &House) -> anyhow::Result<BoxRun> {
        let launch = BoxRun::new(house, "one")?.isolated().agent(self.agent.as_str());
        // claude alone can be told how often to try again.
        Ok(if self.agent == Agent::Claude { launch.env(RETRIES.0, RETRIES.1) } else { launch })
    }

    /// The same agent without boxgate, with the real credential.
    pub(crate) fn bare(&self, standin: &StandIn, prompt: &str) -> anyhow::Result<Bare> {
        let bare = self.patient_bare(standin, prompt)?;
        Ok(if self.agent == Agent::Claude { bare.env(RETRIES.0, RETRIES.1) } else { bare })
    }

    /// The same with all of its own retries.
    pub(crate) fn patient_bare(&self, standin: &StandIn, prompt: &str) -> anyhow::Result<Bare> {
        standin.websocket(self.transport == Transport::WebSocket);
        Bare::of(self.agent, self.provider, standin, &self.real(), prompt)
    }

    /// A fault of the model's route. Where there is no house the handshake that a house refuses is not harmed.
    pub(crate) fn rule(&self, fault: Fault) -> Rule {
        let method = (self.transport != Transport::WebSocket).then(|| "POST".to_owned());
        Rule { method, ..Rule::new(self.model_path(), fault) }
    }

    /// Where the model answers.
    pub(crate) const fn model_path(&self) -> &'static str {
        match self.provider {
            Provider::Anthropic => "/v1/messages",
            Provider::OpenaiCodex => "/backend-api/codex/responses",
            Provider::Openai => "/v1/responses",
        }
    }
}

const ACCOUNT: &str = "a7c1e2d3-1111-4222-8333-94a5b6c7d8e9";
const RETRIES: (&str, &str) = ("CLAUDE_CODE_MAX_RETRIES", "2");
