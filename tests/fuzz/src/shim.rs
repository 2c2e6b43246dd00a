//! The shim: whatever the agent says, the door hears of one request, with the run's token once; a server in the box never does.

use shim::RunTag;
use shim::heard::{Heard, heard};

const TOKEN: &str = "3f2b8c1e-9d4a-4c6b-8e2f-0123456789ab";
/// base64 of the token, a colon and an `x`.
const OURS: &str = "Basic M2YyYjhjMWUtOWQ0YS00YzZiLThlMmYtMDEyMzQ1Njc4OWFiOng=";

pub(crate) fn holds(data: &[u8]) {
    let run = "20260131T235959-0a1b2c3d".parse().expect("a run id");
    let run = RunTag::new(&run, &TOKEN.parse().expect("a token"));
    let whole = heard(data, &run);
    for end in 0..data.len().min(512) {
        let part = heard(&data[..end], &run);
        assert!(part == Heard::Incomplete || part == whole, "{end}: {part:?}, then {whole:?}");
    }
    match whole {
        Heard::Incomplete | Heard::Health | Heard::Refused(_) => {}
        Heard::Door { head, consumed } => {
            let (came, goes) = (read(&data[..consumed]), read(&head));
            assert_eq!(came[0], goes[0], "method, target and version as they came");
            let tokens: Vec<&str> = values(&goes, "proxy-authorization").collect();
            assert_eq!(tokens, [OURS]);
            kept(&came, &goes, "host");
        }
        Heard::Near { place, head, consumed, most } => {
            assert!(has_token(data) || !has_token(&head), "a token for {place}");
            assert!(is_near(&place), "{place}");
            if head.is_empty() {
                return;
            }
            let (came, goes) = (read(&data[..consumed]), read(&head));
            assert_eq!(values(&goes, "host").count(), 1);
            assert!(goes.iter().skip(1).all(|field| !field.to_ascii_lowercase().starts_with("proxy-")), "{goes:?}");
            assert_eq!(values(&goes, "connection").collect::<Vec<_>>(), ["close"]);
            kept(&came, &goes, "content-length");
            kept(&came, &goes, "transfer-encoding");
            let length = values(&came, "content-length").next().map(|length| length.parse().expect("digits"));
            let chunked = values(&came, "transfer-encoding").next().is_some();
            assert_eq!(most, if chunked { None } else { Some(length.unwrap_or(0)) }, "what may follow");
        }
    }
}

fn has_token(head: &[u8]) -> bool {
    head.windows(OURS.len()).any(|piece| piece == OURS.as_bytes())
}

/// What says where a request ends and whom it is for is not changed on the way.
fn kept(came: &[String], goes: &[String], name: &str) {
    assert!(values(came, name).eq(values(goes, name)), "{name}: {came:?} {goes:?}");
}

/// The request line, then each field as `name: value`; the head and nothing else.
fn read(head: &[u8]) -> Vec<String> {
    let mut fields = [httparse::EMPTY_HEADER; 110];
    let mut request = httparse::Request::new(&mut fields);
    let parsed = request.parse(head);
    assert_eq!(parsed, Ok(httparse::Status::Complete(head.len())), "{}", head.escape_ascii());
    let start = [request.method.unwrap_or_default(), request.path.unwrap_or_default()].join(" ");
    let mut all = vec![format!("{start} {:?}", request.version)];
    for field in request.headers.iter() {
        all.push(format!("{}: {}", field.name, field.value.escape_ascii()));
    }
    all
}

fn values<'a>(head: &'a [String], name: &'a str) -> impl Iterator<Item = &'a str> {
    head.iter()
        .skip(1)
        .filter_map(|field| field.split_once(": "))
        .filter(move |(is, _)| is.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

fn is_near(place: &str) -> bool {
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    host == "localhost" || host == "[::1]" || host.starts_with("127.")
}
