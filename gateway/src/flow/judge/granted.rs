//! Granted: the grant that lets a request through, or what came nearest to it.

use std::sync::Arc;

use box_spec::BoxId;
use http::header::CONTENT_LENGTH;
use http::request::Parts;

use crate::body;
use crate::host::Target;
use crate::policy::{self, Ask, Found, Grant, GrantName, Missed, Policy, Scheme};
use crate::refusal::{Reason, Refusal};

/// What a request would be refused for, and by which grant, were that not only observed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observed {
    pub reason: Reason,
    pub grant: GrantName,
}

/// Whether this box may go toward this port of the host at all, whatever it is going to ask there.
///
/// # Errors
/// The refusal.
pub fn port(policy: &Policy, box_id: &BoxId, target: &Target, scheme: Scheme) -> Result<(), Refusal> {
    if policy.opens_port(box_id, target, scheme) {
        return Ok(());
    }
    let (host, port) = (target.host(), target.port());
    let refusal = match scheme {
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
    };
    Err(match policy.granting(box_id, host).next() {
        Some(grant) => refusal.with_hint(widened(&grant.near_port(scheme))).with_grant(grant.name.as_str()),
        None => refusal,
    })
}

/// The grant that lets it through, and what would refuse it, were that not only observed.
pub(super) fn grant<'a>(policy: &'a Policy, ask: &Ask<'_>) -> Result<(&'a Arc<Grant>, Option<Observed>), Refusal> {
    match policy.find(ask) {
        Found::Grant { grant, observed } => {
            let observed = observed.map(|observed| match observed {
                policy::Observed::Denied(denial) => Observed { reason: Reason::Denied, grant: denial.name.clone() },
                policy::Observed::NoGrant => Observed { reason: Reason::NoGrant, grant: grant.name.clone() },
            });
            Ok((grant, observed))
        }
        Found::Denied(denial) => Err(denied(ask, denial)),
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
    Refusal::new(Reason::NoGrant, outside, inside)
        .with_hint(widened(&grant.near_miss(missed, ask)))
        .with_grant(grant.name.as_str())
}

fn widened(near: &str) -> String {
    format!("this is policy, not an outage: {near}; an operator can widen it in the house's configuration")
}

fn denied(ask: &Ask<'_>, denial: &Grant) -> Refusal {
    let name = denial.name.as_str();
    let outside = format!("{} {} to {} is denied, whatever is granted", ask.method, ask.path.raw(), ask.target);
    Refusal::new(Reason::Denied, outside, format!("grant {name} denies it"))
        .with_hint(format!(
            "this is policy, not an outage: grant {name:?} denies it; an operator can change that in the house's configuration"
        ))
        .with_grant(name)
}
