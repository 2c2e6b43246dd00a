//! The policy as a table of sentences.

mod effects;

use std::collections::BTreeSet;

use box_spec::BoxId;
use http::{HeaderMap, HeaderValue, Method};

use super::{
    Ask, Boxes, Fit, Found, Grant, GrantName, HostPattern, Matching, Missed, NormalPath, Observed, PathPattern, Policy,
    QueryKeys, Scheme,
};
use crate::host::Target;
use crate::vault::SecretName;

fn any(hosts: &[&str]) -> Matching {
    let hosts = hosts.iter().map(|host| HostPattern::parse(host).expect("a pattern")).collect();
    Matching::at(hosts)
}

fn grant(name: &str, matching: Matching) -> Grant {
    Grant::new(GrantName::new(name), matching)
}

fn only(ids: &[&str]) -> Boxes {
    Boxes::Only(ids.iter().map(|id| id.parse().expect("a box id")).collect())
}

fn prefixes(paths: &[&str]) -> Option<Vec<PathPattern>> {
    Some(paths.iter().map(|path| PathPattern::parse(path).expect("a prefix")).collect())
}

/// Answers `METHOD scheme://host:port/path`, or with ` upgrade` behind it, for a box: the grant's name, `grant?missed`, or `no`.
fn answer(policy: &Policy, box_id: &str, said: &str) -> String {
    asked(box_id, said, |ask| match policy.find(ask) {
        Found::Grant { grant, observed: None } => grant.name.to_string(),
        Found::Grant { grant, observed: Some(Observed::NoGrant) } => format!("{}~", grant.name),
        Found::Grant { grant, observed: Some(Observed::Denied(denial)) } => format!("{}~{}", grant.name, denial.name),
        Found::Denied(denial) => format!("!{}", denial.name),
        Found::NearMiss { grant, missed } => format!("{}?{}", grant.name, missed.as_str()),
        Found::Nothing => "no".to_owned(),
    })
}

