//! How a service's secret is sent: `header`, `scheme`, `username` and `prefix`, of a secret or of one grant.

use http::HeaderName;
use http::header::AUTHORIZATION;

use crate::policy::carriers;
use crate::vault::{Form, SentAs};

use super::convert::span_of;
use super::faults::{Faults, Span};
use super::raw::RawSending;
use super::reader::At;

/// What the keys say together. Nothing said is a bearer.
pub(super) fn convert(raw: RawSending, faults: &mut Faults) -> Option<SentAs> {
    let RawSending { header, scheme, username, prefix } = raw;
    let header = match header {
        Some(header) => Some(At { value: named(&header, faults)?, span: header.span }),
        None => None,
    };
    let is_other = header.as_ref().is_some_and(|header| header.value != AUTHORIZATION);
    let said = scheme.as_ref().map(|scheme| scheme.value.as_str());
    let form = match said.unwrap_or(if is_other { "none" } else { "bearer" }) {
        "none" => {
            Form::Bare { prefix: prefix.as_ref().map_or_else(|| Some(String::new()), |text| plain(text, faults))? }
        }
        "bearer" => Form::Bearer,
        "token" => Form::Token,
        "basic" => Form::Basic {
            username: username.as_ref().map_or_else(|| Some(GIT_USER.to_owned()), |text| user(text, faults))?,
        },
        _ => {
            faults.add(span_of(&scheme), "`scheme` must be \"bearer\", \"basic\", \"token\" or \"none\"");
            return None;
        }
    };
    let mut stray = |at: Option<At<String>>, fits: bool, message: &str| {
        let at = at.filter(|_| !fits);
        if let Some(at) = &at {
            faults.add(at.span.clone(), message);
        }
        at.is_none()
    };
    let is_bare = matches!(form, Form::Bare { .. });
    let fit = [
        stray(
            scheme,
            is_bare || !is_other,
            "`scheme` is for the header `authorization`: what stands before the value in another is its `prefix`",
        ),
        stray(username, matches!(form, Form::Basic { .. }), "`username` goes with `scheme = \"basic\"` alone"),
        stray(prefix, is_bare, "`prefix` goes with another `header`, or with `scheme = \"none\"`"),
    ];
    let header = header.map_or(AUTHORIZATION, |header| header.value);
    fit.iter().all(|fits| *fits).then_some(SentAs { header, form })
}

/// The keys that were given, for a place where none of them belongs.
pub(super) fn given(raw: &RawSending) -> impl Iterator<Item = (&'static str, Span)> {
    let RawSending { header, scheme, username, prefix } = raw;
    let keys = [("header", header), ("scheme", scheme), ("username", username), ("prefix", prefix)];
    keys.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?.span.clone())))
}

/// A header that may carry a credential: none that frames the request, says where it goes, or belongs to one hop.
fn named(header: &At<String>, faults: &mut Faults) -> Option<HeaderName> {
    let mut refuse = |message: &str| {
        faults.add(header.span.clone(), message);
        None
    };
    let Ok(name) = header.value.parse::<HeaderName>() else {
        return refuse("`header` must be the name of an HTTP header");
    };
    let folded = carriers::folded_header(&name);
    if folded == "cookie" {
        return refuse("`header` cannot be `cookie`: the service's own `set-cookie` would hand the box a session");
    }
    if NEVER.contains(&&*folded) || NEVER_BEGINNINGS.iter().any(|start| folded.starts_with(start)) {
        return refuse(
            "`header` cannot be one that HTTP, a proxy or the house gives another meaning: name the one that the service documents for its credential",
        );
    }
    Some(name)
}

fn user(username: &At<String>, faults: &mut Faults) -> Option<String> {
    // RFC 7617 §2: a colon ends the user name.
    let fits =
        username.value.len() <= LONGEST && username.value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    let read = fits.then(|| username.value.clone());
    faults.take(&username.span, read.ok_or("`username` must be at most 255 letters of visible ASCII, and no colon"))
}

fn plain(prefix: &At<String>, faults: &mut Faults) -> Option<String> {
    let fits =
        prefix.value.len() <= LONGEST && prefix.value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let read = fits.then(|| prefix.value.clone());
    faults.take(&prefix.span, read.ok_or("`prefix` must be at most 255 letters of visible ASCII and blanks"))
}

