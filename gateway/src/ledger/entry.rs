//! An entry: the words of one line, gathered by the step that knows them and redacted as they come in.

use std::borrow::Cow;

use box_spec::{BoxId, RunId};
use http::{HeaderMap, HeaderName, Method};
use jiff::Timestamp;
use serde_json::Value;

use crate::host::Target;
use crate::refusal::{Reason, Refusal};

use super::kind::{Kind, Ruling};
use super::past::Weight;
use super::request::Request;
use super::shown;
use super::words::{Body, Words};

/// The words of one line. Values that could be secrets are dropped at the builder, not at the writer.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    kind: Kind,
    time: Timestamp,
    caller: Caller,
    asked: Option<Kind>,
    target: Option<Target>,
    request: Request,
    grant: Option<String>,
    ruling: Option<Ruling>,
    /// What it would have been refused for, and by which grant.
    observed: Option<(Reason, String)>,
    reason: Option<Reason>,
    alarm: Option<&'static str>,
    inside: Option<String>,
    injected: Vec<HeaderName>,
    facts: Vec<(&'static str, String)>,
    repeats: Option<Repeats>,
}

/// The box and run of a line, as far as known.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Caller {
    pub(super) box_id: Option<BoxId>,
    pub(super) run_id: Option<RunId>,
}

/// How often something came again, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Repeats {
    pub(super) count: u64,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
}

impl Entry {
    /// Begun now: the line's time is when the entry was made, not when it was written.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            time: Timestamp::now(),
            caller: Caller::default(),
            asked: None,
            target: None,
            request: Request::default(),
            grant: None,
            ruling: None,
            observed: None,
            reason: None,
            alarm: None,
            inside: None,
            injected: Vec::new(),
            facts: Vec::new(),
            repeats: None,
        }
    }

    #[must_use]
    pub fn box_id(mut self, id: &BoxId) -> Self {
        self.caller.box_id = Some(id.clone());
        self
    }

    #[must_use]
    pub fn run_id(mut self, id: &RunId) -> Self {
        self.caller.run_id = Some(id.clone());
        self
    }

    #[must_use]
    pub fn target(mut self, target: &Target) -> Self {
        self.target = Some(target.clone());
        self
    }

    /// `https` or `http`.
    #[must_use]
    pub const fn scheme(mut self, scheme: &'static str) -> Self {
        self.request.scheme = Some(scheme);
        self
    }

    #[must_use]
    pub fn method(mut self, method: &Method) -> Self {
        self.request.method = Some(super::words::cut(method.as_str(), METHOD_LIMIT).into_owned());
        self
    }

    /// Path and query as they stand in the request line. Of the query only keys, lengths and hashes are kept.
    #[must_use]
    pub fn path_and_query(mut self, raw: &str) -> Self {
        self.request.path = Some(shown::path(raw));
        self.request.query = raw.split_once('?').map(|(_, query)| shown::query(query));
        self
    }

    #[must_use]
    pub fn headers(mut self, headers: &HeaderMap) -> Self {
        self.request.headers = Some(shown::headers(headers));
        self
    }

    /// The length the head announces, if it does.
    #[must_use]
    pub const fn body_length(mut self, length: Option<u64>) -> Self {
        self.request.body_length = length;
        self
    }

    /// Whether a body of undeclared length follows. Where neither is said there is no body (RFC 9112 §6.3).
    #[must_use]
    pub const fn chunked(mut self, is_chunked: bool) -> Self {
        self.request.is_chunked = is_chunked;
        self
    }

    /// Whose stand-in credential its head carried; empty where none did.
    #[must_use]
    pub fn stand_in(mut self, whose: Cow<'static, str>) -> Self {
        self.request.stand_in = Some(whose);
        self
    }

    #[must_use]
    pub fn grant(mut self, name: impl Into<String>) -> Self {
        self.grant = Some(name.into());
        self
    }

    #[must_use]
    pub const fn ruling(mut self, ruling: Ruling) -> Self {
        self.ruling = Some(ruling);
        self
    }

    /// It passes, and would be refused for this by this grant, were that not only observed.
    #[must_use]
    pub fn observed(mut self, reason: Reason, grant: &str) -> Self {
        self.observed = Some((reason, grant.to_owned()));
        self
    }

    #[must_use]
    pub const fn reason(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }

    /// A sentence for the operator.
    #[must_use]
    pub fn inside(mut self, sentence: &str) -> Self {
        self.inside = Some(shown::sentence(sentence));
        self
    }

    /// Names of the headers that will be set from the vault.
    #[must_use]
    pub fn injected(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.injected.extend(names.into_iter().take(INJECTED_LIMIT));
        self
    }

    /// Anything else worth keeping; it stands under `facts`.
    #[must_use]
    pub fn fact(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        if self.facts.len() < FACTS_LIMIT {
            self.facts.push((key, shown::fact(&value.into())));
        }
        self
    }

    /// The words of a refusal: reason, verdict, grant and inside sentence.
    #[must_use]
    pub fn refusal(mut self, refusal: &Refusal) -> Self {
        let reason = refusal.reason();
        self.reason = Some(reason);
        self.ruling = Some(if reason.is_policy() { Ruling::Refuse } else { Ruling::Outage });
        if let Some(grant) = refusal.grant() {
            self.grant = Some(grant.to_owned());
        }
        self.inside(refusal.inside())
    }
}

