//! Same host: a request names one host, whichever way it is asked.

use http::Uri;
use http::header::HOST;
use http::request::Parts;

use crate::host::Target;
use crate::policy::Scheme;
use crate::refusal::{Reason, Refusal};

/// CONNECT target = Host = the authority of an absolute form, each given exactly once (RFC 9112 §3.2).
pub(super) fn check(target: &Target, scheme: Scheme, head: &Parts) -> Result<(), Refusal> {
    let mut hosts = head.headers.get_all(HOST).into_iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Refusal::new(
            Reason::BadRequest,
            "a request needs exactly one Host",
            "no Host header, or more than one",
        ));
    };
    let agrees =
        |text: &str| Target::from_authority(text, Some(scheme.default_port())).is_ok_and(|named| named == *target);
    if !host.to_str().is_ok_and(agrees) {
        return Err(mismatch(target, "the Host header"));
    }
    match absolute(&head.uri) {
        Some((form, authority)) if form != scheme.as_str() || !agrees(authority) => {
            Err(mismatch(target, "the absolute address"))
        }
        _ => Ok(()),
    }
}

fn mismatch(target: &Target, what: &str) -> Refusal {
    Refusal::new(
        Reason::HostMismatch,
        format!("the tunnel is to {target} and {what} names another host"),
        format!("{what} differs from the CONNECT target"),
    )
}

fn absolute(uri: &Uri) -> Option<(&str, &str)> {
    Some((uri.scheme_str().unwrap_or_default(), uri.authority()?.as_str()))
}
