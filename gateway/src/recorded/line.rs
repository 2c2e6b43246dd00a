//! One line, from its words to what they say of a request.

use std::borrow::Cow;

use box_spec::{BoxId, RunId};
use http::header::TRANSFER_ENCODING;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::host::Target;
use crate::policy::{Scheme, carriers};
use crate::refusal::Reason;

use super::{Asked, Body, Closing, Facts, Headers, Query, Said, StandIn, Why};

/// What a line is to whoever wants to know what was asked.
pub(super) enum Line {
    /// It opens what another line closes.
    Opened(Box<Asked>),
    /// All that there is of it.
    Whole(Box<Asked>),
    Closed {
        of: u64,
        closing: Box<Closing>,
    },
    /// Refused before anything was asked, or for how it came: no policy says anything of that.
    NothingAsked(Noise),
    /// Refusals of which only the number is left.
    Counted(Noise),
    /// Of no request.
    Other,
}

/// Refusals that tell no request.
pub(super) struct Noise {
    pub(super) time: Timestamp,
    pub(super) count: u64,
    pub(super) box_id: Option<BoxId>,
    pub(super) run: Option<RunId>,
}

#[derive(Deserialize)]
struct Words<'a> {
    seq: u64,
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    open: bool,
    of: Option<u64>,
    #[serde(rename = "box")]
    box_id: Option<BoxId>,
    run: Option<RunId>,
    #[serde(borrow)]
    asked: Option<Cow<'a, str>>,
    #[serde(borrow)]
    target: Option<Cow<'a, str>>,
    #[serde(borrow)]
    scheme: Option<Cow<'a, str>>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    path: Option<Cow<'a, str>>,
    query: Option<Vec<Key>>,
    headers: Option<Names>,
    body_length: Option<u64>,
    #[serde(borrow)]
    body: Option<Cow<'a, str>>,
    stand_in: Option<String>,
    grant: Option<String>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    inside: Option<String>,
    count: Option<u64>,
    first: Option<String>,
    last: Option<String>,
    #[serde(borrow)]
    ended: Option<Cow<'a, str>>,
    status: Option<u16>,
    bytes_up: Option<u64>,
    #[serde(default)]
    injected: Vec<String>,
    facts: Option<Value>,
}

#[derive(Deserialize)]
struct Key {
    key: Option<String>,
    #[serde(default)]
    semicolon: bool,
}

#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    shown: Map<String, Value>,
    #[serde(default)]
    others: Vec<String>,
    left_out: Option<u64>,
}

/// `None` where it is no line of a ledger, or one whose words cannot be true.
pub(super) fn read(line: &[u8]) -> Option<Line> {
    let words: Words<'_> = serde_json::from_slice(line).ok()?;
    match &*words.kind {
        "closed" => Some(Line::Closed { of: words.of?, closing: Box::new(words.closing()?) }),
        "tunnel" | "request" | "answered" | "refused" => words.into_asked(),
        "repeated" if words.asked.as_deref() == Some("refused") && words.method.is_some() => words.into_asked(),
        "repeated" if words.asked.as_deref() != Some("alarm") => words.noise().map(Line::Counted),
        _ => Some(Line::Other),
    }
}