fn asked(box_id: &str, said: &str, told: impl FnOnce(&Ask<'_>) -> String) -> String {
    let mut words = said.split(" with ");
    let said = words.next().expect("method and url");
    let headers = words;
    let (said, upgrades) = said.strip_suffix(" upgrade").map_or((said, false), |said| (said, true));
    let (method, url) = said.split_once(' ').expect("method and url");
    let (scheme, rest) = url.split_once("://").expect("a scheme");
    let (authority, path) = rest.split_at(rest.find('/').expect("a path"));
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    let target = Target::from_authority(authority, Some(scheme.default_port())).expect("a target");
    let box_id: BoxId = box_id.parse().expect("a box id");
    let method: Method = method.parse().expect("a method");
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let path = NormalPath::parse(path).expect("a path");
    let headers =
        HeaderMap::from_iter(headers.map(|name| (name.parse().expect("a name"), HeaderValue::from_static(""))));
    let (box_id, method) = (&box_id, &method);
    told(&Ask { box_id, target: &target, scheme, method, path: &path, query, headers: Some(&headers), upgrades })
}

#[test]
fn an_empty_policy_allows_nothing() {
    assert_eq!(answer(&Policy::default(), "one", "GET https://api.ok.test/"), "no");
}

#[test]
fn grants_are_judged_in_order_and_every_field_must_hold() {
    let policy = Policy::new(vec![
        grant(
            "model",
            Matching {
                methods: Some(vec![Method::POST]),
                paths: prefixes(&["/v1/messages"]),
                boxes: only(&["one"]),
                ..any(&["api.ok.test"])
            },
        ),
        grant(
            "reads",
            Matching { methods: Some(vec![Method::GET, Method::HEAD]), ..any(&["api.ok.test", "*.docs.test"]) },
        ),
        grant("odd-port", Matching { ports: Some(BTreeSet::from([8443])), ..any(&["ports.test"]) }),
        grant("plain", Matching { plain: true, ..any(&["plain.test"]) }),
        grant("literal", any(&["10.0.0.1"])),
    ]);
    for (box_id, said, expected) in [
        ("one", "POST https://api.ok.test/v1/messages", "model"),
        ("one", "post https://api.ok.test/v1/messages", "model"),
        ("one", "POST https://API.OK.TEST.:443/v1/messages/count_tokens", "model"),
        ("two", "POST https://api.ok.test/v1/messages", "reads?method"),
        ("one", "GET https://api.ok.test/v1/messages", "reads"),
        ("one", "PUT https://api.ok.test/v1/messages", "model?method"),
        ("one", "POST https://api.ok.test/v1/messages/../x", "reads?method"),
        ("one", "GET https://a.b.docs.test/x", "reads"),
        ("one", "GET https://docs.test/x", "reads"),
        ("one", "GET https://docs.test.evil.test/x", "no"),
        ("one", "GET https://api.ok.test:8443/", "model?port"),
        ("one", "GET http://api.ok.test/", "model?port"),
        ("one", "GET https://ports.test:8443/", "odd-port"),
        ("one", "GET https://ports.test/", "odd-port?port"),
        ("one", "GET http://ports.test:8443/", "odd-port?port"),
        ("one", "GET http://plain.test/", "plain"),
        ("one", "GET https://plain.test/", "plain"),
        ("one", "GET http://plain.test:8080/", "plain?port"),
        ("one", "TRACE https://plain.test/", "plain?method"),
        ("one", "trace https://plain.test/", "plain?method"),
        ("one", "GET https://10.0.0.1/", "literal"),
        ("one", "GET https://10.0.0.2/", "no"),
    ] {
        assert_eq!(answer(&policy, box_id, said), expected, "{box_id}: {said}");
    }
}

#[test]
fn a_socket_is_matched_by_get_where_it_alone_asks_for_an_upgrade() {
    let models = Matching {
        methods: Some(vec![Method::POST]),
        sockets: vec!["/v1/responses".to_owned()],
        paths: prefixes(&["/v1/responses", "/v1/chat/completions"]),
        ..any(&["api.ok.test"])
    };
    let policy = Policy::new(vec![grant("model", models)]);
    for (said, expected) in [
        ("POST https://api.ok.test/v1/responses", "model"),
        ("POST https://api.ok.test/v1/responses upgrade", "model"),
        ("GET https://api.ok.test/v1/responses upgrade", "model"),
        ("GET https://api.ok.test/v1/responses", "model?method"),
        ("get https://api.ok.test/v1/responses upgrade", "model?method"),
        ("HEAD https://api.ok.test/v1/responses upgrade", "model?method"),
        ("GET https://api.ok.test/v1/responses/resp_1 upgrade", "model?method"),
        ("GET https://api.ok.test/v1/responses/ upgrade", "model?method"),
        ("GET https://api.ok.test/v1//responses upgrade", "model?path"),
        ("GET https://api.ok.test/v1/chat/completions upgrade", "model?method"),
        ("GET https://api.ok.test/v1/chat/completions", "model?method"),
    ] {
        assert_eq!(answer(&policy, "one", said), expected, "{said}");
    }
}

#[test]
fn a_secret_never_matches_in_plain() {
    let mut secret = grant("secret", Matching { plain: true, ..any(&["plain.test"]) });
    secret.secret = Some(SecretName::new("anthropic"));
    let policy = Policy::new(vec![secret]);
    assert_eq!(answer(&policy, "one", "GET http://plain.test/"), "secret?port");
    assert_eq!(answer(&policy, "one", "GET https://plain.test/"), "secret");
}

#[test]
fn the_nearest_miss_is_the_one_that_lacks_least() {
    use Missed::{Header, Method, Path, Port, Query};
    assert!(Header > Query && Query > Method && Method > Path && Path > Port);
}

#[test]
fn only_a_granted_port_opens_beside_the_schemes_own() {
    let policy = Policy::new(vec![
        grant("odd", Matching { ports: Some(BTreeSet::from([8443])), boxes: only(&["one"]), ..any(&["ports.test"]) }),
        grant("plain", Matching { plain: true, ..any(&["plain.test"]) }),
    ]);
    for (box_id, target, scheme, opens) in [
        ("one", "ports.test:8443", Scheme::Https, true),
        ("two", "ports.test:8443", Scheme::Https, false),
        ("one", "ports.test:8443", Scheme::Http, false),
        ("one", "other.test:8443", Scheme::Https, false),
        ("one", "ports.test:22", Scheme::Https, false),
        ("one", "anything.test:443", Scheme::Https, true),
        ("one", "anything.test:80", Scheme::Https, false),
        ("one", "anything.test:80", Scheme::Http, true),
        ("one", "plain.test:443", Scheme::Http, false),
    ] {
        let target = Target::from_authority(target, None).expect("a target");
        assert_eq!(
            policy.opens_port(&box_id.parse().expect("a box id"), &target, scheme),
            opens,
            "{box_id} {target} {scheme}"
        );
    }
}

#[test]
fn an_address_is_dialled_unscreened_only_where_its_grant_names_it() {
    let target = Target::from_authority("10.0.0.1:443", None).expect("a target");
    assert_eq!(
        grant("named", any(&["10.0.0.1"])).dial_instead(&target),
        Some("10.0.0.1:443".parse().expect("an address"))
    );
    assert_eq!(grant("star", any(&["*"])).dial_instead(&target), None);
    let mut dialled = grant("stand-in", any(&["api.ok.test"]));
    dialled.unsafe_dial = Some("127.0.0.1:9".parse().expect("an address"));
    let name = Target::from_authority("api.ok.test:443", None).expect("a target");
    assert_eq!(dialled.dial_instead(&name), dialled.unsafe_dial);
}

#[test]
fn keys_of_the_query_and_headers_must_hold_too() {
    let mut keys = QueryKeys::default();
    keys.add("page").expect("a key");
    let headers = vec![http::HeaderName::from_static("x-own"), http::HeaderName::from_static("x-two")];
    let policy = Policy::new(vec![
        grant("pages", Matching { query: Some(keys), ..any(&["api.ok.test"]) }),
        grant("none", Matching { query: Some(QueryKeys::default()), ..any(&["bare.test"]) }),
        grant("named", Matching { headers, ..any(&["named.test"]) }),
    ]);
    for (said, expected) in [
        ("GET https://api.ok.test/x", "pages"),
        ("GET https://api.ok.test/x?page=1", "pages"),
        ("GET https://api.ok.test/x?page=1&all=1", "pages?query"),
        ("GET https://api.ok.test/x?page=1;all=1", "pages?query"),
        ("GET https://bare.test/x", "none"),
        ("GET https://bare.test/x?a", "none?query"),
        ("GET https://named.test/x with x-own with x-two", "named"),
        ("GET https://named.test/x with x-two", "named?header"),
        ("GET https://named.test/x with x_own with x-two", "named?header"),
    ] {
        assert_eq!(answer(&policy, "one", said), expected, "{said}");
    }
}

#[test]
fn a_near_miss_says_what_the_grant_has_instead() {
    let mut keys = QueryKeys::default();
    keys.add("page").expect("a key");
    let policy = Policy::new(vec![grant(
        "reads",
        Matching {
            methods: Some(vec![Method::GET, Method::HEAD]),
            paths: prefixes(&["/v1", "/v2"]),
            query: Some(keys),
            headers: vec![http::HeaderName::from_static("x-own")],
            ..any(&["api.ok.test"])
        },
    )]);
    for (said, expected) in [
        ("GET https://api.ok.test:444/v1", "wrong port: grant \"reads\" allows 443"),
        ("GET http://api.ok.test/v1", "wrong scheme: grant \"reads\" allows https alone"),
        ("GET https://api.ok.test/v3", "wrong path: grant \"reads\" allows /v1, /v2"),
        ("PUT https://api.ok.test/v1", "wrong method: grant \"reads\" allows GET, HEAD"),
        ("GET https://api.ok.test/v1?all", "wrong query key \"all\": grant \"reads\" allows page"),
        ("GET https://api.ok.test/v1", "missing header: grant \"reads\" wants x-own"),
    ] {
        let told = asked("one", said, |ask| match policy.find(ask) {
            Found::NearMiss { grant, missed } => grant.near_miss(missed, ask),
            found => format!("{found:?}"),
        });
        assert_eq!(told, format!("right host, {expected}"), "{said}");
    }
}

/// Grants of every form, many times over, asked about hosts of every form: the index leaves out none and adds none.
#[test]
fn what_is_looked_up_is_what_each_grant_says_by_itself() {
    let patterns = ["*", "a.test", "*.a.test", "*.test", "b.a.test", "10.0.0.1", "*.b.a.test", "::1", "x.org"];
    let boxes = [Boxes::All, only(&["one"]), only(&["two"]), only(&["one", "two"])];
    let mut seed = 7_usize;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut met = [0_usize; 3];
    for _ in 0..300 {
        let grants = (0..next(12)).map(|at| {
            let hosts: Vec<_> = (0..=next(2)).map(|_| patterns[next(patterns.len())]).collect();
            let boxes = match &boxes[next(boxes.len())] {
                Boxes::All => Boxes::All,
                Boxes::Only(ids) => Boxes::Only(ids.clone()),
            };
            let methods = [None, Some(vec![Method::POST])][next(2)].clone();
            let ports = [None, Some([444].into())][next(2)].clone();
            let paths = prefixes(["/v1", "/"].get(next(2)..).unwrap_or_default());
            let mut grant = grant(&format!("g{at}"), Matching { boxes, methods, ports, paths, ..any(&hosts) });
            (grant.denies, grant.observes) = (next(6) == 0, next(4) == 0);
            grant
        });
        let policy = Policy::new(grants.collect::<Vec<_>>());
        for host in ["a.test", "b.a.test", "c.b.a.test", "aa.test", "test", "x.org", "y.x.org", "10.0.0.1", "[::1]"] {
            for (box_id, said) in [("one", "GET"), ("two", "POST"), ("three", "GET")]
                .into_iter()
                .flat_map(|(id, method)| ["", ":444"].map(|port| (id, format!("{method} https://{host}{port}/v1/x"))))
            {
                let looked_up = answer(&policy, box_id, &said);
                let one_by_one = linear(&policy, box_id, &said);
                assert_eq!(looked_up, one_by_one, "{box_id} {said}: {:?}", policy.grants());
                met[usize::from(looked_up != "no") + usize::from(looked_up.contains('?'))] += 1;
            }
        }
    }
    assert!(met.iter().all(|count| *count > 500), "{met:?}");
}

/// The answer as the grants give it, asked one after the other.
fn linear(policy: &Policy, box_id: &str, said: &str) -> String {
    asked(box_id, said, |ask| {
        let fits: Vec<_> = policy.fits(ask).collect();
        let whole = |denies: bool, observes: bool| {
            let is = |grant: &Grant| grant.denies == denies && grant.observes == observes;
            fits.iter().find(|(grant, fit)| *fit == Fit::Whole && is(grant)).map(|(grant, _)| &grant.name)
        };
        let tried = whole(true, true);
        match (whole(true, false), whole(false, false), whole(false, true)) {
            (Some(denial), ..) => return format!("!{denial}"),
            (_, Some(grant), _) => return tried.map_or_else(|| grant.to_string(), |tried| format!("{grant}~{tried}")),
            (_, _, Some(grant)) => return format!("{grant}~{}", tried.map_or("", |tried| tried.as_str())),
            (None, None, None) => {}
        }
        let mut nearest = None;
        let granting =
            |observes: bool| fits.iter().filter(move |(grant, _)| !grant.denies && grant.observes == observes);
        for (grant, fit) in granting(false).chain(granting(true)) {
            match fit {
                Fit::Missed(missed) if nearest.as_ref().is_none_or(|(before, _)| missed > before) => {
                    nearest = Some((*missed, format!("{}?{}", grant.name, missed.as_str())));
                }
                Fit::Whole | Fit::Missed(_) | Fit::OtherHost | Fit::OtherBox => {}
            }
        }
        nearest.map_or_else(|| "no".to_owned(), |(_, told)| told)
    })
}
