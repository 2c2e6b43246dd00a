//! Tagging: a request head as the agent wrote it becomes the head that the door gets, with the run token in it.
//!
//! Pure. Whatever the client says about proxy credentials is dropped; the one line that counts is boxd's. A head for the
//! box's own loopback gets no token and becomes what a server expects, since it never reaches the door.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use box_spec::wire::TOKEN_PASSWORD;
use box_spec::{RunId, RunToken};

use crate::near::{self, Near, Place};

/// The run whose connections are tagged. Never prints its token.
#[derive(Clone)]
pub struct RunTag {
    run: RunId,
    credential: String,
}

/// What to do with a head.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Tagged {
    /// Not all of it has come yet.
    Incomplete,
    /// Send these bytes to the door, then all that follows the head; `consumed` is the length of the client's head.
    Pass { head: Vec<u8>, consumed: usize },
    /// Send these bytes to a server within the box, then what `body` allows.
    Near { near: Near, head: Vec<u8>, consumed: usize, body: Body },
    /// Someone asks whether the shim is up.
    Health,
    /// Nothing that the shim understands. The text says why.
    Refuse(&'static str),
}

/// What may follow a head that stays in the box.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// Anything, in both directions; the client waits to be told that it is connected.
    Tunnel,
    /// So many bytes: behind them another request might begin, which would be for somebody else.
    Sized(u64),
    /// Chunks, whose end only the server looks for.
    Chunked,
}

impl RunTag {
    #[must_use]
    pub fn new(run: &RunId, token: &RunToken) -> Self {
        let plain = format!("{}:{TOKEN_PASSWORD}", token.expose());
        Self { run: run.clone(), credential: STANDARD.encode(plain) }
    }

    #[must_use]
    pub const fn run(&self) -> &RunId {
        &self.run
    }
}

impl fmt::Debug for RunTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunTag({})", self.run)
    }
}

/// Reads the head at the start of `bytes`.
pub(crate) fn tag(bytes: &[u8], tag: &RunTag) -> Tagged {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let consumed = match request.parse(bytes) {
        Ok(httparse::Status::Complete(consumed)) => consumed,
        Ok(httparse::Status::Partial) => return Tagged::Incomplete,
        Err(httparse::Error::TooManyHeaders) => {
            return Tagged::Refuse("more than 100 header fields");
        }
        Err(_) => return Tagged::Refuse("this is no HTTP/1 request; the shim is an HTTP proxy"),
    };
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Tagged::Refuse("a request without a method or a target");
    };
    let version = if request.version == Some(0) { "HTTP/1.0" } else { "HTTP/1.1" };
    let route = match route_of(method, target) {
        Ok(route) => route,
        Err(answer) => return answer,
    };
    let start = [method.as_bytes(), b" ", target.as_bytes(), b" ", version.as_bytes()];
    let fields = &*request.headers;
    match route {
        Route::Tunnel => Tagged::Pass { head: for_door(&start, tag, fields, false), consumed },
        Route::Away => Tagged::Pass { head: for_door(&start, tag, fields, true), consumed },
        Route::NearTunnel(near) => Tagged::Near { near, head: Vec::new(), consumed, body: Body::Tunnel },
        Route::Near { near, authority, path } => match body_of(fields) {
            Ok(body) => {
                let start = [method.as_bytes(), b" ", path.as_bytes(), b" ", version.as_bytes()];
                Tagged::Near { near, head: for_server(&start, authority, fields), consumed, body }
            }
            Err(why) => Tagged::Refuse(why),
        },
    }
}

/// The head as it came, with our credential for theirs; `single` when it is one request and no tunnel.
fn for_door(start: &[&[u8]], tag: &RunTag, fields: &[httparse::Header<'_>], single: bool) -> Vec<u8> {
    let mut head = Vec::new();
    put(&mut head, start);
    put(&mut head, &[b"Proxy-Authorization: Basic ", tag.credential.as_bytes()]);
    put_rest(&mut head, fields, &dropped_names(fields, single), single);
    head
}

/// The head for a server within the box. The target says whom it is for, whatever `Host` says (RFC 9112, section 3.2.2).
fn for_server(start: &[&[u8]], authority: &str, fields: &[httparse::Header<'_>]) -> Vec<u8> {
    let mut head = Vec::new();
    put(&mut head, start);
    put(&mut head, &[b"Host: ", authority.as_bytes()]);
    let mut dropped = dropped_names(fields, true);
    dropped.push("host");
    put_rest(&mut head, fields, &dropped, true);
    head
}

#[derive(PartialEq, Eq)]
enum Route<'a> {
    /// `CONNECT host:port`: what follows is not ours to read.
    Tunnel,
    /// `GET http://host/`: one request, then the connection is done, so that no second one goes untagged.
    Away,
    /// The same two, for the box's own loopback.
    NearTunnel(Near),
    Near {
        near: Near,
        authority: &'a str,
        path: Cow<'a, str>,
    },
}

fn route_of<'a>(method: &str, target: &'a str) -> Result<Route<'a>, Tagged> {
    if method == "CONNECT" {
        return match near::place(target, None) {
            Place::Away => Ok(Route::Tunnel),
            Place::Near(near) => Ok(Route::NearTunnel(near)),
            Place::Wrong(why) => Err(Tagged::Refuse(why)),
        };
    }
    let plain = target.split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("http://"));
    let Some((_, rest)) = plain else {
        return Err(match (method, target) {
            ("GET" | "HEAD", "/healthz") => Tagged::Health,
            _ => Tagged::Refuse("the shim is a proxy: use CONNECT, or a request whose target begins with http://"),
        });
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    match near::place(authority, Some(80)) {
        Place::Away => Ok(Route::Away),
        Place::Near(near) => Ok(Route::Near { near, authority, path: origin_form(method, path) }),
        Place::Wrong(why) => Err(Tagged::Refuse(why)),
    }
}