impl Words<'_> {
    fn closing(self) -> Option<Closing> {
        let refused = match self.reason.as_deref() {
            Some(code) => Some(Why { reason: Reason::of_code(code)?, inside: self.inside.unwrap_or_default() })
                .filter(is_a_ruling),
            None => None,
        };
        let facts = self.facts.unwrap_or_default();
        let list = |key: &str| {
            let texts = facts[key].as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect::<Vec<_>>()
        };
        // It was refused when its answer had begun already.
        let late = list("body_refused").into_iter().find_map(|said| {
            let (code, inside) = said.split_once(": ")?;
            Some(Why { reason: Reason::of_code(code)?, inside: inside.to_owned() })
        });
        Some(Closing {
            is_complete: self.ended.as_deref() == Some("complete"),
            status: self.status,
            bytes_up: self.bytes_up.unwrap_or_default(),
            injected: self.injected,
            refused: refused.or(late),
            facts: Facts {
                tools: list("provider_tools"),
                places: list("provider_fetch"),
                methods: list("mcp_methods"),
                calls: list("mcp_tools"),
            },
        })
    }

    fn noise(self) -> Option<Noise> {
        let time = self.first.as_deref().unwrap_or(&self.time).parse().ok()?;
        Some(Noise { time, count: self.count.unwrap_or(1), box_id: self.box_id, run: self.run })
    }

    fn into_asked(self) -> Option<Line> {
        let said = match &*self.kind {
            "tunnel" | "request" => Said::Allow,
            "answered" => Said::Answer,
            _ => Said::Refuse(Why {
                reason: Reason::of_code(self.reason.as_deref()?)?,
                inside: self.inside.clone().unwrap_or_default(),
            }),
        };
        let count = self.count.unwrap_or(1);
        let (Some(target), Some(method)) = (&self.target, &self.method) else {
            return if matches!(said, Said::Refuse(_)) { self.noise().map(Line::NothingAsked) } else { None };
        };
        let target = Target::from_authority(target, None).ok()?;
        let scheme = match self.scheme.as_deref()? {
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            _ => return None,
        };
        let time = |text: &str| text.parse::<Timestamp>().ok();
        let first = time(self.first.as_deref().unwrap_or(&self.time))?;
        let headers = self.headers.map_or(Headers::Unknown, Names::read);
        // A line that was written before bodies were told has the header all the same.
        let body = match (self.body_length, self.body.as_deref(), &headers) {
            (Some(length), ..) => Body::Declared(length),
            (None, Some(_), _) => Body::Chunked,
            (None, None, Headers::Known(headers)) if headers.contains_key(TRANSFER_ENCODING) => Body::Chunked,
            (None, None, Headers::Known(_)) => Body::None,
            (None, None, Headers::Unknown) => Body::Unknown,
        };
        let is_repeated = self.kind == "repeated";
        let asked = Asked {
            sequence: self.seq,
            time: first,
            last: self.last.as_deref().map_or(Some(first), time)?,
            count,
            box_id: self.box_id?,
            run: self.run,
            target,
            scheme,
            method: (!is_marked(method)).then(|| method.parse::<Method>().ok()).flatten(),
            path: self.path.as_deref().filter(|path| !is_marked(path)).map(str::to_owned),
            query: match self.query {
                Some(keys) => Query::read(keys),
                None if is_repeated => Query::Unknown,
                None => Query::Keys(Vec::new()),
            },
            stand_in: StandIn::read(self.stand_in, &headers),
            headers,
            body,
            said,
            grant: self.grant,
        };
        Some(if self.open { Line::Opened(Box::new(asked)) } else { Line::Whole(Box::new(asked)) })
    }
}

impl Query {
    fn read(keys: Vec<Key>) -> Self {
        let known = |one: Key| one.key.filter(|key| !one.semicolon && !is_marked(key));
        keys.into_iter().map(known).collect::<Option<Vec<_>>>().map_or(Self::Unknown, Self::Keys)
    }
}

impl Names {
    fn read(self) -> Headers {
        let Self { shown, others, left_out } = self;
        let mut headers = HeaderMap::new();
        let shown = shown.into_iter().map(|(name, value)| (name, value.as_str().unwrap_or_default().to_owned()));
        let others = others.into_iter().map(|name| {
            let value = stand_for(&name);
            (name, value)
        });
        for (name, value) in shown.chain(others) {
            let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) else {
                return Headers::Unknown;
            };
            headers.insert(name, value);
        }
        if left_out.is_some() { Headers::Unknown } else { Headers::Known(headers) }
    }
}

impl StandIn {
    /// A line that names none had none, where its headers show that nothing could hold one.
    fn read(named: Option<String>, headers: &Headers) -> Self {
        match (named, headers) {
            (Some(named), _) if named.is_empty() => Self::None,
            (Some(named), _) => Self::Of(named),
            (None, Headers::Known(headers)) if !headers.keys().any(carriers::header_carries_credential) => Self::None,
            (None, Headers::Known(_) | Headers::Unknown) => Self::Unknown,
        }
    }
}

/// What the house said no to, beside what it or others failed at, and what ended for another reason than what was asked.
fn is_a_ruling(why: &Why) -> bool {
    why.reason.is_policy() && !matches!(why.reason, Reason::RunOver | Reason::GrantWithdrawn)
}

/// A value that the ledger does not keep: one that is well formed, where others depend on that.
fn stand_for(name: &str) -> String {
    match name {
        "sec-websocket-key" => "AAAAAAAAAAAAAAAAAAAAAA==",
        "sec-websocket-version" => "13",
        _ => "",
    }
    .to_owned()
}

/// Whether something of a text was cut off or masked.
fn is_marked(text: &str) -> bool {
    text.contains("…(+") || text.contains("[masked ")
}
