//! Egress of providers: what a box can have the provider of a model do for it, in each API and each way to say it; refused with its
//! line unless the grant names it, and never whole upstream.

pub(super) mod sessions;
pub(super) mod agents;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Result, ensure};
use box_spec::Provider;
use harness::raw::Response;
use harness::{Case, Claimed, House, case, until};
use rustls::{ServerConnection, StreamOwned};
use serde_json::{Value, json};
use standin::{Options, Packing, Real, StandIn};

use super::base::{GATEWAY, Wire, holds, post};

pub(super) const CASES: &[Case] = &[
    case("wire::provider_side_egress_is_refused_by_each_field_of_each_api", each_field).needs(GATEWAY),
    case("wire::provider_side_egress_passes_where_the_grant_names_it_and_is_recorded", granted).needs(GATEWAY),
    case("wire::a_packed_body_is_read_and_goes_out_as_it_came", packed).needs(GATEWAY),
    case("wire::a_bomb_or_a_coding_that_nobody_knows_is_refused_on_a_model_route", bombs).needs(GATEWAY),
    case("wire::a_body_that_could_be_read_in_two_ways_is_refused_on_a_model_route", ambiguous).needs(GATEWAY),
    case("wire::a_body_is_judged_as_it_streams_and_its_end_waits_for_the_verdict", streamed).needs(GATEWAY),
    case("wire::a_refusal_after_an_early_answer_is_in_the_line", after_the_answer).needs(GATEWAY),
];

/// A run of pi at a house that serves all three providers at one stand-in, with these lines in each grant.
fn models(lines: &str) -> Result<Wire> {
    let chatgpt = Real::chatgpt("account-of-egress", "REAL-egress");
    let (key, login) =
        (Real::ApiKey("sk-proj-REAL-of-egress".into()), Real::Bearer("sk-ant-oat01-REAL-of-egress".into()));
    let standin =
        StandIn::start(Options { real: vec![chatgpt.clone(), key.clone(), login.clone()], ..Options::default() })?;
    let house = House::builder().agent("pi").of_models(lines).serve(&standin, Provider::Anthropic, login);
    let house = house.serve(&standin, Provider::Openai, key).serve(&standin, Provider::OpenaiCodex, chatgpt).start()?;
    let claimed = Claimed::take(&house.door("one"))?;
    Ok(Wire { standin, house, claimed })
}

