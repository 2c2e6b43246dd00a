//! MCP over streamable HTTP: what a grant names of methods and tools passes, everything else is refused in every disguise.

use anyhow::{Result, ensure};
use harness::{Case, case};
use serde_json::{Value, json};
use standin::{Fault, Options, Packing, Rule};

use super::base::{GATEWAY, Wire, get, holds, post, there};

pub(super) const CASES: &[Case] = &[
    case("wire::mcp_methods_and_tools_pass_where_the_grant_names_them", named).needs(GATEWAY),
    case("wire::mcp_calls_are_refused_in_every_disguise", disguised).needs(GATEWAY),
];

/// `mcp.test` is an MCP server of which little is granted.
fn server() -> Result<Wire> {
    let standin = standin::StandIn::start(Options { names: vec!["mcp.test".to_owned()], ..Options::default() })?;
    let keys = "mcp_methods = [\"initialize\", \"notifications/*\", \"tools/*\"]\nmcp_tools = [\"read_*\"]";
    let grant =
        format!("name = \"mcp\"\nhosts = [\"mcp.test\"]\n{keys}\n{}", there(&standin).replace("standin-ca", "mcp-ca"));
    let wire =
        Wire::with(Options::default(), |house| house.file("mcp-ca.pem", standin.ca_pem().as_bytes()).grant(&grant))?;
    Ok(Wire { standin, ..wire })
}

fn call(tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"arguments": {"name": "write_it"}, "name": tool}})
}

fn named() -> Result<()> {
    let wire = server()?;
    let events = b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"resources/read\"}\n\n".to_vec();
    let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    wire.standin.rules(vec![Rule::new("", Fault::Status { status: 200, headers, body: events.clone() })]);
    for (body, facts) in [
        (
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}),
            json!({"mcp_methods": ["initialize"]}),
        ),
        (
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"mcp_methods": ["notifications/initialized"]}),
        ),
        (call("read_it"), json!({"mcp_methods": ["tools/call"], "mcp_tools": ["read_it"]})),
        (json!([call("read_it")]), json!({"mcp_methods": ["tools/call"], "mcp_tools": ["read_it"]})),
        (json!({"jsonrpc": "2.0", "id": 7, "result": {"name": "write_it"}}), Value::Null),
    ] {
        wire.standin.forget();
        let body = body.to_string();
        let answer = wire.inside("mcp.test")?.ask(&post("mcp.test", "/mcp", KIND, &body))?;
        ensure!(answer.status == 200 && answer.body == events && answer.complete, "{body}: {answer:?}");
        let seen = wire.standin.seen();
        ensure!(seen.len() == 1 && seen[0].complete && seen[0].text() == body, "{body}: {seen:?}");
        let closed = newest(&wire)?;
        ensure!(closed["facts"] == facts && closed["ended"] == "complete", "{body}: {closed}");
    }
    for request in [
        get("mcp.test", "/mcp", "Accept: text/event-stream\r\n"),
        b"DELETE /mcp HTTP/1.1\r\nHost: mcp.test\r\n\r\n".to_vec(),
    ] {
        ensure!(wire.inside("mcp.test")?.ask(&request)?.body == events, "a request without a body");
    }
    Ok(())
}

fn disguised() -> Result<()> {
    let wire = server()?;
    wire.answer_all();
    let write = call("write_it").to_string();
    for (body, reason, inside) in [
        (write.clone(), "mcp-refused", "tool \"write_it\""),
        (write.replace("write_it", "writ\\u0065_it"), "mcp-refused", "tool \"write_it\""),
        (json!({"method": "resources/read"}).to_string(), "mcp-refused", "method \"resources/read\""),
        (json!([call("read_it"), call("write_it")]).to_string(), "bad-request", "more than one message"),
        (format!("[{}]{write}", call("read_it")), "bad-request", "after its end"),
        (
            r#"{"method":"tools/call","params":{"name":"read_it"},"params":{"name":"write_it"}}"#.to_owned(),
            "bad-request",
            "twice",
        ),
        (r#"{"method":"tools/list","METHOD":"resources/read"}"#.to_owned(), "bad-request", "another case"),
        (r#"{"id":1}"#.to_owned(), "bad-request", "neither"),
        ("method=tools/call".to_owned(), "bad-request", "no JSON"),
    ] {
        for packing in [None, Some(Packing::Zstd)] {
            let bytes = packing.map_or_else(|| body.clone().into_bytes(), |packing| packing.pack(body.as_bytes()));
            let coding = packing.map(|packing| format!("Content-Encoding: {}\r\n", packing.name())).unwrap_or_default();
            let head = format!(
                "POST /mcp HTTP/1.1\r\nHost: mcp.test\r\n{KIND}{coding}Content-Length: {}\r\n\r\n",
                bytes.len()
            );
            let answer = wire.inside("mcp.test")?.ask(&[head.as_bytes(), &bytes].concat())?;
            let status = if reason == "bad-request" { 400 } else { 403 };
            ensure!(answer.status == status && answer.reason() == Some(reason), "{body}: {answer:?}");
            let closed = newest(&wire)?;
            ensure!(
                closed["reason"] == reason && closed["inside"].to_string().replace('\\', "").contains(inside),
                "{body}: {closed}"
            );
        }
    }
    ensure!(wire.standin.seen().iter().all(|seen| !seen.complete), "{:?}", wire.standin.seen());
    ensure!(!holds(&wire.upstream(), "\"write_it\""), "what was refused went out");
    Ok(())
}

/// The line that closed the newest request.
fn newest(wire: &Wire) -> Result<Value> {
    harness::until("the closing of the newest line", std::time::Duration::from_secs(5), || {
        let lines = wire.house.ledger().ok()?;
        let opened = lines.iter().rfind(|line| line["kind"] == "request")?;
        lines.iter().find(|line| line["of"] == opened["seq"]).cloned()
    })
}

const KIND: &str = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
