//! Heads: what the judge lets through says one thing only, and its line in the ledger is one line without its secrets.

use std::path::Path;
use std::sync::LazyLock;

use box_spec::BoxId;
use gateway::flow::judge::{Decision, foresee};
use gateway::host::Target;
use gateway::ledger::{Entry, Kind};
use gateway::policy::{Policy, Scheme};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Uri};

use crate::servers;

static POLICY: LazyLock<(Policy, BoxId, Target)> = LazyLock::new(|| {
    let (text, file) = (include_str!("head/house.toml"), Path::new("house.toml"));
    let config = gateway::config::parse(file, text, Path::new("/nowhere")).expect("the house of the target");
    let target = Target::from_authority("a.test:443", None).expect("a target");
    (config.policy, "one".parse().expect("a box"), target)
});

pub(crate) fn holds(data: &[u8]) {
    let Some(head) = head(data) else { return };
    written(&head);
    let (policy, box_id, target) = &*POLICY;
    let decided = foresee(policy, box_id, target, Scheme::Https, &head);
    let code = |decided: &Result<Decision, gateway::refusal::Refusal>| match decided {
        Ok(Decision::Grant(grant, _)) => grant.name.as_str().to_owned(),
        Ok(Decision::Local(route)) => route.code().to_owned(),
        Err(refusal) => refusal.reason().code().to_owned(),
    };
    let turned = foresee(policy, box_id, target, Scheme::Https, &turned(&head));
    assert_eq!(code(&decided), code(&turned), "the order of the fields says nothing");
    let Ok(Decision::Grant(grant, _)) = decided else { return };
    assert_eq!(grant.name.as_str(), "things");
    // A refusal never hangs on the spelling of a method.
    assert!(
        ["GET", "POST"].iter().any(|granted| head.method.as_str().eq_ignore_ascii_case(granted)),
        "{}",
        head.method
    );
    let other = servers::readings(head.uri.path()).into_iter().find(|path| !path.starts_with("/v1/things"));
    assert_eq!(other, None, "{}", head.uri.path());
    let (lengths, codings) = (all(&head, CONTENT_LENGTH), all(&head, TRANSFER_ENCODING));
    assert!(lengths.len() + codings.len() <= 1, "one length");
    assert!(lengths.iter().all(|length| length.bytes().all(|byte| byte.is_ascii_digit())), "{lengths:?}");
    assert!(codings.iter().all(|coding| coding.eq_ignore_ascii_case("chunked")), "{codings:?}");
    for name in head.headers.keys() {
        let folded = name.as_str().replace('_', "-");
        let outvotes = ["x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url"];
        assert!(!outvotes.contains(&&*folded), "{name}");
        assert!(
            folded == name.as_str() || !matches!(&*folded, "content-length" | "transfer-encoding" | "host"),
            "{name}"
        );
    }
}

/// Read as the server at the door reads it.
fn head(data: &[u8]) -> Option<Parts> {
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let mut request = httparse::Request::new(&mut fields);
    let Ok(httparse::Status::Complete(_)) = request.parse(data) else { return None };
    let mut head = Request::new(()).into_parts().0;
    head.method = Method::from_bytes(request.method?.as_bytes()).ok()?;
    head.uri = request.path?.parse::<Uri>().ok()?;
    head.version = if request.version == Some(1) { http::Version::HTTP_11 } else { http::Version::HTTP_10 };
    for field in request.headers.iter() {
        let (name, value) =
            (HeaderName::from_bytes(field.name.as_bytes()).ok()?, HeaderValue::from_bytes(field.value).ok()?);
        append(&mut head, name, value);
    }
    Some(head)
}

#[expect(clippy::disallowed_methods, reason = "a box may repeat a header")]
fn append(head: &mut Parts, name: HeaderName, value: HeaderValue) {
    head.headers.append(name, value);
}

/// The same with its fields the other way round; what one name says stays in its order.
fn turned(head: &Parts) -> Parts {
    let mut turned = head.clone();
    turned.headers.clear();
    let names: Vec<&HeaderName> = head.headers.keys().collect();
    for name in names.into_iter().rev() {
        for value in head.headers.get_all(name) {
            append(&mut turned, name.clone(), value.clone());
        }
    }
    turned
}

fn all(head: &Parts, name: HeaderName) -> Vec<String> {
    head.headers.get_all(name).into_iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// The head as the ledger writes it down, with a credential in three places.
fn written(head: &Parts) {
    const SECRET: &str = "sk-ant-api03-the-real-one-0123456789";
    let mut head = head.clone();
    for name in ["authorization", "x-api-key", "cookie"] {
        append(&mut head, HeaderName::from_static(name), HeaderValue::from_static(SECRET));
    }
    let address = format!("{}{SECRET}={SECRET}", head.uri.path_and_query().map_or("/?", |path| path.as_str()));
    let in_query = address.contains('?');
    let entry = Entry::new(Kind::Request).method(&head.method).path_and_query(&address).headers(&head.headers);
    let line = String::from_utf8(entry.inside(&address).fact("said", address.as_str()).line()).expect("UTF-8");
    assert!(line.len() <= 64 * 1024, "{} bytes", line.len());
    assert!(!line.bytes().any(|byte| byte < b' '), "{line:?}");
    let whole = format!("{{{}", line);
    let read: serde_json::Value = serde_json::from_str(&whole).unwrap_or_else(|fault| panic!("{fault}: {whole}"));
    assert_eq!(read["kind"], "request", "nobody else says what it is");
    let told = [&read["headers"], &read["query"]].map(ToString::to_string).concat();
    assert!(!told.contains(SECRET), "{told}");
    if in_query {
        assert!(!read["path"].to_string().contains(SECRET), "{read}");
    }
}
