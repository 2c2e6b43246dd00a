//! Replays of ledgers that are written here, line by line.

use std::fs;

use clap::Parser;
use serde_json::{Value, json};

use super::super::Exit;
use super::{Arguments, run};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

/// The exit code, what was said of each request that changes or is not known, and the summary.
fn replayed(lines: &[Value], grants: &str) -> (Exit, Vec<(u64, String, String)>, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, ledger) = (folder.path().join("house.toml"), folder.path().join("ledger.jsonl"));
    let boxes = "state = \"s\"\n[[box]]\nid = \"one\"\ndoor = \"one.sock\"\n[[secret]]\nname = \"hub\"\nenv = \"NO_SUCH\"\n[[secret]]\nname = \"key\"\nprovider = \"anthropic\"\nkind = \"api-key\"\nenv = \"NO_SUCH\"\n";
    fs::write(&config, format!("{boxes}{grants}")).expect("written");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&ledger, text).expect("written");
    let words = ["replay", "--each", "--json", "--config", config.to_str().expect("UTF-8"), "--ledger"];
    let words = words.into_iter().chain([ledger.to_str().expect("UTF-8")]);
    let Line { arguments } = Line::try_parse_from(words).expect("arguments");
    let mut out = Vec::new();
    let exit = run(&arguments, &mut out).unwrap_or_else(|fault| panic!("{fault}"));
    let mut told: Vec<Value> =
        String::from_utf8(out).expect("text").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let summary = told.pop().expect("a summary");
    let said = |of: &Value| {
        let why = of["grant"].as_str().or_else(|| of["why"].as_str()).map(|why| format!(" {why}"));
        format!("{}{}", of["verdict"].as_str().unwrap_or_default(), why.unwrap_or_default())
    };
    let each = told.iter().map(|one| (one["seq"].as_u64().unwrap_or(0), said(&one["before"]), said(&one["after"])));
    (exit, each.collect(), summary)
}

fn asked(sequence: u64, kind: &str, more: Value) -> Value {
    let mut line = json!({
        "seq": sequence, "prev": "", "time": "2026-01-31T23:59:58.123456Z", "kind": kind, "box": "one",
        "target": "a.test:443", "scheme": "https", "method": "GET", "path": "/x",
        "headers": {"shown": {"host": "a.test"}, "others": []},
    });
    merge(&mut line, more);
    line
}

fn opened(sequence: u64, more: Value) -> Value {
    let mut line = asked(sequence, "request", json!({"open": true, "verdict": "allow", "grant": "g"}));
    merge(&mut line, more);
    line
}

fn refused(sequence: u64, reason: &str, more: Value) -> Value {
    let mut line = asked(sequence, "refused", json!({"asked": "request", "verdict": "refuse", "reason": reason}));
    merge(&mut line, more);
    line
}

fn closed(of: u64, more: Value) -> Value {
    let mut line = json!({
        "seq": of + 1, "prev": "", "time": "2026-01-31T23:59:59Z", "kind": "closed", "of": of, "box": "one",
        "ended": "complete", "status": 200, "bytes_up": 0, "bytes_down": 1,
    });
    merge(&mut line, more);
    line
}

fn merge(line: &mut Value, more: Value) {
    let (Value::Object(line), Value::Object(more)) = (line, more) else { panic!("objects") };
    line.extend(more);
}

fn grant(name: &str, keys: &str) -> String {
    format!("[[grant]]\nname = \"{name}\"\n{keys}\n")
}

#[test]
fn what_changes_is_named_and_nothing_else() {
    let lines = [
        opened(1, json!({})),
        closed(1, json!({})),
        opened(3, json!({"path": "/y"})),
        closed(3, json!({})),
        refused(5, "no-grant", json!({"method": "POST", "path": "/x"})),
        refused(6, "no-grant", json!({"target": "b.test:443"})),
        refused(7, "durable-credential", json!({"target": "b.test:443"})),
        asked(8, "answered", json!({"target": "pi.dev:443", "path": "/api/report-install", "verdict": "answer"})),
        opened(9, json!({"box": "two"})),
        closed(9, json!({})),
    ];
    let (exit, each, summary) = replayed(&lines, &grant("g", "hosts = \"a.test\"\npaths = \"/x\""));
    assert_eq!(
        (exit, each),
        (
            Exit::Changed,
            vec![
                (3, "allow g".to_owned(), "refuse no-grant".to_owned()),
                (5, "refuse no-grant".to_owned(), "allow g".to_owned()),
                (9, "allow g".to_owned(), "refuse no-box".to_owned()),
            ]
        )
    );
    assert_eq!((&summary["requests"], &summary["changed"], &summary["unknown"]), (&json!(7), &json!(3), &json!(0)));
    let group = &summary["changes"][0];
    assert_eq!((&group["count"], &group["first"]), (&json!(1), &json!("2026-01-31T23:59:58.123456Z")), "{group}");

    let (exit, each, summary) = replayed(&lines[..2], &grant("other", "hosts = \"a.test\""));
    assert_eq!((exit, each.len()), (Exit::Done, 0), "another grant is no change: {summary}");
    assert_eq!(summary["otherwise"][0]["after"], json!({"verdict": "allow", "grant": "other"}));
}

