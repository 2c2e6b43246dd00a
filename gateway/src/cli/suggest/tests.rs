//! Suggestions for runs that are written here, pasted, and judged again.

use std::fs;
use std::path::Path;

use clap::Parser;
use serde_json::{Value, json};

use super::{Arguments, run};
use crate::cli::anew::{Candidate, Verdict};
use crate::config;
use crate::recorded::stream::{self, Wanted};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

const RUN: &str = "20260131T235959-0a1b2c3d";
const HOUSE: &str = "state = \"s\"\n[[box]]\nid = \"one\"\ndoor = \"one.sock\"\n[[box]]\nid = \"two\"\ndoor = \"two.sock\"\n[[secret]]\nname = \"hub\"\nenv = \"NO_SUCH\"\n[[grant]]\nname = \"docs\"\nhosts = \"docs.test\"\npaths = \"/open\"\nmethods = \"GET\"\n[[grant]]\nname = \"hub\"\nhosts = \"api.hub.test\"\npaths = \"/user\"\nsecret = \"hub\"\n[[grant]]\nname = \"one-docs.test\"\nhosts = \"taken.test\"\n";

/// One call, refused for want of a grant unless it says otherwise.
fn call(sequence: usize, method: &str, host: &str, path: &str, more: Value) -> Value {
    let mut line = json!({
        "seq": sequence, "prev": "", "time": "2026-01-31T23:59:58Z", "kind": "refused", "asked": "request", "box": "one",
        "run": RUN, "target": format!("{host}:443"), "scheme": "https", "method": method, "path": path,
        "headers": {"shown": {}, "others": []}, "stand_in": "", "verdict": "refuse", "reason": "no-grant",
    });
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more);
    }
    line
}

/// What is suggested for these lines.
fn suggested(folder: &Path, lines: &[Value]) -> String {
    let (file, ledger) = (folder.join("house.toml"), folder.join("ledger.jsonl"));
    fs::write(&file, HOUSE).expect("written");
    fs::write(&ledger, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).expect("written");
    let (file, ledger) = (file.display().to_string(), ledger.display().to_string());
    let words = ["suggest", "--run", RUN, "--config", &file, "--ledger", &ledger];
    let Line { arguments } = Line::try_parse_from(words).expect("arguments");
    let mut out = Vec::new();
    run(&arguments, &mut out).unwrap_or_else(|fault| panic!("{fault}"));
    String::from_utf8(out).expect("text")
}

/// What the house says to each line once this is pasted.
fn judged(folder: &Path, pasted: &str, lines: &[Value]) -> Vec<bool> {
    let config = config::load_with(&folder.join("house.toml"), pasted);
    let candidate = Candidate::of(config.unwrap_or_else(|fault| panic!("{fault}: {pasted}")));
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut all = Vec::new();
    stream::read(text.as_bytes(), &Wanted::default(), |one| {
        all.push(matches!(candidate.judge(&one), Verdict::Allow(_)));
    })
    .expect("memory reads");
    all
}

#[test]
fn the_grants_are_the_smallest_and_can_be_pasted() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = json!({"headers": {"shown": {"upgrade": "websocket", "connection": "upgrade"}, "others": ["sec-websocket-key", "sec-websocket-version"]}});
    let lines = [
        call(1, "POST", "docs.test", "/open", json!({})),
        call(
            2,
            "GET",
            "api.hub.test",
            "/repos/me/it/issues/1",
            json!({"stand_in": "secret:hub", "query": [{"key": "page"}]}),
        ),
        call(
            3,
            "GET",
            "api.hub.test",
            "/repos/me/it/issues/2",
            json!({"stand_in": "secret:hub", "query": [{"key": "page"}]}),
        ),
        call(
            4,
            "GET",
            "api.hub.test",
            "/repos/me/it/issues/3",
            json!({"stand_in": "secret:hub", "query": [{"key": "page"}]}),
        ),
        call(5, "GET", "live.test", "/s", socket),
        call(6, "GET", "docs.test", "/open/x", json!({})),
        call(7, "GET", "docs.test", "/list", json!({"query": [{"key": "filter%5Ba%5D"}]})),
        json!({"seq": 8, "prev": "", "time": "2026-01-31T23:59:59Z", "kind": "repeated", "asked": "refused", "box": "one", "run": RUN,
            "target": "docs.test:443", "scheme": "https", "method": "GET", "path": "/list", "reason": "no-grant", "count": 4,
            "first": "2026-01-31T23:59:59Z", "last": "2026-01-31T23:59:59Z"}),
    ];
    let text = suggested(folder.path(), &lines);
    let expected = r#"# run 20260131T235959-0a1b2c3d: these grants, behind those that there are, would have let 6 refused calls through
# not proposed, 1: the configuration as it is now lets it through
#     as GET https://docs.test:443/open/x
# not proposed, 4: they came again within ten seconds, of which the ledger keeps method and path alone: they are as the first of them

[[grant]]
name = "one-api.hub.test"
boxes = ["one"]
hosts = ["api.hub.test"]
methods = ["GET"]
paths = ["/repos/me/it/issues/*"]
query = ["page"]
secret = "hub"

