//! Body: what a request's body is read for while it goes out. Each piece is judged before it goes on, and the last one only when
//! the whole is judged: of a body that is refused no provider ever has the end. Nothing is kept but what cannot be judged yet.

pub mod json;
pub mod coding;
pub mod model;
pub mod rpc;
pub mod messages;
pub mod search;
mod notes;

use std::sync::Arc;

use box_spec::Provider;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http::request::Parts;

use crate::echo::Needles;
use crate::host::Target;
use crate::policy::{Grant, NormalPath, Serves, providers};
use crate::refusal::{Reason, Refusal, Told};

use coding::Coding;
use json::Broken;
use model::{Asked, Model, State, Stop};
use rpc::Rpc;
use search::{Found, Search};

pub use notes::Notes;

/// What the bodies of a request, or the messages of its WebSocket, are read for. Small: a request is moved often.
#[derive(Clone, Debug)]
pub struct Reads(Arc<Aim>);

#[derive(Debug)]
struct Aim {
    /// Whose models it may ask: then what it makes the provider do is read too.
    provider: Option<Provider>,
    target: Target,
    grant: Arc<Grant>,
    secrets: Arc<Needles>,
    notes: Notes,
}

/// One body, as far as it was read.
pub struct Reading {
    reads: Reads,
    coding: Coding,
    reader: json::Reader,
    state: State,
    rpc: rpc::State,
    search: Search,
    /// How much may still come, and of how much; `None`: any.
    left: Option<(u64, u64)>,
    is_empty: bool,
}

/// Why a body is not read on.
enum Halt {
    Coding(coding::Fault),
    Model(Broken<Stop>),
    Rpc(Broken<rpc::Stop>),
    Carries(Refusal),
}

impl Reads {
    /// What is read of a request that this grant lets through, and what it may not carry.
    #[must_use]
    pub fn of(target: &Target, grant: &Arc<Grant>, head: &Parts, secrets: Arc<Needles>) -> Self {
        let (target, grant) = (target.clone(), Arc::clone(grant));
        let provider = match (providers::model_host(target.host()), &grant.serves) {
            (Some(provider), _) => (!is_a_file(provider, head)).then_some(provider),
            // Elsewhere its API may stand below any path, beside others that nobody knows.
            (None, Some(Serves::Provider(provider))) => may_be_a_model(*provider, head).then_some(*provider),
            (None, Some(Serves::Service(_)) | None) => None,
        };
        Self(Arc::new(Aim { provider, target, grant, secrets, notes: Notes::default() }))
    }

    /// Whether it is read for what it makes a provider do.
    #[must_use]
    pub fn is_for_a_model(&self) -> bool {
        self.0.provider.is_some()
    }

    /// Where a request goes to, and by which grant.
    #[must_use]
    pub fn way(&self) -> (&Target, &str) {
        (&self.0.target, self.0.grant.name.as_str())
    }

    /// Refuses what carries a real secret, or a stand-in where none belongs. A body to a model may tell a stand-in: the agent
    /// says what it has seen, and a stand-in is worth nothing.
    fn weigh(&self, found: Found) -> Result<(), Refusal> {
        let serves_models = self.is_for_a_model() || matches!(self.0.grant.serves, Some(Serves::Provider(_)));
        let refusal = match found {
            Found::Sentinel if serves_models => {
                self.0.notes.ring();
                return Ok(());
            }
            Found::Sentinel => Refusal::new(
                Reason::SentinelAstray,
                "a stand-in credential was found where it does not belong",
                "a sentinel in a body toward a host that is no model's",
            ),
            Found::Secret => secret_outbound("in a body"),
        };
        Err(refusal.with_grant(self.0.grant.name.as_str()))
    }

    /// The refusal on its way.
    #[must_use]
    pub fn told(&self, refusal: Refusal) -> Told {
        Told::new(Some(self.0.target.clone()), refusal)
    }

    /// What was found in it, for the line.
    #[must_use]
    pub fn notes(&self) -> &Notes {
        &self.0.notes
    }

    /// A body with this head.
    ///
    /// # Errors
    /// It cannot be read: in a coding or in characters that are not known.
    pub fn body(&self, headers: &HeaderMap) -> Result<Box<Reading>, Refusal> {
        let left = self.0.grant.max_body.map(|most| (most, most));
        if !self.is_for_a_model() && self.0.grant.mcp.is_none() {
            return Ok(self.reading(Coding::none(), left));
        }
        let coding = Coding::of(headers).map_err(|fault| self.unclear(&fault.to_string()))?;
        for value in headers.get_all(CONTENT_TYPE) {
            if !is_utf8(value.as_bytes()) {
                return Err(self.unclear("it is written in other characters than UTF-8"));
            }
        }
        Ok(self.reading(coding, left))
    }