impl Entry {
    /// Its line from behind the link to the one before, for tests that stand outside.
    #[doc(hidden)]
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        self.body().bytes().to_vec()
    }
}

/// What the rest of the ledger does with an entry.
impl Entry {
    /// The same entry as a line of the kind `refused`, which keeps what had been asked.
    pub(super) fn into_refused(mut self) -> Self {
        if self.kind != Kind::Refused {
            self.asked = Some(self.kind);
            self.kind = Kind::Refused;
        }
        self
    }

    pub(super) fn into_alarm(mut self, code: &'static str) -> Self {
        self.kind = Kind::Alarm;
        self.alarm = Some(code);
        self
    }

    /// What later ones like this one are told as: who, what, where and why, without the words of this one alone.
    pub(super) fn into_repeated(self, repeats: Repeats) -> Self {
        let Request { scheme, method, path, .. } = self.request;
        Self {
            request: Request { scheme, method, path, ..Request::default() },
            caller: self.caller,
            asked: Some(self.kind),
            target: self.target,
            ruling: self.ruling,
            reason: self.reason,
            alarm: self.alarm,
            inside: self.inside,
            repeats: Some(repeats),
            ..Self::new(Kind::Repeated)
        }
    }

    pub(super) fn without_details(self) -> Self {
        Self { target: None, request: Request::default(), reason: None, alarm: None, inside: None, ..self }
    }

    pub(super) fn with_target_if_none(mut self, target: Option<&Target>) -> Self {
        if self.target.is_none() {
            self.target = target.cloned();
        }
        self
    }

    pub(super) const fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(super) const fn target_asked(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    /// What makes two refusals or alarms alike.
    pub(super) const fn likeness(&self) -> (Option<Reason>, Option<&'static str>) {
        (self.reason, self.alarm)
    }

    /// What was asked of the target, where it is a request.
    pub(super) fn method_and_path(&self) -> Option<(String, String)> {
        self.request.method.clone().zip(self.request.path.clone())
    }

    pub(super) const fn time(&self) -> Timestamp {
        self.time
    }

    /// How many refusals or alarms this line stands for.
    pub(super) fn repeats_count(&self) -> u64 {
        self.repeats.map_or(1, |repeats| repeats.count)
    }

    pub(super) fn inside_sentence(&self) -> &str {
        self.inside.as_deref().unwrap_or_default()
    }

    /// A line that needs no closing.
    pub(super) fn body(&self) -> Body {
        self.words(false).finish().weighing(self.weight()).of(&self.caller)
    }

    /// A line that awaits its closing, and says so.
    pub(super) fn open_body(&self) -> Body {
        self.words(true).finish().weighing(self.weight())
    }

    fn weight(&self) -> Weight {
        Weight::of(self.kind.word(), self.reason, self.repeats.map(|repeats| repeats.count))
    }

    fn words(&self, open: bool) -> Words {
        let Self {
            kind,
            time,
            caller,
            asked,
            target,
            request,
            grant,
            ruling,
            observed,
            reason,
            alarm,
            inside,
            injected,
            facts,
            repeats,
        } = self;
        let mut words = Words::new();
        words.text("time", &time_text(*time));
        words.text("kind", kind.word());
        if open {
            words.raw("open", "true");
        }
        caller.write(&mut words);
        words.text_if("asked", asked.map(Kind::word));
        words.text_if("target", target.as_ref().map(ToString::to_string).as_deref());
        request.write(&mut words);
        words.text_if("verdict", ruling.map(Ruling::word));
        if let Some((reason, grant)) = observed {
            words.within("observed", |inner| {
                inner.text("reason", reason.code());
                inner.text("grant", grant);
            });
        }
        words.text_if("reason", reason.map(Reason::code));
        words.text_if("alarm", *alarm);
        words.text_if("grant", grant.as_deref());
        words.text_if("inside", inside.as_deref());
        if !injected.is_empty() {
            words.texts("injected", injected.iter().map(HeaderName::as_str));
        }
        if let Some(repeats) = repeats {
            repeats.write(&mut words);
        }
        write_facts(facts, &mut words);
        words
    }
}

impl Caller {
    pub(super) fn write(&self, words: &mut Words) {
        let Self { box_id, run_id } = self;
        words.text_if("box", box_id.as_ref().map(BoxId::as_str));
        words.text_if("run", run_id.as_ref().map(RunId::as_str));
    }
}

impl Repeats {
    fn write(&self, words: &mut Words) {
        let Self { count, first, last } = self;
        words.number("count", *count);
        words.text("first", &time_text(*first));
        words.text("last", &time_text(*last));
    }
}

/// RFC 3339 in UTC, to the microsecond.
pub(super) fn time_text(time: Timestamp) -> String {
    format!("{time:.6}")
}

fn write_facts(facts: &[(&'static str, String)], words: &mut Words) {
    if facts.is_empty() {
        return;
    }
    words.within("facts", |inner| {
        for (key, json) in facts {
            inner.raw(key, json);
        }
    });
}

const METHOD_LIMIT: usize = 32;
const INJECTED_LIMIT: usize = 16;
const FACTS_LIMIT: usize = 16;
