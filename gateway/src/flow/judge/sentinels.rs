//! Sentinels: a stand-in credential is let through only toward its own provider, in a credential's place.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use box_spec::Sentinel;
use http::HeaderName;
use http::request::Parts;
use memchr::memmem::find;

use crate::body::search;
use crate::flow::identify::Caller;
use crate::policy::escapes::{Piece, pieces};
use crate::policy::{Grant, Serves, carriers};
use crate::refusal::{Reason, Refusal};

/// Refuses a head that carries a sentinel where none belongs: in the address, in a header that carries no credential,
/// toward a grant without a secret, or one of another run.
pub(super) fn check(caller: &Caller, grant: &Grant, head: &Parts) -> Result<(), Refusal> {
    let address = head.uri.path_and_query().map_or("", |address| address.as_str());
    let claims: Vec<&str> = caller.run().sentinels.iter().filter_map(claims_of).collect();
    let holds =
        |bytes: &[u8]| search::has_sentinel(bytes) || claims.iter().any(|claims| is_within(claims.as_bytes(), bytes));
    if holds(address.as_bytes()) || (address.contains('%') && holds(&unescaped(address))) {
        return Err(astray(grant, "in the address"));
    }
    for (name, value) in &head.headers {
        if !holds(value.as_bytes()) && !inside_basic(value.as_bytes()).is_some_and(|inside| holds(&inside)) {
            continue;
        }
        let Some(serves) = &grant.serves else {
            return Err(astray(grant, "toward a host that is not its provider's"));
        };
        if !is_a_place(serves, name) {
            return Err(astray(grant, "in a header that carries no credential"));
        }
        if !is_own(caller, grant, serves, value.as_bytes()) {
            return Err(astray(grant, "of another run or provider"));
        }
    }
    Ok(())
}

/// Where a credential travels; a service may have a header of its own for it.
fn is_a_place(serves: &Serves, name: &HeaderName) -> bool {
    let is_set = match serves {
        Serves::Provider(_) => false,
        Serves::Service(sent_as) => carriers::folded_header(&sent_as.header) == carriers::folded_header(name),
    };
    is_set || carriers::header_carries_credential(name)
}

/// A service's clients send it in Basic too, as a password or as a user name.
fn is_own(caller: &Caller, grant: &Grant, serves: &Serves, value: &[u8]) -> bool {
    let run = caller.run();
    match serves {
        Serves::Provider(provider) => run.sentinels_of(*provider).any(|sentinel| {
            let is_in = |needle: &str| is_within(needle.as_bytes(), value);
            is_in(&sentinel.access) || sentinel.refresh.as_deref().is_some_and(is_in)
        }),
        Serves::Service(_) => {
            let own = grant.secret.as_ref().and_then(|secret| run.sentinel_for(secret));
            let is_in = |bytes: &[u8]| own.is_some_and(|own| is_within(own.as_bytes(), bytes));
            is_in(value) || inside_basic(value).is_some_and(|inside| is_in(&inside))
        }
    }
}

fn unescaped(address: &str) -> Vec<u8> {
    let byte = |piece| match piece {
        Piece::Plain(byte) | Piece::Escaped(byte) => byte,
        Piece::Stray => b'%',
    };
    pieces(address).map(byte).collect()
}

fn inside_basic(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, credentials) = value.split_at_checked(BASIC.len())?;
    if !scheme.eq_ignore_ascii_case(BASIC) {
        return None;
    }
    STANDARD.decode(std::str::from_utf8(credentials).ok()?.trim()).ok()
}

/// The second part of a sentinel that is a JWT: what is left of it when its third part, which bears the mark, is cut off.
/// A box can always spell a sentinel anew so that no search finds it. It is worth nothing: what is missed is an alarm.
fn claims_of(sentinel: &Sentinel) -> Option<&str> {
    let mut parts = sentinel.access.split('.').skip(1);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(claims), Some(_), None) => Some(claims),
        _ => None,
    }
}

fn is_within(needle: &[u8], bytes: &[u8]) -> bool {
    // A search is prepared for each: most often there is nothing to search, or the needle is all that follows a scheme.
    bytes.len() >= needle.len() && (bytes.ends_with(needle) || find(bytes, needle).is_some())
}

fn astray(grant: &Grant, whereabouts: &str) -> Refusal {
    Refusal::new(
        Reason::SentinelAstray,
        "a stand-in credential was found where it does not belong",
        format!("a sentinel {whereabouts}"),
    )
    .with_grant(grant.name.as_str())
}

const BASIC: &[u8] = b"basic ";
