//! Anew: a recorded request judged by the policy of a configuration, as far as the ledger tells what was asked.
//!
//! The head goes to the very judge of the journey; what a grant says of bodies is held against what was found in them. What
//! is missing makes the verdict unknown, where it could change it.

mod found;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use box_spec::BoxId;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

use crate::config::Config;
use crate::flow::judge::{self, Decision};
use crate::policy::{Grant, Matching, Policy};
use crate::recorded::{Asked, Headers, Query, Recorded, Said};
use crate::refusal::{Reason, Refusal};

/// The policy that requests are judged by again.
#[derive(Debug)]
pub struct Candidate {
    boxes: BTreeSet<BoxId>,
    policy: Policy,
}

/// What is said to a request.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// By the grant of this name; none for a tunnel, in which everything is asked again.
    Allow(Option<Arc<str>>),
    /// By the house itself.
    Answer,
    Refuse(Reason),
    /// There is no such box, and so no door.
    NoBox,
    /// It hangs on what the ledger does not tell.
    Unknown(Fact),
}

/// What is missing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fact {
    /// What would have been asked in a tunnel that was never opened.
    Inside,
    Method,
    Path,
    Query,
    Headers,
    /// What stands in a body, all of it or the rest.
    Body,
    /// Whether a stand-in was in the head, or whose.
    StandIn,
}

impl Candidate {
    #[must_use]
    pub fn of(config: Config) -> Self {
        let Config { boxes, policy, .. } = config;
        Self { boxes: boxes.into_iter().map(|one| one.id).collect(), policy }
    }

    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What this policy says to what was asked then.
    #[must_use]
    pub fn judge(&self, recorded: &Recorded) -> Verdict {
        let asked = &recorded.asked;
        if !self.boxes.contains(&asked.box_id) {
            return Verdict::NoBox;
        }
        if let Said::Refuse(why) = &asked.said
            && !hangs_on_grants(why.reason)
        {
            return Verdict::Refuse(why.reason);
        }
        if let Err(refusal) = judge::port(&self.policy, &asked.box_id, &asked.target, asked.scheme) {
            return Verdict::Refuse(refusal.reason());
        }
        if asked.method == Some(Method::CONNECT) {
            return if matches!(asked.said, Said::Refuse(_)) {
                Verdict::Unknown(Fact::Inside)
            } else {
                Verdict::Allow(None)
            };
        }
        match self.head(asked) {
            Err(fact) => Verdict::Unknown(fact),
            Ok(Err(refusal)) => Verdict::Refuse(refusal.reason()),
            Ok(Ok((_, Decision::Local(_)))) => Verdict::Answer,
            Ok(Ok((head, Decision::Grant(grant, _)))) => found::judge(recorded, &head, &grant),
        }
    }

    /// What the judge says to the head, where nothing that is missing can change it.
    fn head(&self, asked: &Asked) -> Result<Result<(Parts, Decision), Refusal>, Fact> {
        let Asked { box_id, target, scheme, .. } = asked;
        let missing = Missing::of(asked);
        let mut head = head_of(asked).ok_or(Fact::Path)?;
        let foreseen = |head: &Parts| judge::foresee(&self.policy, box_id, target, *scheme, head);
        let decision = foreseen(&head);
        // Where no grant names the host, and it is none that the house answers, nothing else matters.
        if !missing.is_nothing() && (asked.said == Said::Answer || self.concerning(asked).next().is_some()) {
            missing.matters(|does| self.concerning(asked).any(|grant| does(grant.matching()))).map_or(Ok(()), Err)?;
            if missing.headers {
                head.headers = handshake();
                let as_one = foreseen(&head);
                head.headers.clear();
                if !is_same(&decision, &as_one) {
                    return Err(Fact::Headers);
                }
            }
        }
        Ok(decision.map(|decision| (head, decision)))
    }

    /// The grants that name its host for its box.
    fn concerning(&self, asked: &Asked) -> impl Iterator<Item = &Arc<Grant>> {
        self.policy.concerning(&asked.box_id, asked.target.host())
    }
}