#[test]
fn what_a_denial_refused_is_judged_anew_and_a_denial_refuses_what_was_let_through() {
    let open = grant("g", "hosts = \"a.test\"");
    let denial = open.clone() + &grant("d", "hosts = \"a.test\"\npaths = \"/x\"\ndeny = true");
    let observed = grant("d", "hosts = \"a.test\"\npaths = \"/x\"\nobserve = true");
    let (denied, let_in) = (refused(1, "denied", json!({"grant": "d"})), [opened(1, json!({})), closed(1, json!({}))]);
    let after = |lines: &[Value], grants: &str| replayed(lines, grants).1.pop().map(|(_, _, after)| after);
    assert_eq!(after(std::slice::from_ref(&denied), &denial), None);
    assert_eq!(after(&[denied], &open).as_deref(), Some("allow g"));
    assert_eq!(after(&let_in, &denial).as_deref(), Some("refuse denied"));
    assert_eq!(after(&[refused(1, "no-grant", json!({}))], &observed).as_deref(), Some("allow d"));
}

#[test]
fn what_the_ledger_does_not_tell_is_unknown_where_it_matters_and_only_there() {
    let path = "/[masked 40 bytes 01020304]/x";
    let repeated = json!({
        "seq": 9, "prev": "", "time": "2026-01-31T23:59:59Z", "kind": "repeated", "box": "one", "asked": "refused",
        "target": "a.test:443", "scheme": "https", "method": "GET", "path": "/x", "reason": "no-grant", "count": 4,
        "first": "2026-01-31T23:59:51Z", "last": "2026-01-31T23:59:58Z",
    });
    let open = |path: &str| grant("g", &format!("hosts = \"a.test\"\npaths = \"{path}\""));
    let whole = |grants: &str, line: Value| {
        let (exit, mut each, summary) = replayed(&[line], grants);
        (exit, each.pop().map(|(_, _, after)| after), summary["requests"].clone())
    };
    for (line, grants, exit, after) in [
        (refused(1, "no-grant", json!({"path": path})), open("/x"), Exit::NotKnown, Some("unknown path")),
        (refused(1, "no-grant", json!({"path": path})), String::new(), Exit::Done, None),
        (
            refused(1, "no-grant", json!({"method": format!("{}…(+9 bytes)", "M".repeat(32))})),
            open("/x"),
            Exit::NotKnown,
            Some("unknown method"),
        ),
        (repeated.clone(), open("/y"), Exit::Done, None),
        (repeated.clone(), open("/x"), Exit::NotKnown, Some("unknown headers")),
        (repeated, open("/x") + "websocket = true\n", Exit::NotKnown, Some("unknown stand-in")),
        (
            refused(1, "no-grant", json!({"headers": {"shown": {}, "others": ["authorization"]}})),
            open("/x"),
            Exit::NotKnown,
            Some("unknown stand-in"),
        ),
        (
            refused(1, "no-grant", json!({"headers": {"shown": {}, "others": ["authorization"]}, "stand_in": ""})),
            open("/x"),
            Exit::Changed,
            Some("allow g"),
        ),
        (
            refused(
                1,
                "no-grant",
                json!({"headers": {"shown": {}, "others": ["authorization"]}, "stand_in": "secret:hub"}),
            ),
            open("/x"),
            Exit::Done,
            None,
        ),
        (
            refused(
                1,
                "no-grant",
                json!({"headers": {"shown": {}, "others": ["authorization"]}, "stand_in": "secret:hub"}),
            ),
            open("/x") + "secret = \"hub\"\n",
            Exit::Changed,
            Some("allow g"),
        ),
        (
            asked(
                1,
                "refused",
                json!({"asked": "tunnel", "method": "CONNECT", "target": "a.test:8443", "reason": "port-refused"}),
            ),
            grant("g", "hosts = \"a.test\"\nports = 8443"),
            Exit::NotKnown,
            Some("unknown inside-of-tunnel"),
        ),
        (
            asked(
                1,
                "refused",
                json!({"asked": "tunnel", "method": "CONNECT", "target": "a.test:8443", "reason": "port-refused"}),
            ),
            open("/x"),
            Exit::Done,
            None,
        ),
        (
            asked(1, "tunnel", json!({"open": true, "method": "CONNECT", "target": "a.test:8443"})),
            open("/x"),
            Exit::Changed,
            Some("refuse port-refused"),
        ),
    ] {
        let told = whole(&grants, line.clone());
        assert_eq!((told.0, told.1.as_deref()), (exit, after), "{line} by {grants}");
    }
}

