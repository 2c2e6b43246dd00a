//! The handshake by table: what is one, what is none, and what answers it.

use http::request::Parts;
use http::{Request, Version};

use super::{Asked, Handshake, Malformed, Mismatch, accept};

const KEY: (&str, &str) = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
const VERSION: (&str, &str) = ("Sec-WebSocket-Version", "13");
const UPGRADE: (&str, &str) = ("Upgrade", "websocket");
const CONNECTION: (&str, &str) = ("Connection", "keep-alive, Upgrade");
const ACCEPT: (&str, &str) = ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");

fn head(method: &str, fields: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri("/v1/responses");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}

/// The handshake with more fields, and without those of these names.
fn with(more: &[(&'static str, &'static str)], without: &[&str]) -> Parts {
    let whole = [KEY, VERSION, UPGRADE, CONNECTION];
    let kept = whole.iter().filter(|(name, _)| !without.contains(name)).chain(more).copied();
    head("GET", &kept.collect::<Vec<_>>())
}

fn handshake(head: &Parts) -> Handshake {
    match Asked::by(head) {
        Ok(Asked::WebSocket(handshake)) => handshake,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_sample_key_of_rfc_6455_is_answered_as_it_says() {
    assert_eq!(accept(KEY.1), ACCEPT.1);
    assert_eq!(accept("x3JJHMbDL1EzLkh9GBhXDw=="), "HSmrc0sMlYUkAGmm5OPpG2HaGWk=");
}

#[test]
fn only_an_exact_opening_handshake_is_one() {
    let fine = [with(&[], &[]), with(&[("Upgrade", "WebSocket")], &["Upgrade"]), with(&[("Origin", "x")], &[])];
    for head in &fine {
        handshake(head);
    }
    let mut old = with(&[], &[]);
    old.version = Version::HTTP_10;
    let table = [
        ("a POST", head("POST", &[KEY, VERSION, UPGRADE, CONNECTION]), Malformed::Method),
        ("HTTP/1.0", old, Malformed::Version),
        ("a length", with(&[("Content-Length", "0")], &[]), Malformed::Body),
        ("chunks", with(&[("Transfer-Encoding", "chunked")], &[]), Malformed::Body),
        ("an expectation", with(&[("Expect", "100-continue")], &[]), Malformed::Body),
        ("websocket twice", with(&[UPGRADE], &[]), Malformed::Upgrade),
        ("websocket twice in one", with(&[("Upgrade", "websocket, websocket")], &["Upgrade"]), Malformed::Upgrade),
        ("no Connection", with(&[], &["Connection"]), Malformed::Connection),
        ("another Connection", with(&[("Connection", "keep-alive")], &["Connection"]), Malformed::Connection),
        ("the key taken away", with(&[("Connection", "Sec-WebSocket-Key")], &[]), Malformed::Connection),
        ("no version", with(&[], &["Sec-WebSocket-Version"]), Malformed::SocketVersion),
        ("version 8", with(&[("Sec-WebSocket-Version", "8")], &["Sec-WebSocket-Version"]), Malformed::SocketVersion),
        ("two versions", with(&[VERSION], &[]), Malformed::SocketVersion),
        ("no key", with(&[], &["Sec-WebSocket-Key"]), Malformed::Key),
        ("two keys", with(&[KEY], &[]), Malformed::Key),
        ("a short key", with(&[("Sec-WebSocket-Key", "c2hvcnQ=")], &["Sec-WebSocket-Key"]), Malformed::Key),
        ("no base64", with(&[("Sec-WebSocket-Key", "!!!!")], &["Sec-WebSocket-Key"]), Malformed::Key),
        (
            "a key without its padding",
            with(&[("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ")], &["Sec-WebSocket-Key"]),
            Malformed::Key,
        ),
    ];
    for (what, head, malformed) in table {
        assert_eq!(Asked::by(&head).expect_err(what), malformed, "{what}");
    }
}

#[test]
fn other_protocols_are_told_from_it() {
    for upgrade in ["h2c", "websocket, h2c", "websocket/13", "TLS/1.0", ""] {
        let head = with(&[("Upgrade", upgrade)], &["Upgrade"]);
        assert!(matches!(Asked::by(&head), Ok(Asked::Other)), "{upgrade}");
    }
    assert!(matches!(Asked::by(&with(&[], &["Upgrade"])), Ok(Asked::Nothing)));
}

#[test]
fn a_101_answers_the_handshake_or_is_none() {
    let offered = handshake(&with(
        &[
            ("Sec-WebSocket-Protocol", "chat, superchat"),
            ("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"),
        ],
        &[],
    ));
    let bare = handshake(&with(&[], &[]));
    let up = ("Connection", "Upgrade");
    let deflate = ("Sec-WebSocket-Extensions", "permessage-deflate; server_no_context_takeover");
    let chat = ("Sec-WebSocket-Protocol", "superchat");
    type Case<'a> = (&'a str, &'a Handshake, Vec<(&'a str, &'a str)>, Result<(), Mismatch>);
    let table: Vec<Case<'_>> = vec![
        ("the least", &bare, vec![UPGRADE, up, ACCEPT], Ok(())),
        ("all that was offered", &offered, vec![UPGRADE, up, ACCEPT, deflate, chat], Ok(())),
        ("nothing of what was offered", &offered, vec![("Upgrade", "WebSocket"), up, ACCEPT], Ok(())),
        ("no Upgrade", &bare, vec![up, ACCEPT], Err(Mismatch::Upgrade)),
        ("another Upgrade", &bare, vec![("Upgrade", "h2c"), up, ACCEPT], Err(Mismatch::Upgrade)),
        ("no Connection", &bare, vec![UPGRADE, ACCEPT], Err(Mismatch::Connection)),
        (
            "the answer taken away",
            &bare,
            vec![UPGRADE, ("Connection", "Upgrade, Sec-WebSocket-Accept"), ACCEPT],
            Err(Mismatch::Connection),
        ),
        ("no answer to the key", &bare, vec![UPGRADE, up], Err(Mismatch::Accept)),
        ("two answers", &bare, vec![UPGRADE, up, ACCEPT, ACCEPT], Err(Mismatch::Accept)),
        ("another answer", &bare, vec![UPGRADE, up, ("Sec-WebSocket-Accept", KEY.1)], Err(Mismatch::Accept)),
        ("a subprotocol unasked", &bare, vec![UPGRADE, up, ACCEPT, chat], Err(Mismatch::Protocol)),
        (
            "two subprotocols",
            &offered,
            vec![UPGRADE, up, ACCEPT, ("Sec-WebSocket-Protocol", "chat, superchat")],
            Err(Mismatch::Protocol),
        ),
        ("an extension unasked", &bare, vec![UPGRADE, up, ACCEPT, deflate], Err(Mismatch::Extension)),
        (
            "one of two unasked",
            &offered,
            vec![UPGRADE, up, ACCEPT, deflate, ("Sec-WebSocket-Extensions", "mux")],
            Err(Mismatch::Extension),
        ),
    ];
    for (what, handshake, fields, result) in table {
        assert_eq!(handshake.check(Version::HTTP_11, &head("GET", &fields).headers), result, "{what}");
    }
    let least = head("GET", &[UPGRADE, up, ACCEPT]).headers;
    assert_eq!(bare.check(Version::HTTP_10, &least), Err(Mismatch::Version));
}
