//! A grant: what it matches, and what is done with what it lets through.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use box_spec::{BoxId, Provider};
use http::{HeaderName, Method};

use crate::hops;
use crate::host::{Host, Target};
use crate::tls::UpstreamCa;
use crate::vault::{SecretName, SentAs};

use super::{Ask, Egress, Fit, GrantName, HostPattern, Mcp, Missed, PathPattern, QueryKeys, Scheme};

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
    /// The most bytes that a body may have as it is sent; `None`: any number. Of a WebSocket nothing is counted.
    pub max_body: Option<u64>,
    /// Refuses what it matches, whatever else is granted; it lets nothing through.
    pub denies: bool,
    /// Changes nothing of what becomes of a request but its line: what only this lets through passes, what only this denies too.
    pub observes: bool,
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
    /// The keys that a query may have; `None`: any.
    pub query: Option<QueryKeys>,
    /// Headers that a request must have, whatever they say.
    pub headers: Vec<HeaderName>,
    /// Whether `http://` is allowed too.
    pub plain: bool,
}

/// The boxes that a grant is for.
#[derive(Debug)]
pub enum Boxes {
    All,
    Only(BTreeSet<BoxId>),
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
            max_body: None,
            denies: false,
            observes: false,
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

    pub(super) fn is_for(&self, box_id: &BoxId, host: &Host) -> bool {
        self.matching.boxes.include(box_id) && self.names(host)
    }

    fn names(&self, host: &Host) -> bool {
        self.matching.hosts.iter().any(|pattern| pattern.matches(host))
    }

    pub(super) fn fit(&self, ask: &Ask<'_>) -> Fit {
        let Ask { box_id, target, scheme, method, path, query, headers, upgrades } = *ask;
        if !self.names(target.host()) {
            return Fit::OtherHost;
        }
        if !self.matching.boxes.include(box_id) {
            return Fit::OtherBox;
        }
        if self.denies {
            return self.denial(ask).map_or(Fit::Whole, Fit::Missed);
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
        if !self.matching.takes(method) && !is_handshake {
            return Fit::Missed(Missed::Method);
        }
        if self.matching.query.as_ref().is_some_and(|keys| keys.stray(query).is_some()) {
            return Fit::Missed(Missed::Query);
        }
        if headers.is_some_and(|headers| self.matching.headers.iter().any(|name| !hops::goes_on(headers, name))) {
            return Fit::Missed(Missed::Header);
        }
        Fit::Whole
    }
}

impl Matching {
    /// Anything at these hosts, of any box, at the ports of https.
    #[must_use]
    pub const fn at(hosts: Vec<HostPattern>) -> Self {
        Self {
            boxes: Boxes::All,
            hosts,
            ports: None,
            methods: None,
            sockets: Vec::new(),
            paths: None,
            query: None,
            headers: Vec::new(),
            plain: false,
        }
    }

    pub(super) fn opens(&self, port: u16, scheme: Scheme) -> bool {
        let scheme_is_granted = scheme == Scheme::Https || self.plain;
        scheme_is_granted
            && self.ports.as_ref().map_or_else(|| port == scheme.default_port(), |ports| ports.contains(&port))
    }

    pub(super) fn takes(&self, method: &Method) -> bool {
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