#[test]
fn keys_of_the_query_headers_and_lengths_are_judged_by_what_is_told_of_them() {
    let key = |key: &str| json!({"query": [{"key": key, "length": 1, "sha256": "01020304"}]});
    let after = |line: Value, close: Option<Value>, keys: &str| {
        let lines: Vec<Value> = [line].into_iter().chain(close).collect();
        let (_, mut each, _) = replayed(&lines, &grant("g", &format!("hosts = \"a.test\"\n{keys}")));
        each.pop().map_or_else(|| "as before".to_owned(), |(_, _, after)| after)
    };
    let whole = |line: Value, keys: &str| after(line, Some(closed(1, json!({"bytes_up": 20}))), keys);
    for (line, keys, want) in [
        (opened(1, key("page")), "query = \"page\"", "as before"),
        (opened(1, key("p%61ge")), "query = \"page\"", "as before"),
        (opened(1, key("all")), "query = \"page\"", "refuse no-grant"),
        (opened(1, key("all")), "query = []", "refuse no-grant"),
        (opened(1, json!({})), "query = []", "as before"),
        (opened(1, json!({"query": [{"key": "page", "semicolon": true}]})), "query = \"page\"", "unknown query"),
        (opened(1, json!({"query": [{"left_out": 3}]})), "query = \"page\"", "unknown query"),
        (opened(1, json!({"query": [{"left_out": 3}]})), "methods = \"GET\"", "as before"),
        (opened(1, json!({})), "headers = \"x-own\"", "refuse no-grant"),
        (opened(1, json!({"headers": {"shown": {}, "others": ["x-own"]}})), "headers = \"x-own\"", "as before"),
        (
            opened(1, json!({"headers": {"shown": {}, "others": [], "left_out": 1}})),
            "headers = \"x-own\"",
            "unknown headers",
        ),
        (opened(1, json!({"body_length": 20})), "max_body = 20", "as before"),
        (opened(1, json!({"body_length": 20})), "max_body = 19", "refuse body-too-large"),
        (opened(1, json!({"body": "chunked"})), "max_body = 20", "as before"),
        (opened(1, json!({"body": "chunked"})), "max_body = 19", "refuse body-too-large"),
    ] {
        assert_eq!(whole(line.clone(), keys), want, "{line} by {keys}");
    }
    let stopped = closed(1, json!({"ended": "failed", "bytes_up": 8, "reason": "body-too-large", "inside": ""}));
    let line = opened(1, json!({"body": "chunked"}));
    assert_eq!(after(line.clone(), Some(stopped.clone()), "max_body = 7"), "as before");
    assert_eq!(after(line, Some(stopped), "max_body = 100"), "unknown body");
}

