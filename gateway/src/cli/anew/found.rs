//! What was found: a request that a grant lets through by its head, held against what the ledger tells of its body and of the
//! stand-in that it carried.

use std::sync::Arc;

use http::header::UPGRADE;
use http::request::Parts;

use crate::body::Reads;
use crate::body::model;
use crate::echo::Needles;
use crate::policy::{Grant, Mcp, Serves, providers};
use crate::recorded::{Body, Closing, Recorded, Said, StandIn, Why};
use crate::refusal::Reason;

use super::{Fact, Verdict};

/// What this grant says to a request that it lets through by its head.
pub(super) fn judge(recorded: &Recorded, head: &Parts, grant: &Arc<Grant>) -> Verdict {
    let verdict = stand_in(recorded, grant)
        .or_else(|| whatever_the_grant_says(recorded, grant))
        .or_else(|| size(recorded, head, grant))
        .or_else(|| body(recorded, head, grant));
    verdict.unwrap_or_else(|| Verdict::Allow(Some(Arc::from(grant.name.as_str()))))
}

/// A stand-in is let through only where the grant puts in what it stands for.
fn stand_in(recorded: &Recorded, grant: &Grant) -> Option<Verdict> {
    let asked = &recorded.asked;
    if let Said::Refuse(Why { reason: Reason::SentinelAstray, inside }) = &asked.said {
        // In an address, or toward a grant that puts nothing in, none is let through whoever it is of.
        let is_so = inside.ends_with("in the address") || grant.serves.is_none();
        return Some(if is_so { Verdict::Refuse(Reason::SentinelAstray) } else { Verdict::Unknown(Fact::StandIn) });
    }
    match (&asked.stand_in, &grant.serves) {
        (StandIn::None, _) => None,
        (StandIn::Of(_), None) => Some(Verdict::Refuse(Reason::SentinelAstray)),
        (StandIn::Of(whose), Some(_)) if whose == "astray" => Some(Verdict::Unknown(Fact::StandIn)),
        (StandIn::Of(whose), Some(Serves::Provider(provider))) => {
            (whose != provider.as_str()).then_some(Verdict::Refuse(Reason::SentinelAstray))
        }
        (StandIn::Of(whose), Some(Serves::Service(_))) => {
            let is_own =
                grant.secret.as_ref().is_some_and(|secret| whose.strip_prefix("secret:") == Some(secret.as_str()));
            (!is_own).then_some(Verdict::Refuse(Reason::SentinelAstray))
        }
        (StandIn::Unknown, _) if is_known_to_be_harmless(recorded, grant) => None,
        (StandIn::Unknown, _) => Some(Verdict::Unknown(Fact::StandIn)),
    }
}

/// Whether what was let through then, and in what way, tells that any stand-in in it would be let through by this grant too.
fn is_known_to_be_harmless(recorded: &Recorded, grant: &Grant) -> bool {
    let asked = &recorded.asked;
    let Some(closing) = recorded.closing.as_ref().filter(|closing| closing.status.is_some()) else { return false };
    match &grant.serves {
        // Toward a grant that put nothing in none was let through.
        _ if closing.injected.is_empty() => true,
        None => false,
        Some(Serves::Provider(provider)) if providers::model_host(asked.target.host()) == Some(*provider) => true,
        Some(Serves::Provider(_) | Serves::Service(_)) => asked.grant.as_deref() == Some(grant.name.as_str()),
    }
}

/// How long a body may be; of a WebSocket nothing is counted.
fn size(recorded: &Recorded, head: &Parts, grant: &Grant) -> Option<Verdict> {
    let most = grant.max_body.filter(|_| !head.headers.contains_key(UPGRADE))?;
    let refused = Some(Verdict::Refuse(Reason::BodyTooLarge));
    match (recorded.asked.body, &recorded.closing) {
        (Body::None, _) => None,
        (Body::Declared(length), _) => refused.filter(|_| length > most),
        (Body::Chunked, Some(closing)) if closing.bytes_up > most => refused,
        (Body::Chunked, Some(closing)) if closing.is_complete => None,
        (Body::Chunked | Body::Unknown, _) => Some(Verdict::Unknown(Fact::Body)),
    }
}

/// What a grant says of what is asked in a body, or in the messages of a WebSocket.
fn body(recorded: &Recorded, head: &Parts, grant: &Arc<Grant>) -> Option<Verdict> {
    let asked = &recorded.asked;
    let is_socket = head.headers.contains_key(UPGRADE);
    if matches!(asked.body, Body::None | Body::Declared(0)) && !is_socket {
        return None;
    }
    let Ok(needles) = Needles::of_all([]) else { return Some(Verdict::Unknown(Fact::Body)) };
    let is_for_a_model = Reads::of(&asked.target, grant, head, Arc::new(needles)).is_for_a_model();
    let read = Read { recorded, closing: recorded.closing.as_ref(), is_socket };
    match &grant.mcp {
        _ if is_for_a_model => read.by_a_model(grant),
        Some(mcp) if !is_socket => read.by_mcp(mcp),
        Some(_) | None => read.by_nobody(grant),
    }
}