/// A body of each field, and what the refusal says of it.
fn bodies() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    let image =
        |url: &str| json!([{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": url}}]}]);
    let tool = |kind: &str| json!({"model": "m", "stream": true, "tools": [{"type": kind, "name": "x"}], "messages": [], "input": []});
    vec![
        (ANTHROPIC, MESSAGES, tool("web_search_20250305"), "asks the provider for web_search"),
        (ANTHROPIC, MESSAGES, tool("web_fetch_20250910"), "asks the provider for web_fetch"),
        (ANTHROPIC, MESSAGES, tool("mcp_toolset"), "asks the provider for mcp"),
        (ANTHROPIC, MESSAGES, tool("computer_20250124"), "asks the provider for computer"),
        (
            ANTHROPIC,
            MESSAGES,
            json!({"mcp_servers": [{"type": "url", "url": PLACE, "name": "x"}]}),
            "asks the provider for mcp",
        ),
        (ANTHROPIC, MESSAGES, json!({"messages": image(PLACE)}), FETCH),
        (ANTHROPIC, "/v1/messages/count_tokens", json!({"messages": image(PLACE)}), FETCH),
        (OPENAI, RESPONSES, tool("web_search_preview"), "asks the provider for web_search"),
        (OPENAI, RESPONSES, tool("code_interpreter"), "asks the provider for code_interpreter"),
        (OPENAI, RESPONSES, tool("file_search"), "asks the provider for file_search"),
        (OPENAI, RESPONSES, json!({"tools": [{"type": "mcp", "server_url": PLACE}]}), "asks the provider for mcp"),
        (
            OPENAI,
            RESPONSES,
            json!({"tools": [{"type": "function", "connector_id": "connector_x"}]}),
            "asks the provider for connector",
        ),
        (OPENAI, RESPONSES, json!({"input": [{"content": [{"type": "input_image", "image_url": PLACE}]}]}), FETCH),
        (OPENAI, RESPONSES, json!({"input": [{"content": [{"type": "input_file", "file_url": PLACE}]}]}), FETCH),
        (OPENAI, CHAT, json!({"messages": [{"content": [{"type": "image_url", "image_url": {"url": PLACE}}]}]}), FETCH),
        (
            OPENAI,
            CHAT,
            json!({"web_search_options": {"search_context_size": "low"}}),
            "asks the provider for web_search",
        ),
        (CHATGPT, CODEX, tool("web_search"), "asks the provider for web_search"),
        (
            CHATGPT,
            CODEX,
            json!({"input": [{"type": "additional_tools", "tools": [{"type": "image_generation"}]}]}),
            "asks the provider for image_generation",
        ),
        (CHATGPT, CODEX, tool("something_new"), "asks the provider for something_new"),
    ]
}

fn each_field() -> Result<()> {
    let wire = models("")?;
    for (host, path, body, inside) in bodies() {
        wire.standin.forget();
        let answer = wire.inside(host)?.ask(&post(host, path, KIND, &body.to_string()))?;
        refused(&answer, "provider-egress", "403")?;
        let said = answer.json()?["error"]["message"].to_string();
        ensure!(said.contains("this is policy") && said.contains("provider_"), "{said}");
        closed_as(&wire, path, "provider-egress", inside)?;
        ensure!(wire.standin.seen().iter().all(|seen| !seen.complete), "{host} {body}: it arrived whole");
    }
    ensure!(!holds(&wire.upstream(), "web_") && !holds(&wire.upstream(), "evil.test"), "what was refused went out");
    let settled = format!("{:?}", wire.claimed.report()?);
    ensure!(settled.contains("refus"), "it counts against the run: {settled}");
    Ok(())
}

fn granted() -> Result<()> {
    let tools = r#"provider_tools = ["web_search", "web_fetch", "mcp", "computer", "code_interpreter", "file_search", "connector", "image_generation", "something_new"]"#;
    let wire = models(&format!("{tools}\nprovider_fetch = [\"https://evil.test/*\"]\n"))?;
    wire.answer_all();
    for (host, path, body, inside) in bodies() {
        wire.standin.forget();
        let body = body.to_string();
        let answer = wire.inside(host)?.ask(&post(host, path, KIND, &body))?;
        ensure!(answer.status == 200, "{body}: {answer:?}");
        ensure!(wire.standin.seen().iter().any(|seen| seen.complete && seen.text() == body), "{body} did not arrive");
        let closed = last_closed(&wire, path)?;
        let facts = closed["facts"].to_string();
        let name = inside.rsplit(' ').next().unwrap_or_default();
        ensure!(facts.contains(name), "{body}: {closed}");
    }
    let elsewhere = PLACE.replace("evil", "worse");
    let body = json!({"messages": [{"content": [{"source": {"type": "url", "url": elsewhere}}]}]}).to_string();
    let answer = wire.inside(ANTHROPIC)?.ask(&post(ANTHROPIC, MESSAGES, KIND, &body))?;
    refused(&answer, "provider-egress", "403")
}

fn packed() -> Result<()> {
    let wire = models("")?;
    wire.answer_all();
    let filler: String = (0..40_000_u32).map(|number| format!("{:x} ", number.wrapping_mul(2_654_435_761))).collect();
    for packing in [Packing::Zstd, Packing::Gzip, Packing::Brotli] {
        for (kind, is_let) in [("custom", true), ("web_search_20250305", false)] {
            wire.standin.forget();
            let body = json!({"system": filler, "tools": [{"type": kind, "name": "x"}]}).to_string();
            let packed = packing.pack(body.as_bytes());
            let answer = wire.inside(ANTHROPIC)?.ask(&sent(packing.name(), &packed))?;
            if is_let {
                ensure!(answer.status == 200, "{packing:?}: {answer:?}");
                let seen = wire.standin.seen();
                ensure!(
                    seen.len() == 1 && seen[0].complete && seen[0].body == packed,
                    "{packing:?}: another body came"
                );
            } else {
                refused(&answer, "provider-egress", "403")?;
                ensure!(wire.standin.seen().iter().all(|seen| !seen.complete), "{packing:?}: it arrived whole");
            }
        }
    }
    Ok(())
}

fn bombs() -> Result<()> {
    let wire = models("")?;
    // 2 GiB of blanks in 64 KiB of zstd: blocks of one byte that is repeated (RFC 8878 §3.1.1.2.2).
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    for _ in 0..16 * 1024 {
        bomb.extend_from_slice(&((128_u32 * 1024) << 3 | 1 << 1).to_le_bytes()[..3]);
        bomb.push(b' ');
    }
    let pid = wire.house.pid().unwrap_or_default();
    let before = resident(pid)?;
    let plain = Packing::Zstd.pack(b"{}");
    for (coding, body, inside) in [
        ("zstd", bomb, "unpacks to more than"),
        ("deflate", b"{}".to_vec(), "none of gzip, br and zstd"),
        ("gzip, zstd", b"{}".to_vec(), "none of gzip, br and zstd"),
        ("zstd", b"{}".to_vec(), "not packed as it says"),
        ("zstd", [&plain[..], &plain].concat(), "goes on after the end"),
        ("zstd", plain[..plain.len() - 1].to_vec(), "ends before"),
    ] {
        wire.standin.forget();
        let answer = wire.inside(ANTHROPIC)?.ask(&sent(coding, &body))?;
        refused(&answer, "bad-request", "400")?;
        closed_as(&wire, MESSAGES, "bad-request", inside)?;
        ensure!(wire.standin.seen().iter().all(|seen| !seen.complete), "{coding}: it arrived whole");
    }
    let after = resident(pid)?;
    ensure!(after < before + 64 * 1024, "{before} KiB before, {after} KiB after");
    Ok(())
}

fn ambiguous() -> Result<()> {
    let wire = models("provider_tools = [\"web_search\"]\n")?;
    let search = r#"[{"type":"web_search_20250305"}]"#;
    let deep = format!("{{\"messages\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for (headers, body, inside) in [
        (KIND, format!(r#"{{"tools":[],"tools":{search}}}"#), "stands there twice"),
        (KIND, format!(r#"{{"tools":[],"\u0074ools":{search}}}"#), "stands there twice"),
        (KIND, format!(r#"{{"Tools":{search}}}"#), "in another case"),
        (KIND, "\u{feff}{}".to_owned(), "no JSON"),
        (KIND, format!("{{}}{{\"tools\":{search}}}"), "after its end"),
        (KIND, "{\"a\":NaN}".to_owned(), "no JSON"),
        (KIND, "[{}]".to_owned(), "no object"),
        (KIND, "{\"a\":1".to_owned(), "before it is whole"),
        (KIND, deep, "nested more than"),
        ("Content-Type: application/json; charset=utf-16\r\n", "{}".to_owned(), "other characters"),
        ("Content-Type: application/x-www-form-urlencoded\r\n", "tools=x".to_owned(), "no JSON"),
    ] {
        let answer = wire.inside(ANTHROPIC)?.ask(&post(ANTHROPIC, MESSAGES, headers, &body))?;
        refused(&answer, "bad-request", "400")?;
        closed_as(&wire, MESSAGES, "bad-request", inside)?;
    }
    let mut invalid = post(ANTHROPIC, MESSAGES, KIND, "{\"a\":\"__\"}");
    let at = invalid.len() - 4;
    invalid[at..at + 2].copy_from_slice(b"\xc0\xaf");
    refused(&wire.inside(ANTHROPIC)?.ask(&invalid)?, "bad-request", "400")?;
    ensure!(wire.standin.seen().iter().all(|seen| !seen.complete), "{:?}", wire.standin.seen());
    Ok(())
}

fn streamed() -> Result<()> {
    let wire = models("")?;
    let (first, last) = (r#"{"system":"the beginning is on its way","#, r#""tools":[{"type":"web_fetch_20250910"}]}"#);
    for chunked in [false, true] {
        let framing = if chunked {
            "Transfer-Encoding: chunked\r\n".to_owned()
        } else {
            format!("Content-Length: {}\r\n", first.len() + last.len())
        };
        let part = |text: &str| if chunked { format!("{:x}\r\n{text}\r\n", text.len()) } else { text.to_owned() };
        let mut inside = wire.inside(ANTHROPIC)?;
        inside.send(format!("POST {MESSAGES} HTTP/1.1\r\nHost: {ANTHROPIC}\r\n{KIND}{framing}\r\n").as_bytes())?;
        inside.send(part(first).as_bytes())?;
        until("the first part to arrive", Duration::from_secs(5), || {
            let newest = wire.standin.connections().pop()?;
            holds(&newest.raw, "the beginning is on its way").then_some(())
        })?;
        refused(&inside.ask(part(last).as_bytes())?, "provider-egress", "403")?;
        ensure!(!holds(&wire.upstream(), "web_fetch"), "the part that was refused went out");
        until("the upstream to be let go", Duration::from_secs(5), || {
            wire.standin.connections().pop()?.ended.map(drop)
        })?;
    }
    ensure!(wire.standin.seen().iter().all(|seen| !seen.complete), "{:?}", wire.standin.seen());
    Ok(())
}

/// An upstream that answers before it has heard all must not take the refusal out of the record.
fn after_the_answer() -> Result<()> {
    let (address, ca_pem, heard) = answering_early()?;
    let there = format!("unsafe_dial = \"{address}\"\nupstream_ca = \"early-ca.pem\"");
    let grant = format!("name = \"early\"\npreset = \"anthropic\"\nsecret = \"anthropic\"\n{there}");
    let wire = Wire::with(Options::default(), |house| house.file("early-ca.pem", ca_pem.as_bytes()).grant(&grant))?;
    let (first, last) = (r#"{"system":"x","#, r#""tools":[{"type":"web_fetch_20250910"}]}"#);
    let mut inside = wire.inside(ANTHROPIC)?;
    let length = first.len() + last.len();
    let head = format!("POST {MESSAGES} HTTP/1.1\r\nHost: {ANTHROPIC}\r\n{KIND}Content-Length: {length}\r\n\r\n");
    inside.send(format!("{head}{first}").as_bytes())?;
    let begun = String::from_utf8_lossy(&inside.piece()?).into_owned();
    ensure!(begun.starts_with("HTTP/1.1 200"), "{begun}");
    inside.send(last.as_bytes())?;
    drop(inside.rest());
    let closed = last_closed(&wire, MESSAGES)?;
    ensure!(closed["facts"]["body_refused"].to_string().contains("provider-egress"), "{closed}");
    let all = heard.recv_timeout(Duration::from_secs(5))?;
    ensure!(holds(&all, first) && !holds(&all, "web_fetch"), "{}", String::from_utf8_lossy(&all));
    let settled = format!("{:?}", wire.claimed.report()?);
    ensure!(settled.contains("refus"), "it counts against the run: {settled}");
    Ok(())
}

/// A host that begins its answer as soon as anything of a body is there; tells all that it was sent.
fn answering_early() -> Result<(SocketAddr, String, Receiver<Vec<u8>>)> {
    let (tls, ca_pem) = standin::server_for(&[ANTHROPIC])?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let (tell, heard) = channel();
    std::thread::spawn(move || -> Result<()> {
        let mut stream = StreamOwned::new(ServerConnection::new(tls)?, listener.accept()?.0);
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        while !holds(&all, "system") {
            let read = stream.read(&mut piece)?;
            all.extend_from_slice(&piece[..read]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nearly")?;
        stream.flush()?;
        // However it ends.
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            all.extend_from_slice(&piece[..read]);
        }
        tell.send(all).map_err(anyhow::Error::from)
    });
    Ok((address, ca_pem, heard))
}

/// A final refusal on a model's route: 400 with the truth in a header.
fn refused(answer: &Response, reason: &str, status: &str) -> Result<()> {
    ensure!(answer.status == 400 && answer.reason() == Some(reason), "{}: {answer:?}", answer.text());
    ensure!(answer.header("x-boxgate-status") == Some(status), "{answer:?}");
    Ok(())
}

fn closed_as(wire: &Wire, path: &str, reason: &str, inside: &str) -> Result<()> {
    let closed = last_closed(wire, path)?;
    ensure!(closed["reason"] == reason && closed["ended"] == "failed", "{closed}");
    ensure!(closed["inside"].to_string().contains(inside), "{inside}: {closed}");
    Ok(())
}

/// The line that closed the newest request with this path.
fn last_closed(wire: &Wire, path: &str) -> Result<Value> {
    until("the closing of the newest line", Duration::from_secs(5), || {
        let lines = wire.house.ledger().ok()?;
        let opened = lines.iter().rfind(|line| line["kind"] == "request" && line["path"] == path)?;
        ensure_allowed(opened)?;
        lines.iter().find(|line| line["of"] == opened["seq"]).cloned()
    })
}

/// A body is read after its head was judged and written down.
fn ensure_allowed(opened: &Value) -> Option<()> {
    (opened["verdict"] == "allow" && opened["open"] == true).then_some(())
}

fn sent(coding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {MESSAGES} HTTP/1.1\r\nHost: {ANTHROPIC}\r\n{KIND}Content-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// In KiB.
fn resident(pid: i32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

const KIND: &str = "Content-Type: application/json\r\n";
const PLACE: &str = "https://evil.test/collect?it=secret";
const FETCH: &str = "asks the provider to fetch from https://evil.test:443";
const ANTHROPIC: &str = "api.anthropic.com";
const OPENAI: &str = "api.openai.com";
const CHATGPT: &str = "chatgpt.com";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const CHAT: &str = "/v1/chat/completions";
const CODEX: &str = "/backend-api/codex/responses";
