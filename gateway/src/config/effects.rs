//! Effects: what becomes of what a grant matches, let through, denied or only observed, and what may not stand beside that.

use super::faults::Faults;
use super::raw::{RawEgress, RawGrant, RawMatch};
use super::sending;

/// Whether a grant denies, and whether it observes.
pub(super) fn check(raw: &RawGrant, faults: &mut Faults) -> (bool, bool) {
    let denies = raw.deny.as_ref().is_some_and(|deny| deny.value);
    let observes = raw.observe.as_ref().is_some_and(|observe| observe.value);
    if denies {
        check_denial(raw, faults);
    } else if observes {
        check_observed(raw, faults);
    }
    (denies, observes)
}

/// A denial lets nothing through, so that nothing can be said of what it lets through.
fn check_denial(raw: &RawGrant, faults: &mut Faults) {
    let RawGrant {
        name: _,
        preset: _,
        deny: _,
        observe: _,
        secret,
        sending,
        matches: RawMatch { boxes: _, hosts: _, ports: _, methods: _, paths: _, query, headers: _, plain },
        websocket,
        websocket_paths,
        egress: RawEgress { provider_tools, provider_fetch, mcp_methods, mcp_tools },
        max_body,
        upstream_ca,
        unsafe_dial,
        unsafe_keep_credentials,
        unsafe_secret_hosts,
    } = raw;
    let texts = [("secret", secret), ("upstream_ca", upstream_ca), ("unsafe_dial", unsafe_dial)];
    let lists = [
        ("websocket_paths", websocket_paths),
        ("provider_tools", provider_tools),
        ("provider_fetch", provider_fetch),
        ("mcp_methods", mcp_methods),
        ("mcp_tools", mcp_tools),
    ];
    let flags = [
        ("plain", plain),
        ("websocket", websocket),
        ("unsafe_keep_credentials", unsafe_keep_credentials),
        ("unsafe_secret_hosts", unsafe_secret_hosts),
    ];
    let texts = texts.into_iter().filter_map(|(key, at)| Some((key, at.as_ref()?.span.clone())));
    let lists = lists.into_iter().filter_map(|(key, at)| Some((key, at.as_ref()?.span.clone())));
    let flags = flags.into_iter().filter_map(|(key, at)| Some((key, at.as_ref()?.span.clone())));
    let most = max_body.iter().map(|at| ("max_body", at.span.clone()));
    for (key, span) in texts.chain(lists).chain(flags).chain(most).chain(sending::given(sending)) {
        faults.add(span, format!("`{key}` says nothing beside `deny`: a denial lets nothing through"));
    }
    if let Some(query) = query.as_ref().filter(|query| query.value.is_empty()) {
        faults.add(query.span.clone(), "`query` of a denial names the keys that are denied: leave it out, or fill it");
    }
}

/// What would be refused is not given a credential, and keeps none.
fn check_observed(raw: &RawGrant, faults: &mut Faults) {
    if let Some(secret) = &raw.secret {
        faults.add(
            secret.span.clone(),
            "`secret` beside `observe`: what would be refused is given no credential, take one of the two out",
        );
    }
    if let Some(keep) = raw.unsafe_keep_credentials.as_ref().filter(|keep| keep.value) {
        faults.add(
            keep.span.clone(),
            "`unsafe_keep_credentials` beside `observe`: what would be refused keeps no credential, take one of the two out",
        );
    }
}