/// What was read of a body.
struct Read<'a> {
    recorded: &'a Recorded,
    closing: Option<&'a Closing>,
    is_socket: bool,
}

impl Read<'_> {
    fn by_a_model(&self, grant: &Grant) -> Option<Verdict> {
        let unknown = Some(Verdict::Unknown(Fact::Body));
        let refused = Some(Verdict::Refuse(Reason::ProviderEgress));
        let Some(closing) = self.closing else { return unknown };
        let egress = &grant.egress;
        if closing.facts.tools.iter().any(|tool| !egress.lets_tool(tool)) {
            return refused;
        }
        let places: Vec<Option<bool>> = closing.facts.places.iter().map(|place| egress.lets_place(place)).collect();
        if places.contains(&Some(false)) {
            return refused;
        }
        match self.stopped() {
            Some(Why { reason: Reason::ProviderEgress, inside }) => match model::Asked::of_sentence(inside) {
                Some(model::Asked::Tool(name)) if !egress.lets_some_of(&name) => refused,
                Some(model::Asked::Fetch(place)) if egress.lets_place(&place) == Some(false) => refused,
                // What followed was not read.
                Some(_) | None => unknown,
            },
            Some(why) if is_unclear(why) => Some(Verdict::Refuse(Reason::BadRequest)),
            // A stand-in that a model is told is none astray.
            Some(Why { reason: Reason::SentinelAstray, .. }) => unknown,
            _ if places.contains(&None) || closing.facts.may_be_cut() || !self.is_whole(closing) => unknown,
            // Elsewhere than at a model's own host nobody may have read it.
            _ if providers::model_host(self.recorded.asked.target.host()).is_none()
                && closing.facts.tools.is_empty() =>
            {
                unknown
            }
            _ => None,
        }
    }

    fn by_mcp(&self, mcp: &Mcp) -> Option<Verdict> {
        let unknown = Some(Verdict::Unknown(Fact::Body));
        let Some(closing) = self.closing else { return unknown };
        let facts = &closing.facts;
        if facts.methods.iter().any(|method| !mcp.lets_method(method))
            || facts.calls.iter().any(|tool| !mcp.lets_tool(tool))
        {
            return Some(Verdict::Refuse(Reason::McpRefused));
        }
        match self.stopped() {
            Some(why) if is_unclear(why) => Some(Verdict::Refuse(Reason::BadRequest)),
            // Its one message was read to its end, which is where it was refused.
            Some(Why { reason: Reason::McpRefused, .. }) if !facts.methods.is_empty() => None,
            Some(Why { reason: Reason::SentinelAstray, .. }) => Some(Verdict::Refuse(Reason::SentinelAstray)),
            Some(_) | None if facts.methods.is_empty() || !self.is_whole(closing) => unknown,
            Some(_) | None => None,
        }
    }

    fn by_nobody(&self, grant: &Grant) -> Option<Verdict> {
        match self.stopped() {
            Some(Why { reason: Reason::SentinelAstray, .. }) => {
                let may_be_told = matches!(grant.serves, Some(Serves::Provider(_)));
                Some(if may_be_told { Verdict::Unknown(Fact::Body) } else { Verdict::Refuse(Reason::SentinelAstray) })
            }
            _ => None,
        }
    }

    /// What ended it after its head had been let through.
    fn stopped(&self) -> Option<&Why> {
        self.closing.and_then(|closing| closing.refused.as_ref())
    }

    /// Whether all that was sent was read, or at least all that there was to read.
    fn is_whole(&self, closing: &Closing) -> bool {
        if self.is_socket {
            return closing.status == Some(101);
        }
        match self.recorded.asked.body {
            Body::None => true,
            Body::Declared(length) => closing.bytes_up >= length,
            Body::Chunked => closing.is_complete,
            Body::Unknown => false,
        }
    }
}

/// What was refused for what no grant changes.
fn whatever_the_grant_says(recorded: &Recorded, grant: &Grant) -> Option<Verdict> {
    let why = recorded.closing.as_ref()?.refused.as_ref()?;
    match why.reason {
        // Another grant may name the address, or read no body.
        Reason::AddressRefused if grant.dial_instead(&recorded.asked.target).is_some() => None,
        Reason::ProviderEgress | Reason::McpRefused | Reason::SentinelAstray | Reason::BodyTooLarge => None,
        Reason::BadRequest if is_unclear(why) => None,
        reason => Some(Verdict::Refuse(reason)),
    }
}

/// A body that could be read in two ways, or not at all.
fn is_unclear(why: &Why) -> bool {
    why.reason == Reason::BadRequest && why.inside.starts_with("a body that is read: ")
}