/// The target as a server expects it, RFC 9112, sections 3.2.1 and 3.2.4.
fn origin_form<'a>(method: &str, path: &'a str) -> Cow<'a, str> {
    match path {
        "" if method == "OPTIONS" => "*".into(),
        _ if path.starts_with('/') => path.into(),
        _ => format!("/{path}").into(),
    }
}

/// What follows the head, or why that cannot be told (RFC 9112, section 6.3).
fn body_of(fields: &[httparse::Header<'_>]) -> Result<Body, &'static str> {
    let values = |name: &'static str| {
        fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    };
    let (mut lengths, mut codings) = (values("content-length"), values("transfer-encoding"));
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(Body::Sized(0)),
        (None, Some(_)) => Ok(Body::Chunked),
        (Some(length), None) if lengths.next().is_none() && length.iter().all(u8::is_ascii_digit) => {
            let length = std::str::from_utf8(length).ok().and_then(|digits| digits.parse().ok());
            length.map(Body::Sized).ok_or("a Content-Length that is no number")
        }
        (Some(_), _) => Err("the length of the body can be read in two ways"),
    }
}

/// The fields that are not passed on: the client's proxy credentials always; for a single request also all that
/// concerns the connection, with the fields that `Connection` names.
fn dropped_names<'a>(fields: &'a [httparse::Header<'a>], single: bool) -> Vec<&'a str> {
    let mut names = vec!["proxy-authorization"];
    if single {
        names.extend(["connection", "keep-alive"]);
        names.extend(fields.iter().map(|field| field.name).filter(|name| is_proxys(name)));
        let nominating = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("connection"));
        let nominated = nominating.filter_map(|field| std::str::from_utf8(field.value).ok());
        let nominated = nominated.flat_map(|value| value.split(',')).map(str::trim);
        names.extend(nominated.filter(|name| !FRAMING.iter().any(|kept| kept.eq_ignore_ascii_case(name))));
    }
    names
}

/// `Proxy-Connection` and its like, which are for us and for nobody behind us.
fn is_proxys(name: &str) -> bool {
    name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("proxy-"))
}

/// The fields that are kept, and the end of the head.
fn put_rest(head: &mut Vec<u8>, fields: &[httparse::Header<'_>], dropped: &[&str], last: bool) {
    for field in fields {
        if !dropped.iter().any(|name| name.eq_ignore_ascii_case(field.name)) {
            put(head, &[field.name.as_bytes(), b": ", field.value]);
        }
    }
    if last {
        put(head, &[b"Connection: close"]);
    }
    head.extend_from_slice(b"\r\n");
}

/// One line, from its parts.
fn put(head: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        head.extend_from_slice(part);
    }
    head.extend_from_slice(b"\r\n");
}

/// The most header fields of one head.
const FIELDS: usize = 100;
/// What says where a request ends and whom it is for stays, whatever `Connection` names.
const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "host"];

#[cfg(test)]
mod tests {
    use super::{Body, RunTag, Tagged, tag};

    const TOKEN: &str = "3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab";
    /// base64 of the token, a colon and an `x`.
    const OURS: &str = "Proxy-Authorization: Basic M2YyYjhjMWUtOWQ0YS00YzZiLThlMmYtMDEyMzQ1Njc4OWFiOng=\r\n";

    fn run() -> RunTag {
        let run = "20260131T235959-0a1b2c3d".parse().expect("a run id");
        RunTag::new(&run, &TOKEN.parse().expect("a token"))
    }

    fn passed(head: &str) -> String {
        match tag(head.as_bytes(), &run()) {
            Tagged::Pass { head, .. } => String::from_utf8(head).expect("text"),
            other => panic!("{head:?}: {other:?}"),
        }
    }

