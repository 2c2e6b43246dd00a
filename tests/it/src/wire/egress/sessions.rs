//! Messages of a WebSocket to a model: each is judged as a body is, and a refusal ends the session with words that can be read.

use std::time::Duration;

use anyhow::{Result, ensure};
use harness::door::Inside;
use harness::{Case, case, until};
use serde_json::{Value, json};

use super::super::base::{GATEWAY, Wire, holds};
use super::super::websocket::{asking, frames};
use super::{CHATGPT, CODEX, OPENAI, RESPONSES, last_closed, models};

pub(crate) const CASES: &[Case] = &[
    case("wire::provider_side_egress_over_a_websocket_ends_the_session", refused).needs(GATEWAY),
    case("wire::provider_side_egress_is_found_in_whatever_frames_it_comes", framed).needs(GATEWAY),
    case("wire::provider_side_egress_over_a_websocket_passes_where_the_grant_names_it", granted).needs(GATEWAY),
];

fn refused() -> Result<()> {
    for (host, path) in [(CHATGPT, CODEX), (OPENAI, RESPONSES)] {
        let wire = models("")?;
        let mut inside = session(&wire, host, path, "")?;
        inside.send(&masked(0x81, create(&json!([{"type": "function", "name": "f"}])).as_bytes()))?;
        let mut came = event(&mut inside)?;
        while came["type"] != "response.completed" {
            came = event(&mut inside)?;
        }
        inside.send(&masked(0x81, create(&json!([{"type": "web_search"}])).as_bytes()))?;
        let told = event(&mut inside)?;
        ensure!(told["type"] == "error" && told["status"] == 400, "{told}");
        ensure!(told["error"]["code"] == "provider-egress", "{told}");
        ensure!(told["error"]["message"].to_string().contains("provider_tools"), "{told}");
        let close = frames::read(&mut inside)?;
        ensure!(
            close.opcode == frames::CLOSE && close.payload.starts_with(&1008_u16.to_be_bytes()),
            "{:?}",
            close.payload
        );
        ensure!(inside.rest()?.is_empty(), "more came after the close");
        let closed = last_closed(&wire, path)?;
        ensure!(closed["reason"] == "provider-egress" && closed["ended"] == "cut", "{closed}");
        ensure!(closed["inside"] == "asks the provider for web_search" && closed["status"] == 101, "{closed}");
        until("the upstream to be let go", Duration::from_secs(5), || {
            wire.standin.connections().pop()?.ended.map(drop)
        })?;
        let messages: Vec<String> =
            wire.standin.seen().iter().filter(|seen| seen.method == "WS").map(standin::Seen::text).collect();
        ensure!(messages.len() == 1 && !messages[0].contains("web_search"), "{messages:?}");
        let settled = format!("{:?}", wire.claimed.report()?);
        ensure!(settled.contains("refus"), "it counts against the run: {settled}");
    }
    Ok(())
}

fn framed() -> Result<()> {
    let bad = create(&json!([{"type": "web_search"}]));
    let (begin, end) = bad.split_at(bad.find("web_").unwrap_or_default() + 4);
    let parts = [masked(0x01, begin.as_bytes()), masked(0x89, b"beat"), masked(0x80, end.as_bytes())];
    for (what, bytes, reason) in [
        ("a message in two frames", parts.concat(), "provider-egress"),
        ("a binary message", masked(0x82, bad.as_bytes()), "provider-egress"),
        (
            "a second message in one packet",
            [masked(0x81, b"{}"), masked(0x81, bad.as_bytes())].concat(),
            "provider-egress",
        ),
        ("a packed frame", masked(0xc1, bad.as_bytes()), "bad-request"),
        ("no JSON", masked(0x81, b"hello"), "bad-request"),
        ("two in one", masked(0x81, b"{}{}"), "bad-request"),
        ("a message that is not masked", frames::frame(frames::TEXT, bad.as_bytes(), None), "bad-request"),
    ] {
        for size in [1, 5, bytes.len()] {
            let wire = models("")?;
            let mut inside = session(&wire, CHATGPT, CODEX, "Sec-WebSocket-Extensions: permessage-deflate\r\n")?;
            for piece in bytes.chunks(size) {
                // It may be over before all was sent.
                if inside.send(piece).is_err() {
                    break;
                }
            }
            drop(inside.rest());
            let closed = last_closed(&wire, CODEX)?;
            ensure!(closed["reason"] == reason, "{what} in pieces of {size}: {closed}");
            let seen = wire.standin.seen();
            let messages = seen.iter().filter(|seen| seen.method == "WS" && seen.text().contains("web_search"));
            ensure!(messages.count() == 0, "{what} in pieces of {size} went out");
            ensure!(!holds(&wire.upstream(), "permessage-deflate"), "{what}: an extension was offered");
        }
    }
    Ok(())
}

fn granted() -> Result<()> {
    let wire = models("provider_tools = [\"web_search\"]\n")?;
    let mut inside = session(&wire, CHATGPT, CODEX, "")?;
    inside.send(&masked(0x81, create(&json!([{"type": "web_search"}])).as_bytes()))?;
    ensure!(event(&mut inside)?["type"] == "response.created");
    inside.send(&masked(0x88, b"\x03\xe8"))?;
    drop(inside.rest());
    let closed = last_closed(&wire, CODEX)?;
    ensure!(closed["facts"]["provider_tools"] == json!(["web_search"]), "{closed}");
    ensure!(closed["reason"].is_null(), "{closed}");
    Ok(())
}

fn session(wire: &Wire, host: &str, path: &str, headers: &str) -> Result<Inside> {
    let mut inside = wire.inside(host)?;
    let answer = inside.ask(&asking(host, path, headers))?;
    ensure!(answer.status == 101, "{answer:?}");
    Ok(inside)
}

fn create(tools: &Value) -> String {
    let input =
        json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<<text:fine>>"}]}]);
    json!({"type": "response.create", "model": "m", "input": input, "tools": tools}).to_string()
}

fn event(inside: &mut Inside) -> Result<Value> {
    let came = frames::read(inside)?;
    Ok(serde_json::from_slice(&came.payload)?)
}

fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = frames::frame(first & 0x0f, payload, Some([0x37, 0xfa, 0x21, 0x3d]));
    frame[0] = first;
    frame
}
