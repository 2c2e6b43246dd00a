//! The policy: ordered grants, first match wins, and none is a refusal. Pure; nothing here looks anything up.

pub mod host_pattern;
pub mod path;
pub mod path_pattern;
mod segments;
pub mod escapes;
pub mod providers;
pub mod durable;
pub mod carriers;
pub mod egress;
pub mod mcp;
mod index;

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use box_spec::{BoxId, Provider};
use http::Method;

use crate::host::{Host, Target};
use crate::tls::UpstreamCa;
use crate::vault::{SecretName, SentAs};

use index::Index;

pub use egress::Egress;
pub use host_pattern::HostPattern;
pub use mcp::Mcp;
pub use path::{NormalPath, PathFault, PathPrefix};
pub use path_pattern::PathPattern;
pub use providers::{LocalRoute, local_route};

/// Everything that any box is allowed. Empty allows nothing.
#[derive(Debug, Default)]
pub struct Policy {
    grants: Vec<Arc<Grant>>,
    index: Index,
}

/// One permission: whom it is for, what it matches, and what is done with what it lets through.
#[derive(Debug)]
pub struct Grant {
    pub name: GrantName,
    /// Which grant of its preset it is, where that is several; they share one name.
    pub part: Option<Arc<str>>,
    /// Put in the place of what the box sent; `None` injects nothing.
    pub secret: Option<SecretName>,
    /// Whose credential the secret is, and with that whose stand-in it takes the place of.
    pub serves: Option<Serves>,
    /// Dialled instead of what the host resolves to, unscreened. SNI, Host and certificate stay the target's.
    pub unsafe_dial: Option<SocketAddr>,
    /// The only roots that the upstream's certificate may lead to; `None` takes the system's.
    pub upstream_ca: Option<UpstreamCa>,
    /// Leaves the box's own credentials in place (`unsafe_keep_credentials`).
    pub keeps_credentials: bool,
    /// Lets a WebSocket through; otherwise an upgrade is refused at once, and the agent sends plain requests.
    pub websocket: bool,
    /// What a model's provider may do for the box by itself.
    pub egress: Egress,
    /// What of MCP it lets through; `None` reads no messages.
    pub mcp: Option<Mcp>,
    matching: Matching,
}

/// Whose credential a grant puts in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Serves {
    Provider(Provider),
    /// A service's, sent in this way.
    Service(SentAs),
}

/// What a grant matches. All fields must hold.
#[derive(Debug)]
pub struct Matching {
    pub boxes: Boxes,
    pub hosts: Vec<HostPattern>,
    /// `None`: 443 under TLS, 80 in plain.
    pub ports: Option<BTreeSet<u16>>,
    /// `None`: any but TRACE and CONNECT.
    pub methods: Option<Vec<Method>>,
    /// Paths, each alone, that it also matches where GET is none of its methods and an upgrade is asked for: a preset's, whose
    /// models answer by WebSocket.
    pub sockets: Vec<String>,
    /// `None`: any.
    pub paths: Option<Vec<PathPattern>>,
    /// Whether `http://` is allowed too.
    pub plain: bool,
}

/// The boxes that a grant is for.
#[derive(Debug)]
pub enum Boxes {
    All,
    Only(BTreeSet<BoxId>),
}

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct GrantName(Arc<str>);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scheme {
    Https,
    Http,
}

/// One question to the policy.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub box_id: &'a BoxId,
    pub target: &'a Target,
    pub scheme: Scheme,
    pub method: &'a Method,
    pub path: &'a NormalPath,
    /// Its connection is to become another protocol.
    pub upgrades: bool,
}

#[derive(Debug)]
pub enum Found<'a> {
    Grant(&'a Arc<Grant>),
    /// No grant matched; this one of the same box and host came closest.
    NearMiss {
        grant: &'a Arc<Grant>,
        missed: Missed,
    },
    Nothing,
}

/// What a near miss missed, the farthest first. A scheme that is not granted counts as its port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Missed {
    Port,
    Path,
    Method,
}

/// How far a grant agrees with an ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    Whole,
    /// Its box and its host are meant, and something else is not.
    Missed(Missed),
    OtherHost,
    OtherBox,
}

impl Policy {
    #[must_use]
    pub fn new(grants: Vec<Grant>) -> Self {
        let index = Index::new(grants.iter().map(Grant::matching));
        Self { grants: grants.into_iter().map(Arc::new).collect(), index }
    }

    /// The first grant that matches, else what came closest.
    #[must_use]
    pub fn find<'a>(&'a self, ask: &Ask<'_>) -> Found<'a> {
        let mut nearest: Option<(Missed, &Arc<Grant>)> = None;
        for grant in self.concerning(ask.box_id, ask.target.host()) {
            match grant.fit(ask) {
                Fit::Whole => return Found::Grant(grant),
                Fit::Missed(missed) if nearest.is_none_or(|(before, _)| missed > before) => {
                    nearest = Some((missed, grant))
                }
                Fit::Missed(_) | Fit::OtherHost | Fit::OtherBox => {}
            }
        }
        nearest.map_or(Found::Nothing, |(missed, grant)| Found::NearMiss { grant, missed })
    }