    #[test]
    fn a_tunnel_carries_our_credential_and_no_other() {
        for theirs in
            ["", "Proxy-Authorization: Basic eDp5\r\n", "proxy-AUTHORIZATION: Bearer x\r\nPROXY-authorization: y\r\n"]
        {
            let got = passed(&format!("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n{theirs}X-Other: 1\r\n\r\n"));
            assert_eq!(got, format!("CONNECT a.test:443 HTTP/1.1\r\n{OURS}Host: a.test:443\r\nX-Other: 1\r\n\r\n"));
        }
    }

    #[test]
    fn a_plain_request_is_the_last_of_its_connection() {
        let got = passed(
            "POST http://a.test/x HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, x-hop, content-length\r\nX-Hop: 1\r\nProxy-Connection: keep-alive\r\nContent-Length: 2\r\n\r\nab",
        );
        assert_eq!(
            got,
            format!(
                "POST http://a.test/x HTTP/1.1\r\n{OURS}Host: a.test\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
            )
        );
    }

    fn near(head: &str) -> (String, String, Body) {
        match tag(head.as_bytes(), &run()) {
            Tagged::Near { near, head, body, .. } => (near.to_string(), String::from_utf8(head).expect("text"), body),
            other => panic!("{head:?}: {other:?}"),
        }
    }

    #[test]
    fn what_is_for_the_boxs_own_loopback_gets_no_token_and_a_servers_form() {
        let got = near(
            "POST http://LocalHost:7777/mcp?a=b#c HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: Basic eDp5\r\nPROXY-Other: x\r\nConnection: keep-alive, x-hop\r\nX-Hop: 1\r\nAccept: */*\r\nContent-Length: 2\r\n\r\n{}",
        );
        let head = "POST /mcp?a=b HTTP/1.1\r\nHost: LocalHost:7777\r\nAccept: */*\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
        assert_eq!(got, ("localhost:7777".to_owned(), head.to_owned(), Body::Sized(2)));
        for (target, path) in [("", "/"), ("?q", "/?q"), ("/a/b", "/a/b"), ("#f", "/")] {
            let (at, head, body) = near(&format!("GET HTTP://[::1]{target} HTTP/1.1\r\n\r\n"));
            let want = format!("GET {path} HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n");
            assert_eq!((at.as_str(), head, body), ("[::1]:80", want, Body::Sized(0)));
        }
        let (_, head, _) = near("OPTIONS http://127.0.0.1 HTTP/1.0\r\n\r\n");
        assert!(head.starts_with("OPTIONS * HTTP/1.0\r\n"), "{head}");
        assert_eq!(
            near("CONNECT 127.0.0.1:7777 HTTP/1.1\r\n\r\n"),
            ("127.0.0.1:7777".to_owned(), String::new(), Body::Tunnel)
        );
        let (_, _, body) = near("POST http://127.0.0.1/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(body, Body::Chunked);
    }

    #[test]
    fn a_request_within_the_box_that_can_be_read_in_two_ways_is_refused() {
        for fields in [
            "Content-Length: 2\r\nContent-Length: 2\r\n",
            "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: +2\r\n",
            "Content-Length: \r\n",
            "Content-Length: 99999999999999999999\r\n",
        ] {
            let head = format!("POST http://127.0.0.1:7777/ HTTP/1.1\r\n{fields}\r\n");
            assert!(matches!(tag(head.as_bytes(), &run()), Tagged::Refuse(_)), "{fields:?}");
        }
    }

    #[test]
    fn bytes_behind_the_head_are_not_part_of_it() {
        let head = "CONNECT a.test:443 HTTP/1.1\r\n\r\n";
        let Tagged::Pass { consumed, .. } = tag(format!("{head}\x16\x03\x01").as_bytes(), &run()) else {
            panic!("not passed")
        };
        assert_eq!(consumed, head.len());
    }

    #[test]
    fn what_is_no_proxy_request_is_refused() {
        for bad in [
            "GET / HTTP/1.1\r\n\r\n",
            "POST /claim HTTP/1.1\r\n\r\n",
            "GET https://a.test/ HTTP/1.1\r\n\r\n",
            "GET ftp://a.test/ HTTP/1.1\r\n\r\n",
            "\x16\x03\x01\x02\x00",
            "CONNECT a.test:443 HTTP/1.1\r\nA : b\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.1\r\nA: b\r\n folded: c\r\n\r\n",
            "CONNECT a.test:443 HTTP/2.0\r\n\r\n",
            "CONNECT localhost HTTP/1.1\r\n\r\n",
            "GET http://me@127.0.0.1:7777/ HTTP/1.1\r\n\r\n",
        ] {
            assert!(matches!(tag(bad.as_bytes(), &run()), Tagged::Refuse(_)), "{bad:?}");
        }
        assert_eq!(tag(b"GET /healthz HTTP/1.1\r\n\r\n", &run()), Tagged::Health);
        assert_eq!(tag(b"CONNECT a.test:443 HT", &run()), Tagged::Incomplete);
    }

    #[test]
    fn a_tag_is_never_printed() {
        assert_eq!(format!("{:?}", run()), "RunTag(20260131T235959-0a1b2c3d)");
    }
}
