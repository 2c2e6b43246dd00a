//! Sentinels: a stand-in credential is let through only toward its own provider, in a credential's place.

use std::borrow::Cow;

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
use crate::vault::SecretName;

/// Refuses a head that carries a sentinel where none belongs: in the address, in a header that carries no credential,
/// toward a grant without a secret, or one of another run. Tells whose it let through.
pub(super) fn check(caller: &Caller, grant: &Grant, head: &Parts) -> Result<Whose, Refusal> {
    let claims = claims(caller);
    let holds = |bytes: &[u8]| holds(&claims, bytes);
    let address = head.uri.path_and_query().map_or("", |address| address.as_str());
    if holds(address.as_bytes()) || (address.contains('%') && holds(&unescaped(address))) {
        return Err(astray(grant, "in the address"));
    }
    let mut whose = Whose::NONE;
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
        whose = match (serves, &grant.secret) {
            (Serves::Provider(provider), _) => Whose(Cow::Borrowed(provider.as_str())),
            (Serves::Service(_), secret) => Whose::of_service(secret.as_ref().map_or("", SecretName::as_str)),
        };
    }
    Ok(whose)
}

/// Whose stand-in a head carried, in the ledger's words: a provider, `secret:NAME` of a service, nothing, or one that belongs
/// nowhere.
#[derive(Debug)]
pub(super) struct Whose(pub(super) Cow<'static, str>);

impl Whose {
    pub(super) const NONE: Self = Self(Cow::Borrowed(""));

    fn of_service(secret: &str) -> Self {
        Self(Cow::Owned(format!("secret:{secret}")))
    }

    /// Of a head that is refused for something else.
    pub(super) fn in_head(caller: &Caller, head: &Parts) -> Self {
        let run = caller.run();
        let claims = claims(caller);
        let address = head.uri.path_and_query().map_or("", |address| address.as_str());
        if holds(&claims, address.as_bytes()) || holds(&claims, &unescaped(address)) {
            return Self(Cow::Borrowed("astray"));
        }
        let mut whose = Self::NONE;
        for (name, value) in &head.headers {
            let value = value.as_bytes();
            let inside = inside_basic(value);
            if !holds(&claims, value) && !inside.as_deref().is_some_and(|inside| holds(&claims, inside)) {
                continue;
            }
            let is_in = |text: &str| {
                is_within(text.as_bytes(), value)
                    || inside.as_deref().is_some_and(|inside| is_within(text.as_bytes(), inside))
            };
            let of = run.sentinels.iter().find(|own| is_in(&own.access) || own.refresh.as_deref().is_some_and(is_in));
            let service = || run.service_sentinels.iter().find(|own| is_in(&own.value));
            whose = match of {
                _ if !carriers::header_carries_credential(name) => Self(Cow::Borrowed("astray")),
                Some(own) => Self(Cow::Borrowed(own.provider.as_str())),
                None => service().map_or(Self(Cow::Borrowed("astray")), |own| Self::of_service(&own.secret)),
            };
        }
        whose
    }
}

fn claims(caller: &Caller) -> Vec<&str> {
    caller.run().sentinels.iter().filter_map(claims_of).collect()
}

fn holds(claims: &[&str], bytes: &[u8]) -> bool {
    search::has_sentinel(bytes) || claims.iter().any(|claims| is_within(claims.as_bytes(), bytes))
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
