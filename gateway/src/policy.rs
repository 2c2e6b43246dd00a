//! The policy: ordered grants, first match wins, and none is a refusal; a denial wins over all of them. Pure; nothing here looks
//! anything up.

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
pub mod query;
mod grant;
mod denial;
mod hint;
mod index;

use std::fmt;
use std::sync::Arc;

use box_spec::BoxId;
use http::{HeaderMap, Method};

use crate::host::{Host, Target};

use index::Index;

pub use egress::Egress;
pub use grant::{Boxes, Grant, Matching, Serves};
pub use host_pattern::HostPattern;
pub use mcp::Mcp;
pub use path::{NormalPath, PathFault, PathPrefix};
pub use path_pattern::PathPattern;
pub use providers::{LocalRoute, local_route};
pub use query::QueryKeys;

/// Everything that any box is allowed. Empty allows nothing.
#[derive(Debug, Default)]
pub struct Policy {
    grants: Vec<Arc<Grant>>,
    allowing: Index,
    /// Those that are asked only where no other lets a request through.
    observing: Index,
    denying: Index,
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
    /// As it came, without the question mark.
    pub query: Option<&'a str>,
    /// `None` where they are not known any more: then what a grant says of them is taken to hold.
    pub headers: Option<&'a HeaderMap>,
    /// Its connection is to become another protocol.
    pub upgrades: bool,
}

#[derive(Debug)]
pub enum Found<'a> {
    Grant {
        grant: &'a Arc<Grant>,
        /// What would refuse it, were it not only observed: a denial, or that no other grant lets it through.
        observed: Option<Observed<'a>>,
    },
    /// Whatever else is granted.
    Denied(&'a Arc<Grant>),
    /// No grant matched; this one of the same box and host came closest.
    NearMiss {
        grant: &'a Arc<Grant>,
        missed: Missed,
    },
    Nothing,
}

/// What passes and is written down as what would be refused.
#[derive(Clone, Copy, Debug)]
pub enum Observed<'a> {
    /// By this denial.
    Denied(&'a Arc<Grant>),
    NoGrant,
}

/// What a near miss missed, the farthest first. A scheme that is not granted counts as its port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Missed {
    Port,
    Path,
    Method,
    Query,
    Header,
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
        let index = |is_in: fn(&Grant) -> bool| {
            Index::new((0..).zip(&grants).filter(|(_, grant)| is_in(grant)).map(|(at, grant)| (at, grant.matching())))
        };
        let allowing = index(|grant| !grant.denies && !grant.observes);
        let observing = index(|grant| !grant.denies && grant.observes);
        let denying = index(|grant| grant.denies);
        Self { grants: grants.into_iter().map(Arc::new).collect(), allowing, observing, denying }
    }

    /// The denial that holds, else the first grant that matches, else what came closest.
    #[must_use]
    pub fn find<'a>(&'a self, ask: &Ask<'_>) -> Found<'a> {
        let mut observed = None;
        for denial in self.of(&self.denying, ask.box_id, ask.target.host()) {
            match denial.fit(ask) {
                Fit::Whole if !denial.observes => return Found::Denied(denial),
                Fit::Whole => observed = observed.or(Some(Observed::Denied(denial))),
                Fit::Missed(_) | Fit::OtherHost | Fit::OtherBox => {}
            }
        }
        let mut nearest: Option<(Missed, &Arc<Grant>)> = None;
        for grant in self.granting(ask.box_id, ask.target.host()) {
            match grant.fit(ask) {
                Fit::Whole if grant.observes => {
                    return Found::Grant { grant, observed: observed.or(Some(Observed::NoGrant)) };
                }
                Fit::Whole => return Found::Grant { grant, observed },
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
                .granting(box_id, target.host())
                .any(|grant| grant.is_for(box_id, target.host()) && grant.matching().opens(target.port(), scheme))
    }

    /// Whether any grant of this box names this target, whatever is asked there, and no denial takes all of it away.
    #[must_use]
    pub fn reaches(&self, box_id: &BoxId, target: &Target) -> bool {
        self.granting(box_id, target.host()).any(|grant| grant.matching().opens(target.port(), Scheme::Https))
            && !self.of(&self.denying, box_id, target.host()).any(|denial| denial.denies_all_of(target.port()))
    }

    /// The grants and denials that name this host for this box.
    pub fn concerning(&self, box_id: &BoxId, host: &Host) -> impl Iterator<Item = &Arc<Grant>> {
        self.of(&self.denying, box_id, host).chain(self.granting(box_id, host))
    }

    /// The grants that name this host for this box, in their order; those that are only observed come last.
    pub fn granting(&self, box_id: &BoxId, host: &Host) -> impl Iterator<Item = &Arc<Grant>> {
        self.of(&self.allowing, box_id, host).chain(self.of(&self.observing, box_id, host))
    }

    fn of(&self, index: &Index, box_id: &BoxId, host: &Host) -> impl Iterator<Item = &Arc<Grant>> {
        index.of(box_id, host).into_iter().filter_map(|at| self.grants.get(at as usize))
    }

    /// The grants in their order.
    #[must_use]
    pub fn grants(&self) -> &[Arc<Grant>] {
        &self.grants
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
    /// The word for a hint: "wrong …".
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Path => "path",
            Self::Method => "method",
            Self::Query => "query",
            Self::Header => "header",
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