/// What was said then.
#[must_use]
pub fn before(recorded: &Recorded) -> Verdict {
    match (&recorded.asked.said, recorded.refused()) {
        (_, Some(why)) => Verdict::Refuse(why.reason),
        (Said::Answer, None) => Verdict::Answer,
        (Said::Allow | Said::Refuse(_), None) => Verdict::Allow(recorded.asked.grant.as_deref().map(Arc::from)),
    }
}

/// Whether another policy may say another thing: the rest is refused whatever any grant says.
const fn hangs_on_grants(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NoGrant
            | Reason::Denied
            | Reason::PortRefused
            | Reason::UpgradeRefused
            | Reason::SentinelAstray
            | Reason::BodyTooLarge
    )
}

/// What the line does not tell of a head.
#[derive(Clone, Copy)]
struct Missing {
    method: bool,
    path: bool,
    query: bool,
    headers: bool,
}

impl Missing {
    fn of(asked: &Asked) -> Self {
        Self {
            method: asked.method.is_none(),
            path: asked.path.is_none(),
            query: asked.query == Query::Unknown,
            headers: asked.headers == Headers::Unknown,
        }
    }

    const fn is_nothing(self) -> bool {
        !(self.method || self.path || self.query || self.headers)
    }

    /// The first that one of these grants could be chosen by. Whether it would be a WebSocket is tried out.
    fn matters(self, some: impl Fn(fn(&Matching) -> bool) -> bool) -> Option<Fact> {
        let Self { method, path, query, headers } = self;
        // A path or a method can be of those that no grant decides about.
        [
            (path, Fact::Path),
            (method, Fact::Method),
            (query && some(|matching| matching.query.is_some()), Fact::Query),
            (headers && some(|matching| !matching.headers.is_empty()), Fact::Headers),
        ]
        .into_iter()
        .find_map(|(is_missing, fact)| is_missing.then_some(fact))
    }
}

/// The head as it came, as far as it is told.
fn head_of(asked: &Asked) -> Option<Parts> {
    let path = asked.path.as_deref().unwrap_or("/");
    let address = match &asked.query {
        Query::Keys(keys) if !keys.is_empty() => format!("{path}?{}=", keys.join("=&")),
        Query::Keys(_) | Query::Unknown => path.to_owned(),
    };
    let uri = Uri::from(PathAndQuery::try_from(address).ok()?);
    let method = asked.method.clone().unwrap_or(Method::GET);
    let (mut head, ()) = Request::builder().method(method).uri(uri).body(()).ok()?.into_parts();
    if let Headers::Known(headers) = &asked.headers {
        head.headers = headers.clone();
    }
    Some(head)
}

/// The headers of any opening handshake of a WebSocket.
fn handshake() -> HeaderMap {
    let fields = [
        ("upgrade", "websocket"),
        ("connection", "upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ];
    fields.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).into_iter().collect()
}

fn is_same(one: &Result<Decision, Refusal>, other: &Result<Decision, Refusal>) -> bool {
    match (one, other) {
        (Ok(Decision::Grant(one, _)), Ok(Decision::Grant(other, _))) => Arc::ptr_eq(one, other),
        (Ok(Decision::Local(one)), Ok(Decision::Local(other))) => one == other,
        (Err(one), Err(other)) => one.reason() == other.reason(),
        (Ok(_), _) | (Err(_), _) => false,
    }
}

impl Verdict {
    /// The verdict in one word.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Allow(_) => "allow",
            Self::Answer => "answer",
            Self::Refuse(_) | Self::NoBox => "refuse",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Whose it is, or why.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Allow(grant) => grant.as_deref(),
            Self::Answer => None,
            Self::Refuse(reason) => Some(reason.code()),
            Self::NoBox => Some("no-box"),
            Self::Unknown(fact) => Some(fact.word()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match (self, self.why()) {
            (Self::Allow(_), Some(grant)) => write!(f, " by {grant}"),
            (_, Some(why)) => write!(f, " ({why})"),
            (_, None) => Ok(()),
        }
    }
}

impl Fact {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Inside => "inside-of-tunnel",
            Self::Method => "method",
            Self::Path => "path",
            Self::Query => "query",
            Self::Headers => "headers",
            Self::Body => "body",
            Self::StandIn => "stand-in",
        }
    }
}