#[test]
fn a_body_is_judged_by_what_was_found_in_it() {
    let model = json!({"target": "api.anthropic.com:443", "method": "POST", "path": "/v1/messages", "body_length": 10});
    let mcp = json!({"method": "POST", "body_length": 10});
    let models = |keys: &str| grant("g", &format!("preset = \"anthropic\"\n{keys}"));
    let server = |keys: &str| grant("g", &format!("hosts = \"a.test\"\n{keys}"));
    let whole = |facts: Value| json!({"bytes_up": 10, "facts": facts});
    let stopped = |reason: &str, inside: &str, facts: Value| json!({"ended": "failed", "status": 403, "reason": reason, "inside": inside, "facts": facts});
    for (head, ending, grants, after) in [
        (&model, whole(json!({})), models(""), None),
        (&model, whole(json!({"provider_tools": ["web_search_20250305"]})), models(""), Some("refuse provider-egress")),
        (
            &model,
            whole(json!({"provider_tools": ["web_search_20250305"]})),
            models("provider_tools = \"web_search\""),
            None,
        ),
        (
            &model,
            whole(json!({"provider_fetch": ["https://docs.test:443"]})),
            models("provider_fetch = \"https://docs.test/*\""),
            None,
        ),
        (
            &model,
            whole(json!({"provider_fetch": ["https://docs.test:443"]})),
            models("provider_fetch = \"https://docs.test/a/*\""),
            Some("unknown body"),
        ),
        (
            &model,
            whole(json!({"provider_fetch": ["https://docs.test:443"]})),
            models("provider_fetch = \"https://other.test/*\""),
            Some("refuse provider-egress"),
        ),
        (&model, json!({"bytes_up": 3, "ended": "aborted"}), models(""), Some("unknown body")),
        (&model, stopped("provider-egress", "asks the provider for web_search", json!({})), models(""), None),
        (
            &model,
            stopped("provider-egress", "asks the provider for web_search", json!({})),
            models("provider_tools = \"web_search_20250305\""),
            Some("unknown body"),
        ),
        (&model, stopped("provider-egress", "asks the provider for web_search", json!({})), String::new(), None),
        (
            &model,
            stopped("secret-outbound", "a secret of the house in a body", json!({})),
            models("provider_tools = \"mcp\""),
            None,
        ),
        (&model, stopped("upstream-unreachable", "dial", json!({})), models(""), Some("unknown body")),
        (&mcp, whole(json!({})), server(""), None),
        (&mcp, whole(json!({})), server("mcp_methods = \"tools/*\""), Some("unknown body")),
        (
            &mcp,
            whole(json!({"mcp_methods": ["tools/call"], "mcp_tools": ["read"]})),
            server("mcp_methods = \"tools/*\""),
            None,
        ),
        (
            &mcp,
            whole(json!({"mcp_methods": ["tools/call"], "mcp_tools": ["read"]})),
            server("mcp_tools = \"write\""),
            Some("refuse mcp-refused"),
        ),
        (
            &mcp,
            stopped("mcp-refused", "MCP: tool \"read\"", json!({"mcp_methods": ["tools/call"], "mcp_tools": ["read"]})),
            server("mcp_tools = \"read\""),
            Some("allow g"),
        ),
        (
            &mcp,
            stopped("mcp-refused", "MCP: tool \"read\"", json!({"mcp_methods": ["tools/call"], "mcp_tools": ["read"]})),
            server("mcp_tools = \"write\""),
            None,
        ),
        (&mcp, stopped("address-refused", "private", json!({})), server(""), None),
        (
            &mcp,
            stopped("address-refused", "private", json!({})),
            server("unsafe_dial = \"10.0.0.1:443\""),
            Some("allow g"),
        ),
        (
            &mcp,
            stopped("bad-request", "a body that is read: it is no JSON", json!({})),
            server("mcp_tools = \"a\""),
            None,
        ),
        (&mcp, stopped("bad-request", "a body that is read: it is no JSON", json!({})), server(""), Some("allow g")),
    ] {
        let lines = [opened(1, head.clone()), closed(1, ending.clone())];
        let (_, mut each, _) = replayed(&lines, &grants);
        assert_eq!(each.pop().map(|(_, _, after)| after).as_deref(), after, "{head} {ending} by {grants}");
    }
}

#[test]
fn a_line_that_cannot_be_read_is_said_and_keeps_nothing_from_being_not_known() {
    let (exit, each, summary) = replayed(&[json!("no line"), opened(1, json!({}))], &grant("g", "hosts = \"a.test\""));
    assert_eq!((exit, each.len()), (Exit::NotKnown, 0));
    assert_eq!((&summary["unreadable_lines"], &summary["never_closed"]), (&json!(1), &json!(1)));
}

#[test]
fn a_flood_of_different_requests_stays_few_groups_and_right_in_number() {
    let lines: Vec<Value> =
        (0..5000).map(|at| refused(at + 1, "no-grant", json!({"path": format!("/page-{at}-x")}))).collect();
    let (exit, each, summary) = replayed(&lines, &grant("g", "hosts = \"a.test\""));
    assert_eq!((exit, each.len(), &summary["changed"]), (Exit::Changed, 5000, &json!(5000)));
    let told: u64 =
        summary["changes"].as_array().into_iter().flatten().filter_map(|group| group["count"].as_u64()).sum();
    assert_eq!((told, &summary["in_other_groups"]), (4096, &json!(904)));
}