/// What git hosts take beside a token.
const GIT_USER: &str = "x-access-token";
const LONGEST: usize = 255;

/// Folded.
const NEVER: &[&str] = &[
    "accept",
    "age",
    "allow",
    "cache-control",
    "connection",
    "cookie2",
    "date",
    "expect",
    "forwarded",
    "from",
    "host",
    "http2-settings",
    "keep-alive",
    "location",
    "max-forwards",
    "origin",
    "pragma",
    "range",
    "referer",
    "server",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-host",
    "x-original-uri",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

const NEVER_BEGINNINGS: &[&str] =
    &["accept-", "access-control-", "content-", "if-", "proxy-", "sec-", "x-boxgate-", "x-forwarded-"];

#[cfg(test)]
mod tests {
    use super::{At, Faults, RawSending, convert};
    use crate::vault::{Form, SentAs};

    fn text(value: Option<&str>) -> Option<At<String>> {
        value.map(|value| At { value: value.to_owned(), span: 0..1 })
    }

    fn read(
        header: Option<&str>,
        scheme: Option<&str>,
        username: Option<&str>,
        prefix: Option<&str>,
    ) -> (Option<SentAs>, bool) {
        let mut faults = Faults::default();
        let raw =
            RawSending { header: text(header), scheme: text(scheme), username: text(username), prefix: text(prefix) };
        (convert(raw, &mut faults), faults.is_empty())
    }

    #[test]
    fn the_keys_say_together_how_a_secret_is_sent() {
        let bare = |prefix: &str| Form::Bare { prefix: prefix.to_owned() };
        let basic = |username: &str| Form::Basic { username: username.to_owned() };
        for (header, scheme, username, prefix, name, form) in [
            (None, None, None, None, "authorization", Form::Bearer),
            (Some("Authorization"), Some("bearer"), None, None, "authorization", Form::Bearer),
            (None, Some("token"), None, None, "authorization", Form::Token),
            (None, Some("basic"), None, None, "authorization", basic("x-access-token")),
            (None, Some("basic"), Some("__token__"), None, "authorization", basic("__token__")),
            (None, Some("basic"), Some(""), None, "authorization", basic("")),
            (None, Some("none"), None, Some("Bot "), "authorization", bare("Bot ")),
            (Some("PRIVATE-TOKEN"), None, None, None, "private-token", bare("")),
            (Some("x-key"), Some("none"), None, Some("Key "), "x-key", bare("Key ")),
        ] {
            let (read, is_good) = read(header, scheme, username, prefix);
            let read = read.expect(name);
            assert!(is_good);
            assert_eq!((read.header.as_str(), read.form), (name, form));
        }
    }

    #[test]
    fn no_header_of_another_meaning_is_set() {
        for name in [
            "host",
            "HOST",
            "Connection",
            "proxy-authorization",
            "proxy_authorization",
            "content-length",
            "transfer_encoding",
            "cookie",
            "te",
            "upgrade",
            "sec-websocket-key",
            "x-boxgate-reason",
            "x-forwarded-host",
            "x-original-url",
            "expect",
            "",
            "a b",
            "x:y",
            "é",
        ] {
            let (read, is_good) = read(Some(name), None, None, None);
            assert!(read.is_none() && !is_good, "{name}");
        }
    }

    #[test]
    fn keys_that_contradict_each_other_are_faults() {
        for (header, scheme, username, prefix) in [
            (None, Some("digest"), None, None),
            (None, Some("Bearer"), None, None),
            (Some("x-key"), Some("bearer"), None, None),
            (Some("x-key"), Some("basic"), None, None),
            (None, None, Some("me"), None),
            (None, Some("token"), Some("me"), None),
            (Some("x-key"), None, Some("me"), None),
            (None, None, None, Some("Bot ")),
            (None, Some("basic"), None, Some("Bot ")),
            (None, Some("basic"), Some("a:b"), None),
            (None, Some("basic"), Some("a b"), None),
            (Some("x-key"), None, None, Some("a\nb")),
            (Some("x-key"), None, None, Some("é")),
        ] {
            let (read, is_good) = read(header, scheme, username, prefix);
            assert!(read.is_none() && !is_good, "{header:?} {scheme:?} {username:?} {prefix:?}");
        }
    }
}
