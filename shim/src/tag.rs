//! Tagging: a request head as the agent wrote it becomes the head that the door gets, with the run token in it.
//!
//! Pure. Whatever the client says about proxy credentials is dropped; the one line that counts is boxd's.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use box_spec::wire::TOKEN_PASSWORD;
use box_spec::{RunId, RunToken};

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
    /// Someone asks whether the shim is up.
    Health,
    /// Nothing that the shim understands. The text says why.
    Refuse(&'static str),
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
    let form = match form_of(method, target) {
        Ok(form) => form,
        Err(answer) => return answer,
    };
    let mut head = Vec::with_capacity(consumed + 128);
    let version = if request.version == Some(0) { "HTTP/1.0" } else { "HTTP/1.1" };
    put(&mut head, &[method.as_bytes(), b" ", target.as_bytes(), b" ", version.as_bytes()]);
    put(&mut head, &[b"Proxy-Authorization: Basic ", tag.credential.as_bytes()]);
    let dropped = dropped_names(request.headers, form);
    for field in request.headers.iter() {
        if !dropped.iter().any(|name| name.eq_ignore_ascii_case(field.name)) {
            put(&mut head, &[field.name.as_bytes(), b": ", field.value]);
        }
    }
    if form == Form::Absolute {
        put(&mut head, &[b"Connection: close"]);
    }
    head.extend_from_slice(b"\r\n");
    Tagged::Pass { head, consumed }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `CONNECT host:port`: what follows is not ours to read.
    Tunnel,
    /// `GET http://host/`: one request, then the connection is done, so that no second one goes untagged.
    Absolute,
}

fn form_of(method: &str, target: &str) -> Result<Form, Tagged> {
    let is_plain = target.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("http://"));
    match (method, target) {
        ("CONNECT", _) => Ok(Form::Tunnel),
        ("GET" | "HEAD", "/healthz") => Err(Tagged::Health),
        _ if is_plain => Ok(Form::Absolute),
        _ => Err(Tagged::Refuse("the shim is a proxy: use CONNECT, or a request whose target begins with http://")),
    }
}

/// The fields that are not passed on: the client's proxy credentials always; for a single request also all that
/// concerns the connection, with the fields that `Connection` names.
fn dropped_names<'a>(fields: &'a [httparse::Header<'a>], form: Form) -> Vec<&'a str> {
    let mut names = vec!["proxy-authorization"];
    if form == Form::Absolute {
        names.extend(["connection", "proxy-connection", "keep-alive"]);
        let nominating = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("connection"));
        let nominated = nominating.filter_map(|field| std::str::from_utf8(field.value).ok());
        let nominated = nominated.flat_map(|value| value.split(',')).map(str::trim);
        names.extend(nominated.filter(|name| !FRAMING.iter().any(|kept| kept.eq_ignore_ascii_case(name))));
    }
    names
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
    use super::{RunTag, Tagged, tag};

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