    /// Every grant in its order, and how far it agrees with the ask.
    pub fn fits<'a>(&'a self, ask: &'a Ask<'_>) -> impl Iterator<Item = (&'a Arc<Grant>, Fit)> {
        self.grants.iter().map(|grant| (grant, grant.fit(ask)))
    }

    /// Whether the door may be opened toward this port: the scheme's own port always (the refusal is then said inside),
    /// any other only where a grant of this box names it for this host.
    #[must_use]
    pub fn opens_port(&self, box_id: &BoxId, target: &Target, scheme: Scheme) -> bool {
        target.port() == scheme.default_port()
            || self
                .concerning(box_id, target.host())
                .any(|grant| grant.is_for(box_id, target.host()) && grant.matching.opens(target.port(), scheme))
    }

    /// Whether any grant of this box names this target, whatever is asked there.
    #[must_use]
    pub fn reaches(&self, box_id: &BoxId, target: &Target) -> bool {
        self.concerning(box_id, target.host()).any(|grant| grant.matching.opens(target.port(), Scheme::Https))
    }

    /// The grants that name this host for this box, in their order.
    fn concerning(&self, box_id: &BoxId, host: &Host) -> impl Iterator<Item = &Arc<Grant>> {
        self.index.of(box_id, host).into_iter().filter_map(|at| self.grants.get(at as usize))
    }

    /// The grants in their order.
    #[must_use]
    pub fn grants(&self) -> &[Arc<Grant>] {
        &self.grants
    }
}

impl Grant {
    /// A grant that matches and does nothing more; the caller sets what it does besides.
    #[must_use]
    pub const fn new(name: GrantName, matching: Matching) -> Self {
        Self {
            name,
            part: None,
            secret: None,
            serves: None,
            unsafe_dial: None,
            upstream_ca: None,
            keeps_credentials: false,
            websocket: false,
            egress: Egress { tools: Vec::new(), fetch: Vec::new() },
            mcp: None,
            matching,
        }
    }

    /// The address to dial without screening: `unsafe_dial`, or a target that is an address which this grant names by itself.
    #[must_use]
    pub fn dial_instead(&self, target: &Target) -> Option<SocketAddr> {
        self.unsafe_dial.or_else(|| match target.host() {
            Host::Address(address) if self.matching.hosts.contains(&HostPattern::Exact(target.host().clone())) => {
                Some(SocketAddr::new(*address, target.port()))
            }
            Host::Address(_) | Host::Name(_) => None,
        })
    }

    /// Whether it was written as it is, or is all of its preset.
    #[must_use]
    pub const fn is_of_its_own(&self) -> bool {
        self.part.is_none()
    }

    /// How its secret is sent, where that is no provider's.
    #[must_use]
    pub const fn sent_as(&self) -> Option<&SentAs> {
        match &self.serves {
            Some(Serves::Service(sent_as)) => Some(sent_as),
            Some(Serves::Provider(_)) | None => None,
        }
    }

    /// Whether it covers any opening handshake of a WebSocket.
    #[must_use]
    pub fn takes_handshakes(&self) -> bool {
        self.matching.takes(&Method::GET) || self.has_sockets()
    }

    /// Whether it covers handshakes beside what its methods say.
    #[must_use]
    pub fn has_sockets(&self) -> bool {
        !self.matching.sockets.is_empty()
    }

    /// What it matches.
    #[must_use]
    pub const fn matching(&self) -> &Matching {
        &self.matching
    }

    fn is_for(&self, box_id: &BoxId, host: &Host) -> bool {
        self.matching.boxes.include(box_id) && self.names(host)
    }

    fn names(&self, host: &Host) -> bool {
        self.matching.hosts.iter().any(|pattern| pattern.matches(host))
    }

    fn fit(&self, ask: &Ask<'_>) -> Fit {
        let Ask { box_id, target, scheme, method, path, upgrades } = *ask;
        if !self.names(target.host()) {
            return Fit::OtherHost;
        }
        if !self.matching.boxes.include(box_id) {
            return Fit::OtherBox;
        }
        // A secret never travels in plain, whatever the configuration says.
        if !self.matching.opens(target.port(), scheme) || (scheme == Scheme::Http && self.secret.is_some()) {
            return Fit::Missed(Missed::Port);
        }
        if self.matching.paths.as_ref().is_some_and(|patterns| !patterns.iter().any(|pattern| pattern.covers(path))) {
            return Fit::Missed(Missed::Path);
        }
        let is_handshake =
            upgrades && *method == Method::GET && self.matching.sockets.iter().any(|socket| path.is(socket));
        if self.matching.takes(method) || is_handshake { Fit::Whole } else { Fit::Missed(Missed::Method) }
    }
}

impl Matching {
    fn opens(&self, port: u16, scheme: Scheme) -> bool {
        let scheme_is_granted = scheme == Scheme::Https || self.plain;
        scheme_is_granted
            && self.ports.as_ref().map_or_else(|| port == scheme.default_port(), |ports| ports.contains(&port))
    }

    fn takes(&self, method: &Method) -> bool {
        // Methods are case-sensitive on the wire, and what arrives in lower case is some other method to the upstream;
        // it is granted with its upper-case name, so that a refusal never hangs on spelling.
        let never = method.as_str().eq_ignore_ascii_case("TRACE") || method.as_str().eq_ignore_ascii_case("CONNECT");
        !never
            && self.methods.as_ref().is_none_or(|methods| {
                methods.iter().any(|granted| granted.as_str().eq_ignore_ascii_case(method.as_str()))
            })
    }
}

impl Boxes {
    #[must_use]
    pub fn include(&self, box_id: &BoxId) -> bool {
        match self {
            Self::All => true,
            Self::Only(ids) => ids.contains(box_id),
        }
    }
}

impl Scheme {
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}

impl Missed {
    /// The word for a hint: "the grant does not cover this …".
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Path => "path",
            Self::Method => "method",
        }
    }
}

impl GrantName {
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GrantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
