//! Hops: the fields of a head that concern one connection only, and so never travel further (RFC 9110 §7.6.1).

use box_spec::wire::{REASON_HEADER, STATUS_HEADER};
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Removes them from a request. That its sender takes trailers of an answer is told on; its own go nowhere.
pub fn strip_request(headers: &mut HeaderMap) {
    let trailers = headers.get_all(TE).into_iter().any(|value| {
        value.to_str().is_ok_and(|te| te.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("trailers")))
    });
    strip(headers);
    headers.remove(TRAILER);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Removes them from an answer. Its chunks are its length, whatever else it says (RFC 9112 §6.3): else the box would be
/// told another end than the one that came.
pub fn strip_answer(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    strip(headers);
    // Only the house says that the house refused.
    for name in &HOUSE {
        headers.remove(name);
    }
}

/// Sets what makes a head one of a WebSocket handshake again, after all that concerns one connection was removed: the hop
/// that comes next has an upgrade of its own (RFC 6455 §4.1).
pub fn keep_websocket(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    // A 101 has no body (RFC 9110 §8.6), and a handshake has none either.
    headers.remove(CONTENT_LENGTH);
}

/// Whatever `Connection` names goes too, but not `Host`: that is the target, which no field can take away.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| name != HOST)
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in &ONE_HOP {
        headers.remove(name);
    }
}

/// Whether a field concerns one connection only, or the framing of what passes it: what arrives says nothing of what goes on.
#[must_use]
pub fn is_of_one_hop(name: &HeaderName) -> bool {
    ONE_HOP.contains(name) || [HOST, CONTENT_LENGTH, TRAILER].contains(name)
}

/// Whether a field arrives and goes on.
#[must_use]
pub fn goes_on(headers: &HeaderMap, name: &HeaderName) -> bool {
    let is_dropped = |value: &HeaderValue| {
        value.to_str().is_ok_and(|list| list.split(',').any(|named| named.trim().eq_ignore_ascii_case(name.as_str())))
    };
    headers.contains_key(name) && !headers.get_all(CONNECTION).into_iter().any(is_dropped)
}

static ONE_HOP: [HeaderName; 9] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("proxy-authentication-info"),
];
static HOUSE: [HeaderName; 2] = [HeaderName::from_static(REASON_HEADER), HeaderName::from_static(STATUS_HEADER)];

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Request};

    use super::{strip_answer, strip_request};

    fn head(fields: &[(&str, &str)]) -> HeaderMap {
        let request = fields.iter().fold(Request::builder(), |request, (name, value)| request.header(*name, *value));
        request.body(()).expect("a request").into_parts().0.headers
    }

    const ONE_HOP: [(&str, &str); 11] = [
        ("connection", ""),
        ("connection", "close, X-Mine , authorization, host"),
        ("authorization", "Bearer S"),
        ("x-mine", "named"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("proxy-authorization", "Basic x"),
        ("proxy-authenticate", "Basic"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip, Trailers"),
    ];

    #[test]
    fn what_concerns_one_connection_goes_no_further_and_host_stays() {
        let fields = [&ONE_HOP[..], &[("host", "a.test"), ("accept", "*/*"), ("trailer", "x-sum")]].concat();
        let mut asked = head(&fields);
        strip_request(&mut asked);
        assert_eq!(asked, head(&[("te", "trailers"), ("host", "a.test"), ("accept", "*/*")]));
        let mut answered = head(&fields);
        strip_answer(&mut answered);
        assert_eq!(answered, head(&[("host", "a.test"), ("accept", "*/*"), ("trailer", "x-sum")]));
    }

    #[test]
    fn an_upstream_does_not_speak_for_the_house() {
        let mut answered = head(&[("x-boxgate-reason", "no-grant"), ("X-Boxgate-Status", "403"), ("accept", "*/*")]);
        strip_answer(&mut answered);
        assert_eq!(answered, head(&[("accept", "*/*")]));
    }

    #[test]
    fn a_request_announces_no_trailers() {
        let mut asked = head(&[("te", "gzip"), ("trailer", "x-sum")]);
        strip_request(&mut asked);
        assert_eq!(asked, HeaderMap::new());
    }
}