    /// A message of a WebSocket, which is never packed, or a body that is only searched as it comes.
    #[must_use]
    pub fn message(&self) -> Box<Reading> {
        self.reading(Coding::none(), None)
    }

    fn reading(&self, coding: Coding, left: Option<(u64, u64)>) -> Box<Reading> {
        let (reader, state) = (json::Reader::default(), State::default());
        let search = Search::new(Arc::clone(&self.0.secrets));
        Box::new(Reading {
            reads: self.clone(),
            coding,
            reader,
            state,
            rpc: rpc::State::default(),
            search,
            left,
            is_empty: true,
        })
    }

    /// A body whose meaning is not certain.
    #[must_use]
    pub fn unclear(&self, why: &str) -> Refusal {
        let (what, hint) = if self.is_for_a_model() { MODEL } else { MESSAGE };
        Refusal::new(Reason::BadRequest, format!("{what} cannot be told: {why}"), format!("a body that is read: {why}"))
            .with_hint(hint)
            .with_grant(self.0.grant.name.as_str())
    }

    /// A message to an MCP server that the grant does not name.
    fn not_let(&self, what: &str, key: &str, name: &str) -> Refusal {
        let grant = self.0.grant.name.as_str();
        let outside = format!("this is the {what} {name:?} of MCP, which grant {grant:?} does not let through");
        Refusal::new(Reason::McpRefused, outside, format!("MCP: {what} {name:?}"))
            .with_hint(format!("this is policy, not an outage: an operator can allow it by `{key}` in grant {grant:?}"))
            .with_grant(grant)
    }

    fn refused(&self, asked: &Asked) -> Refusal {
        let grant = self.0.grant.name.as_str();
        let (outside, key) = match asked {
            Asked::Tool(name) => (
                format!("this asks the provider for {name:?}, which grant {grant:?} does not let through"),
                format!("provider_tools = [{name:?}]"),
            ),
            Asked::Fetch(place) => (
                format!("this asks the provider to fetch from {place}, which grant {grant:?} does not let through"),
                "provider_fetch = [\"https://HOST/*\"]".to_owned(),
            ),
        };
        Refusal::new(Reason::ProviderEgress, outside, asked.sentence())
            .with_hint(format!("this is policy, not an outage: an operator can allow it by `{key}` in grant {grant:?}"))
            .with_grant(grant)
    }
}

impl Reading {
    /// Judges a piece. Tells how many bytes at the end of all that came must wait, for they are not judged yet.
    ///
    /// # Errors
    /// The refusal. Nothing of the piece may go on.
    pub fn judge(&mut self, piece: &[u8]) -> Result<usize, Refusal> {
        self.is_empty &= piece.is_empty();
        if let Some((left, most)) = &mut self.left {
            let rest = left.checked_sub(piece.len() as u64);
            *left = rest.ok_or_else(|| too_large(&self.reads.0.grant, *most))?;
        }
        let (mut plain, coding) = self.parts();
        let told = coding.unpack(piece, |piece: &[u8]| plain.read(piece));
        self.noted(told)?;
        let begun = self.search.waits();
        // Where something begins in what is packed, nobody knows: all of it waits.
        Ok(if begun > 0 && self.coding.is_packed() { usize::MAX } else { begun.max(self.coding.waits()) })
    }

    /// Judges the end: only now may what waited go on.
    ///
    /// # Errors
    /// The refusal; for one, it is not whole.
    pub fn end(&mut self) -> Result<(), Refusal> {
        // Nothing asks for nothing.
        if self.is_empty {
            return Ok(());
        }
        let (mut plain, coding) = self.parts();
        let told = coding.end(|piece: &[u8]| plain.read(piece)).and_then(|()| plain.end());
        self.noted(told)
    }

    fn parts(&mut self) -> (Plain<'_>, &mut Coding) {
        let Self { reads, coding, reader, state, rpc, search, left: _, is_empty: _ } = self;
        (Plain { reads, reader, state, rpc, search }, coding)
    }

    /// Writes a refusal down that nobody is told any more.
    pub fn note(&self, refusal: &Refusal) {
        let _is_new = self.reads.notes().add("body_refused", format!("{}: {}", refusal.reason(), refusal.inside()));
    }

