//! What is denied, and what is only observed.

use std::collections::BTreeSet;

use http::Method;

use super::super::{Grant, Matching, PathPattern, Policy, QueryKeys};
use super::{answer, any, grant, only};
use crate::host::Target;

fn denial(name: &str, matching: Matching) -> Grant {
    let mut denial = grant(name, matching);
    denial.denies = true;
    denial
}

fn observed(mut grant: Grant) -> Grant {
    grant.observes = true;
    grant
}

#[test]
fn a_denial_wins_over_every_grant_whatever_their_order_and_in_every_reading() {
    let denied =
        |paths: &[&str]| Some(paths.iter().map(|path| PathPattern::of_denial(path).expect("a path")).collect());
    let mut keys = QueryKeys::default();
    keys.add("force").expect("a key");
    let policy = Policy::new(vec![
        grant("all", any(&["*.ok.test"])),
        denial("admin", Matching { paths: denied(&["/Admin", "/*/keys"]), ..any(&["api.ok.test"]) }),
        denial("top", Matching { paths: denied(&["/top$"]), ..any(&["api.ok.test"]) }),
        denial("writes", Matching { methods: Some(vec![Method::DELETE]), ..any(&["*.ok.test"]) }),
        denial("force", Matching { query: Some(keys), ..any(&["*"]) }),
        denial("debug", Matching { headers: vec![http::HeaderName::from_static("x-debug")], ..any(&["api.ok.test"]) }),
        denial("one", Matching { boxes: only(&["two"]), ..any(&["two.ok.test"]) }),
        grant("plain", Matching { plain: true, ports: Some(BTreeSet::from([80, 8080])), ..any(&["api.ok.test"]) }),
    ]);
    for (box_id, said, expected) in [
        ("one", "GET https://api.ok.test/x", "all"),
        ("one", "GET https://api.ok.test/admin", "!admin"),
        ("one", "GET https://api.ok.test/ADMIN/x", "!admin"),
        ("one", "GET https://api.ok.test/administration", "all"),
        ("one", "GET https://api.ok.test/x/%2e%2e/admin", "!admin"),
        ("one", "GET https://api.ok.test/x/../%61dmin", "!admin"),
        ("one", "GET https://api.ok.test/admin;x", "!admin"),
        ("one", "GET https://api.ok.test//admin/", "!admin"),
        ("one", "GET https://api.ok.test/me/keys", "!admin"),
        ("one", "GET https://api.ok.test/me/Keys/", "!admin"),
        ("one", "GET https://api.ok.test/me/a/keys", "all"),
        ("one", "GET https://api.ok.test/x/../Top/", "!top"),
        ("one", "GET https://api.ok.test/top/x", "all"),
        ("one", "GET http://api.ok.test:8080/admin", "!admin"),
        ("one", "delete https://b.ok.test/x", "!writes"),
        ("one", "GET https://b.ok.test/x?Force", "!force"),
        ("one", "GET https://b.ok.test/x?a=1;b", "!force"),
        ("one", "GET https://other.test/x?force=1", "!force"),
        ("one", "GET https://b.ok.test/x?enforce=1", "all"),
        ("one", "GET https://api.ok.test/x with x_debug", "!debug"),
        ("one", "GET https://two.ok.test/x", "all"),
        ("two", "GET https://two.ok.test/x", "!one"),
        ("one", "GET https://nowhere.test/x", "no"),
    ] {
        assert_eq!(answer(&policy, box_id, said), expected, "{box_id}: {said}");
    }
    let reaches = |box_id: &str, target: &str| {
        policy.reaches(&box_id.parse().expect("a box"), &Target::from_authority(target, None).expect("a target"))
    };
    assert!(reaches("one", "two.ok.test:443") && !reaches("two", "two.ok.test:443"), "all of it is denied");
    assert!(reaches("one", "api.ok.test:443"), "something is left");
}

#[test]
fn what_is_only_observed_passes_after_all_others_and_is_marked() {
    let policy = Policy::new(vec![
        observed(grant("watch", any(&["*.ok.test"]))),
        observed(denial("tried", Matching { methods: Some(vec![Method::PUT]), ..any(&["api.ok.test"]) })),
        denial("held", Matching { methods: Some(vec![Method::DELETE]), ..any(&["api.ok.test"]) }),
        grant("reads", Matching { methods: Some(vec![Method::GET, Method::PUT]), ..any(&["api.ok.test"]) }),
    ]);
    for (said, expected) in [
        ("GET https://api.ok.test/x", "reads"),
        ("PUT https://api.ok.test/x", "reads~tried"),
        ("POST https://api.ok.test/x", "watch~"),
        ("DELETE https://api.ok.test/x", "!held"),
        ("GET https://b.ok.test/x", "watch~"),
        ("GET https://b.ok.test:8443/x", "watch?port"),
        ("TRACE https://b.ok.test/x", "watch?method"),
    ] {
        assert_eq!(answer(&policy, "one", said), expected, "{said}");
    }
}