[[grant]]
name = "one-docs.test-2"
boxes = ["one"]
hosts = ["docs.test"]
methods = ["GET"]
paths = ["/list$"]
query = ["filter[a]"]

[[grant]]
name = "one-docs.test-3"
boxes = ["one"]
hosts = ["docs.test"]
methods = ["POST"]
paths = ["/open$"]
query = []

[[grant]]
name = "one-live.test"
boxes = ["one"]
hosts = ["live.test"]
methods = ["GET"]
paths = ["/s$"]
query = []
websocket = true
"#;
    assert_eq!(text, expected);
}

#[test]
fn what_no_grant_can_allow_or_nobody_should_allow_unseen_is_told_and_not_proposed() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = |sequence, reason: &str| call(sequence, "GET", "a.test", "/x", json!({"reason": reason, "grant": "g"}));
    let lines = [
        other(1, "durable-credential"),
        other(2, "sentinel-astray"),
        other(3, "address-refused"),
        other(4, "secret-outbound"),
        other(5, "provider-egress"),
        other(6, "mcp-refused"),
        other(7, "upgrade-refused"),
        other(8, "body-too-large"),
        other(9, "bad-request"),
        call(10, "GET", "10.0.0.1", "/", json!({})),
        call(11, "GET", "a.test", "/[masked 40 bytes 01020304]", json!({})),
        call(12, "GET", "a.test", "/a//b", json!({})),
        call(13, "GET", "a.test", "/", json!({"stand_in": "secret:hub"})),
        call(
            14,
            "CONNECT",
            "a.test",
            "",
            json!({"asked": "tunnel", "path": null, "target": "a.test:8443", "reason": "port-refused"}),
        ),
    ];
    let text = suggested(folder.path(), &lines);
    assert!(text.contains("no grant is proposed") && !text.contains("[[grant]]"), "{text}");
    assert!(text.lines().all(|line| line.starts_with("# ")), "{text}");
    assert_eq!(text.matches("# not proposed, 1: ").count(), lines.len(), "{text}");
    for word in
        ["no grant can allow", "an alarm", "read in more than one way", "masked", "inside nobody knows", "`mcp_tools`"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(suggested(folder.path(), &[]).contains("has no request of run"), "a run that nobody knows");
}

/// Many runs by a plain generator: what was refused goes through, and what is beside it does not.
#[test]
fn pasted_and_judged_again_exactly_these_calls_go_through() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut pick = |of: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % of
    };
    let mut proposed = 0;
    for _ in 0..60 {
        let mut lines = Vec::new();
        for sequence in 1..=(2 + pick(20)) {
            let host = ["a.test", "b.a.test", "docs.test", "api.hub.test"][pick(4)];
            let first = ["v1", "files", "a%20b", "x.y"][pick(4)];
            let path = match pick(4) {
                0 => "/".to_owned(),
                1 => format!("/{first}"),
                2 => format!("/{first}/{}", pick(6)),
                _ => format!("/{first}/{}/end", pick(6)),
            };
            let query: Vec<Value> = ["page", "size"].iter().take(pick(3)).map(|key| json!({"key": key})).collect();
            let method = ["GET", "POST", "DELETE"][pick(3)];
            let of = ["one", "two"][pick(2)];
            lines.push(call(sequence, method, host, &path, json!({"box": of, "query": query})));
        }
        let before = judged_before(folder.path(), &lines);
        let text = suggested(folder.path(), &lines);
        let after = judged(folder.path(), &text, &lines);
        assert!(after.iter().all(|is_let| *is_let), "{lines:#?}\n{text}");
        proposed += before.iter().filter(|was| !**was).count();
        // Beside each: another method, host, box and key of the query, and what lies below and above its path.
        let mut beside = Vec::new();
        for line in &lines {
            let path = line["path"].as_str().unwrap_or_default();
            for (key, value) in [
                ("method", json!("PATCH")),
                ("target", json!("other.test:443")),
                ("target", json!("a.test:8443")),
                ("query", json!([{"key": "evil"}])),
                ("path", json!(format!("{}/below", path.trim_end_matches('/')))),
                ("path", json!(format!("{path}x/y/z"))),
                ("path", json!("/never")),
                ("scheme", json!("http")),
            ] {
                let mut other = line.clone();
                other[key] = value;
                beside.push(other);
            }
        }
        beside.retain(|other| {
            !lines.iter().any(|line| {
                line["path"] == other["path"]
                    && line["method"] == other["method"]
                    && line["target"] == other["target"]
                    && line["query"] == other["query"]
                    && line["scheme"] == other["scheme"]
            })
        });
        let (was, is) = (judged_before(folder.path(), &beside), judged(folder.path(), &text, &beside));
        for ((other, was), is) in beside.iter().zip(was).zip(is) {
            assert_eq!(was, is, "{other} by {text}");
        }
    }
    assert!(proposed > 300, "{proposed} calls were refused");
}

fn judged_before(folder: &Path, lines: &[Value]) -> Vec<bool> {
    fs::write(folder.join("house.toml"), HOUSE).expect("written");
    judged(folder, "", lines)
}
