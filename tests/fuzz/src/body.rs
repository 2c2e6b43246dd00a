//! Bodies: the verdict is the same wherever a body is cut and however it is packed; of a body that is refused the end never
//! goes on, nor any secret; what goes on asks the provider for nothing that the grant does not name.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use gateway::body::Reads;
use gateway::host::Target;
use gateway::policy::{Boxes, Grant, GrantName, Matching};
use gateway::refusal::Refusal;
use http::request::Parts;
use http::{HeaderMap, Request};
use serde_json::Value;

use crate::secrets::{NEEDLES, filled, leaks};
use crate::{cut, pieces};

const MODELS: [(&str, &str); 3] = [
    ("api.anthropic.com:443", "/v1/messages"),
    ("api.openai.com:443", "/v1/responses"),
    ("chatgpt.com:443", "/backend-api/codex/responses"),
];

pub(crate) fn holds(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    let (host, path) = MODELS[usize::from(kind % 3)];
    let (sizes, text) = cut(rest);
    let text = filled(text);
    let judge = |sizes: &[u8], packing: &str, sent: &[u8]| {
        let head = head(path, packing);
        let reads = Reads::of(&target(host), &Arc::new(grant()), &head, Arc::clone(&NEEDLES));
        Judged::of(&reads, &head.headers, sizes, sent)
    };
    let whole = judge(&[], "identity", &text);
    let in_pieces = judge(sizes, "identity", &text);
    assert_eq!(
        in_pieces.is_ok(),
        whole.is_ok(),
        "in pieces of {sizes:?}: {:?} and {:?}",
        in_pieces.told(),
        whole.told()
    );
    in_pieces.check(&text);
    assert!(in_pieces.is_ok() || !leaks(&in_pieces.gone), "a secret went out in pieces of {sizes:?}");
    let packed = gzip(&text);
    let unpacked = judge(sizes, "gzip", &packed);
    assert_eq!(unpacked.is_ok(), whole.is_ok(), "packed: {:?} and {:?}", unpacked.told(), whole.told());
    unpacked.check(&packed);
    if whole.is_ok() {
        assert_eq!(in_pieces.notes, whole.notes);
        assert_eq!(unpacked.notes, whole.notes);
        assert!(!leaks(&text), "a secret went out");
        asks_for_nothing(kind % 3, &text);
    }
}

/// What became of a body.
pub(crate) struct Judged {
    refusal: Option<Refusal>,
    /// What had gone on by then.
    gone: Vec<u8>,
    notes: BTreeMap<&'static str, Vec<String>>,
}

impl Judged {
    /// As an upload is judged: what waits is held, the last piece until the end is judged.
    pub(crate) fn of(reads: &Reads, headers: &HeaderMap, sizes: &[u8], sent: &[u8]) -> Self {
        let (mut gone, mut held) = (Vec::new(), Vec::new());
        let mut read = || {
            let mut reading = reads.body(headers)?;
            let all: Vec<&[u8]> = pieces(sizes, sent).collect();
            for (at, piece) in all.iter().enumerate() {
                let mut waits = reading.judge(piece)?;
                if at + 1 == all.len() {
                    reading.end()?;
                    waits = 0;
                }
                held.extend_from_slice(piece);
                gone.extend(held.drain(..held.len().saturating_sub(waits)));
            }
            Ok(())
        };
        let refusal = read().err();
        Self { refusal, gone, notes: reads.notes().read() }
    }

    pub(crate) const fn is_ok(&self) -> bool {
        self.refusal.is_none()
    }

    pub(crate) fn told(&self) -> Option<&str> {
        self.refusal.as_ref().map(Refusal::inside)
    }

    pub(crate) fn check(&self, sent: &[u8]) {
        if self.is_ok() {
            assert!(self.gone == sent, "all of it goes on, as it came");
        } else {
            assert!(sent.starts_with(&self.gone) && self.gone.len() < sent.len(), "its end does not go on");
        }
    }
}

pub(crate) fn target(text: &str) -> Target {
    Target::from_authority(text, None).expect("a target")
}

/// One that matches anything and lets a provider do nothing.
pub(crate) fn grant() -> Grant {
    let matching = Matching {
        boxes: Boxes::All,
        hosts: Vec::new(),
        ports: None,
        methods: None,
        sockets: Vec::new(),
        paths: None,
        headers: Vec::new(),
        query: None,
        plain: false,
    };
    Grant::new(GrantName::new("model"), matching)
}

pub(crate) fn head(path: &str, packing: &str) -> Parts {
    let request = Request::post(path).header("content-type", "application/json").header("content-encoding", packing);
    request.body(()).expect("a head").into_parts().0
}

fn gzip(text: &[u8]) -> Vec<u8> {
    // Nothing asks for nothing, packed or not.
    if text.is_empty() {
        return Vec::new();
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory takes it")
}

/// What each of the APIs does for one who asks in its plainest way.
fn asks_for_nothing(provider: u8, text: &[u8]) {
    let Ok(Value::Object(body)) = serde_json::from_slice(text) else { return };
    let items = |key: &str| body.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let types: &[&str] = match provider {
        0 => &["web_search_20250305", "web_fetch_20250910"],
        _ => &["web_search", "web_search_preview", "mcp", "code_interpreter"],
    };
    for tool in items("tools") {
        let kind = tool.get("type").and_then(Value::as_str).unwrap_or_default();
        assert!(!types.contains(&kind), "the tool {kind} goes through");
    }
    assert!(provider != 0 || items("mcp_servers").is_empty(), "servers of MCP go through");
}