    fn noted(&mut self, told: Result<(), Halt>) -> Result<(), Refusal> {
        for asked in self.state.let_through() {
            let _is_new = match asked {
                Asked::Tool(name) => self.reads.notes().add("provider_tools", name),
                Asked::Fetch(place) => self.reads.notes().add("provider_fetch", place),
            };
        }
        let (method, tool) = self.rpc.told();
        for (key, name) in [("mcp_methods", method), ("mcp_tools", tool)] {
            let _is_new = name.map(|name| self.reads.notes().add(key, name));
        }
        told.map_err(|halt| match halt {
            Halt::Rpc(Broken::Listener(rpc::Stop::Method(name))) => self.reads.not_let("method", "mcp_methods", &name),
            Halt::Rpc(Broken::Listener(rpc::Stop::Tool(name))) => self.reads.not_let("tool", "mcp_tools", &name),
            Halt::Rpc(Broken::Listener(rpc::Stop::Unclear(why))) => self.reads.unclear(why),
            Halt::Rpc(Broken::Json(fault)) => self.reads.unclear(&fault.to_string()),
            Halt::Model(Broken::Listener(Stop::Refused(asked))) => self.reads.refused(&asked),
            Halt::Model(Broken::Listener(Stop::Unclear(why))) => self.reads.unclear(why),
            Halt::Model(Broken::Json(fault)) => self.reads.unclear(&fault.to_string()),
            Halt::Coding(fault) => self.reads.unclear(&fault.to_string()),
            Halt::Carries(refusal) => refusal,
        })
    }
}

/// A body as it is when it is unpacked.
struct Plain<'a> {
    reads: &'a Reads,
    reader: &'a mut json::Reader,
    state: &'a mut State,
    rpc: &'a mut rpc::State,
    search: &'a mut Search,
}

impl Plain<'_> {
    fn read(&mut self, piece: &[u8]) -> Result<(), Halt> {
        if let Some(found) = self.search.pass(piece) {
            self.reads.weigh(found).map_err(Halt::Carries)?;
        }
        let aim = &self.reads.0;
        match (aim.provider, &aim.grant.mcp) {
            (Some(provider), _) => {
                let mut model = Model::new(provider, &aim.grant.egress, self.state);
                self.reader.read(piece, &mut model).map_err(Halt::Model)
            }
            (None, Some(mcp)) => self.reader.read(piece, &mut Rpc::new(mcp, self.rpc)).map_err(Halt::Rpc),
            (None, None) => Ok(()),
        }
    }

    fn end(&mut self) -> Result<(), Halt> {
        let aim = &self.reads.0;
        match (aim.provider, &aim.grant.mcp) {
            (Some(provider), _) => {
                let mut model = Model::new(provider, &aim.grant.egress, self.state);
                self.reader.end(&mut model).map_err(Halt::Model)
            }
            (None, Some(mcp)) => self.reader.end(&mut Rpc::new(mcp, self.rpc)).map_err(Halt::Rpc),
            (None, None) => Ok(()),
        }
    }
}

/// What carries a real secret of the house.
#[must_use]
pub fn secret_outbound(place: &str) -> Refusal {
    let outside = "a real credential of the house was found in the request";
    Refusal::new(Reason::SecretOutbound, outside, format!("a secret of the house {place}"))
}

/// A body of more bytes than its grant lets through.
#[must_use]
pub fn too_large(grant: &Grant, most: u64) -> Refusal {
    let name = grant.name.as_str();
    let outside = format!("the body has more than {most} bytes, and grant {name:?} lets no more through");
    Refusal::new(Reason::BodyTooLarge, outside, format!("a body of more than {most} bytes"))
        .with_hint(format!(
            "this is policy, not an outage: send less, or let an operator raise `max_body` in grant {name:?}"
        ))
        .with_grant(name)
}

impl From<coding::Fault> for Halt {
    fn from(fault: coding::Fault) -> Self {
        Self::Coding(fault)
    }
}

/// Whether a body is sent as a file and away from the routes of models, in every reading: it asks for nothing.
fn is_a_file(provider: Provider, head: &Parts) -> bool {
    let mut kinds = head.headers.get_all(CONTENT_TYPE).into_iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return false };
    let kind = kind.as_bytes().to_ascii_lowercase();
    let is_file = kind.starts_with(b"multipart/") || kind.starts_with(b"application/octet-stream");
    is_file && !may_be_a_model(provider, head)
}

/// Whether some reading of the path leads to the models of this provider, or to them below something else.
fn may_be_a_model(provider: Provider, head: &Parts) -> bool {
    let models = providers::facts(provider).model_paths;
    NormalPath::parse(head.uri.path())
        .map_or(true, |path| path.could_be(|reading| models.iter().any(|model| reading.contains(model))))
}

const MODEL: (&str, &str) = (
    "what this asks of the provider",
    "send one JSON object (RFC 8259) in UTF-8, plain or packed by gzip, br or zstd, each name once",
);
const MESSAGE: (&str, &str) = (
    "what this asks of the MCP server",
    "send one message of JSON-RPC 2.0 in UTF-8, plain or packed by gzip, br or zstd, each name once",
);

/// JSON is UTF-8 (RFC 8259 §8.1); a reader that believes a `charset` would take another text from the same bytes.
fn is_utf8(content_type: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content_type).to_ascii_lowercase();
    text.match_indices("charset").all(|(at, word)| {
        let value = text[at + word.len()..].trim_start_matches(['*', ' ', '=', '"', '\'']);
        value.starts_with("utf-8") || value.starts_with("utf8")
    })
}

#[cfg(test)]
mod tests;
