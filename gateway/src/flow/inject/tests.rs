//! The overwrite by table: what the box sent, and what goes out.

use http::header::HOST;
use http::{HeaderMap, HeaderName, Request};

use super::{address, still_holds_a_sentinel, strip_credentials, strip_spellings, without_credential_keys};
use crate::host::Target;
use crate::policy::Scheme;

fn names(headers: &HeaderMap) -> Vec<String> {
    let mut names: Vec<String> = headers.keys().map(ToString::to_string).collect();
    names.sort();
    names
}

fn parts(uri: &str, fields: &[(&str, &str)]) -> http::request::Parts {
    let mut request = Request::builder().uri(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}

#[test]
fn every_carrier_of_a_credential_is_emptied_in_any_spelling() {
    let mut head = parts(
        "/v1/messages?beta=true&api_key=S&x=1&ACCESS%5ftoken=S&y=1;token=S&key[]=S&z=a;b",
        &[
            ("authorization", "Bearer S"),
            ("authorization", "Bearer attacker"),
            ("x-api-key", "S"),
            ("x_api_key", "S"),
            ("cookie", "session=S"),
            ("sec-websocket-protocol", "chat, openai-insecure-api-key.S"),
            ("anthropic-version", "2023-06-01"),
            ("user-agent", "agent"),
        ],
    );
    strip_credentials(&mut head);
    assert_eq!(names(&head.headers), ["anthropic-version", "user-agent"]);
    assert_eq!(head.uri.to_string(), "/v1/messages?beta=true&x=1&z=a;b");
}

#[test]
fn a_subprotocol_that_cannot_be_read_is_not_offered() {
    for (list, is_kept) in [
        (&b"realtime, chat"[..], true),
        (b"realtime, openai-insecure-api-key.S\xff", false),
        (b"realtime\xff, openai-insecure-api-key.S", false),
        (b"realtime\xc3\xa9", false),
    ] {
        let mut head = parts("/", &[]);
        let value = http::HeaderValue::from_bytes(list).expect("a value");
        head.headers.insert(http::header::SEC_WEBSOCKET_PROTOCOL, value);
        strip_credentials(&mut head);
        assert_eq!(!head.headers.is_empty(), is_kept, "{}", String::from_utf8_lossy(list));
    }
}

#[test]
fn what_the_house_sets_stands_alone_in_every_spelling() {
    let mut head = parts(
        "/",
        &[
            ("chatgpt-account-id", "mine"),
            ("ChatGPT-Account-ID", "mine"),
            ("chatgpt_account_id", "mine"),
            ("chatgpt-account_id", "mine"),
            ("chatgpt-account-ids", "another"),
            ("openai-organization", "org"),
        ],
    );
    strip_spellings(&mut head, &HeaderName::from_static("chatgpt-account-id"));
    assert_eq!(names(&head.headers), ["chatgpt-account-ids", "openai-organization"]);
}

#[test]
fn an_address_without_credentials_is_left_as_it_came() {
    for uri in ["/v1/messages?beta=true", "/v1/messages", "/a?b=c%20d&e"] {
        let head = parts(uri, &[]);
        assert!(without_credential_keys(head.uri.path_and_query().expect("a path")).is_none(), "{uri}");
    }
}

#[test]
fn the_address_is_in_origin_form_and_the_host_is_the_target() {
    for (uri, authority, scheme, host) in [
        ("https://api.test/x?y", "api.test:443", Scheme::Https, "api.test"),
        ("/x?y", "api.test:8443", Scheme::Https, "api.test:8443"),
        ("http://api.test/x?y", "api.test:80", Scheme::Http, "api.test"),
    ] {
        let mut head = parts(uri, &[("host", "evil.test")]);
        let target = Target::from_authority(authority, None).expect("a target");
        address(&mut head, &target, scheme).expect("an address");
        assert_eq!(
            (head.uri.to_string().as_str(), &head.headers[HOST]),
            ("/x?y", &http::HeaderValue::from_str(host).expect("a value"))
        );
    }
}

#[test]
fn a_sentinel_that_is_left_over_is_seen() {
    let sentinel = "sk-ant-oat01-boxgate-sentinel-0";
    assert!(still_holds_a_sentinel(&parts("/", &[("x-note", sentinel)])));
    assert!(still_holds_a_sentinel(&parts(&format!("/{sentinel}"), &[])));
    assert!(!still_holds_a_sentinel(&parts("/v1/messages", &[("x-note", "sk-ant-oat01-real")])));
}
