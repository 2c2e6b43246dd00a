//! Granted: the grant that lets a request through, or what came nearest to it.

use std::sync::Arc;

use box_spec::BoxId;
use http::header::CONTENT_LENGTH;
use http::request::Parts;

use crate::body;
use crate::host::Target;
use crate::policy::{Ask, Found, Grant, Missed, Policy, Scheme};
use crate::refusal::{Reason, Refusal};

/// Whether this box may go toward this port of the host at all, whatever it is going to ask there.
///
/// # Errors
/// The refusal.
pub fn port(policy: &Policy, box_id: &BoxId, target: &Target, scheme: Scheme) -> Result<(), Refusal> {
    if policy.opens_port(box_id, target, scheme) {
        return Ok(());
    }
    let (host, port) = (target.host(), target.port());
    Err(match scheme {
        Scheme::Https => Refusal::new(
            Reason::PortRefused,
            format!("no grant opens port {port} of {host}"),
            format!("port {port} is in no grant for this host"),
        ),
        Scheme::Http => Refusal::new(
            Reason::PortRefused,
            format!("no grant opens port {port} of {host} for plain http"),
            "plain http to a port that no grant names",
        ),
    })
}

pub(super) fn grant<'a>(policy: &'a Policy, ask: &Ask<'_>) -> Result<&'a Arc<Grant>, Refusal> {
    match policy.find(ask) {
        Found::Grant(grant) => Ok(grant),
        Found::NearMiss { grant, missed } => Err(near_miss(ask, grant, missed)),
        Found::Nothing => Err(Refusal::new(
            Reason::NoGrant,
            format!("no grant lets this box reach {}", ask.target),
            "no grant of this box names the host",
        )),
    }
}

/// A declared body is no longer than the grant lets through. One of undeclared length is counted as it goes out.
pub(super) fn size(grant: &Grant, head: &Parts) -> Result<(), Refusal> {
    let (Some(most), Some(length)) = (grant.max_body, head.headers.get(CONTENT_LENGTH)) else { return Ok(()) };
    // Digits alone came here: what is no number is too large for one.
    let length = length.to_str().ok().and_then(|digits| digits.parse().ok()).unwrap_or(u64::MAX);
    if length > most { Err(body::too_large(grant, most)) } else { Ok(()) }
}

fn near_miss(ask: &Ask<'_>, grant: &Grant, missed: Missed) -> Refusal {
    let outside = format!("no grant lets this box send {} {} to {}", ask.method, ask.path.raw(), ask.target);
    let inside = match missed {
        Missed::Header => format!("grant {} names the host and wants a header that is missing", grant.name),
        Missed::Port | Missed::Path | Missed::Method | Missed::Query => {
            format!("grant {} names the host but not this {}", grant.name, missed.as_str())
        }
    };
    let hint = grant.near_miss(missed, ask);
    Refusal::new(Reason::NoGrant, outside, inside)
        .with_hint(format!(
            "this is policy, not an outage: {hint}; an operator can widen it in the house's configuration"
        ))
        .with_grant(grant.name.as_str())
}
