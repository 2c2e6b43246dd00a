//! Rules: what goes wrong, for which requests, how often.

use std::time::Duration;

use crate::errors;
use crate::pack::Packing;

/// A fault for the requests that match. The first rule that matches and is not used up is taken.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Part of the request target, query included; the empty text matches all.
    pub path: String,
    /// Only this method; `WS` for what is asked over a WebSocket. Without one a rule is for requests, upgrades included, and
    /// what a stream can suffer ([`Fault::CutAfter`], [`Fault::Event`]) for requests and for what is asked over a WebSocket.
    pub method: Option<String>,
    /// So many matching requests go unharmed first.
    pub skip: usize,
    /// So many are harmed then; `None` for all.
    pub times: Option<usize>,
    /// Wait so long after the request was read.
    pub delay: Duration,
    pub fault: Fault,
}

/// What is done to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing but the rule's delay.
    None,
    /// This answer, before the credential is looked at. Over a WebSocket an `error` event with this status.
    Status { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// This answer as soon as the head was read, the body unread. Then the connection is closed as told.
    Early { status: u16, headers: Vec<(String, String)>, body: Vec<u8>, then: Then },
    /// These bytes as they stand, each piece after its pause.
    Raw { pieces: Vec<(Duration, Vec<u8>)>, then: Then },
    /// These bytes, then what would have been answered anyway (informational answers).
    Before(Vec<u8>),
    /// The streamed answer ends after so many events.
    CutAfter { events: usize, cut: Cut },
    /// The streamed answer is this one event, in JSON.
    Event(String),
    /// The usual answer, packed as a whole. What goes over a WebSocket is left as it is.
    Packed(Packing),
    /// No answer for so long, then the connection is closed.
    Hang(Duration),
    /// The connection is reset once the request was read.
    Reset,
}

/// How a stream is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// By RST.
    Reset,
    /// The TCP connection is closed without an end of the body (and of TLS).
    Close,
    /// The body (over a WebSocket, the session) is ended properly, though the events are not all there.
    Clean,
}

/// What becomes of a connection after an answer out of the ordinary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    Keep,
    Close,
    Reset,
    /// What still comes is read and dropped until the peer ends it.
    Drain,
}

/// How it is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Request,
    /// A request for a WebSocket.
    Upgrade,
    /// A message over a WebSocket.
    Message,
}

/// The rules in force and how often each was used.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    list: Vec<(Rule, usize)>,
}

impl Rule {
    /// For all requests to targets that contain `path`, without limit.
    #[must_use]
    pub fn new(path: &str, fault: Fault) -> Self {
        Self { path: path.to_owned(), method: None, skip: 0, times: None, delay: Duration::ZERO, fault }
    }

    /// An error of the provider's own shape, as often as it is asked for.
    #[must_use]
    pub fn status(path: &str, status: u16) -> Self {
        let body = errors::body(path, status, "stand-in fault").into_bytes();
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self::new(path, Fault::Status { status, headers, body })
    }

    /// Only for this method; `WS` for what is asked over a WebSocket.
    #[must_use]
    pub fn on(mut self, method: &str) -> Self {
        self.method = Some(method.to_owned());
        self
    }

    #[must_use]
    pub const fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    #[must_use]
    pub const fn after(mut self, skip: usize) -> Self {
        self.skip = skip;
        self
    }

    #[must_use]
    pub const fn late(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    fn fits(&self, asked: Asked, method: &str, path: &str) -> bool {
        let in_stream = matches!(self.fault, Fault::CutAfter { .. } | Fault::Event(_));
        let fits = match (asked, self.method.as_deref()) {
            (Asked::Message, wanted) => wanted == Some(WEBSOCKET) || wanted.is_none() && in_stream,
            (Asked::Upgrade, wanted) => !in_stream && wanted.is_none_or(|wanted| wanted == method),
            (Asked::Request, wanted) => wanted.is_none_or(|wanted| wanted == method),
        };
        fits && path.contains(&self.path)
    }
}

impl Rules {
    pub(crate) fn new(list: Vec<Rule>) -> Self {
        Self { list: list.into_iter().map(|rule| (rule, 0)).collect() }
    }

    /// The rule for this request, which counts as used now.
    pub(crate) fn take(&mut self, asked: Asked, method: &str, path: &str) -> Option<Rule> {
        for (rule, used) in self.list.iter_mut().filter(|(rule, _)| rule.fits(asked, method, path)) {
            let last = rule.times.map_or(usize::MAX, |times| rule.skip.saturating_add(times));
            if *used >= last {
                continue;
            }
            *used += 1;
            return (*used > rule.skip).then(|| rule.clone());
        }
        None
    }
}

/// What stands for a method where a message over a WebSocket is meant.
pub(crate) const WEBSOCKET: &str = "WS";

#[cfg(test)]
mod tests {
    use super::{Asked, Cut, Fault, Rule, Rules};

    #[test]
    fn a_rule_spares_the_first_harms_the_next_and_is_used_up() {
        let mut rules = Rules::new(vec![Rule::new("/v1/", Fault::Reset).after(1).times(2)]);
        let taken: Vec<bool> =
            (0..5).map(|_| rules.take(Asked::Request, "POST", "/v1/messages?beta=true").is_some()).collect();
        assert_eq!(taken, [false, true, true, false, false]);
        assert!(rules.take(Asked::Request, "GET", "/other").is_none());
    }

    #[test]
    fn what_a_stream_suffers_spares_the_upgrade() {
        let cut = || Rule::new("/responses", Fault::CutAfter { events: 1, cut: Cut::Clean });
        let cases = [
            (cut(), [true, false, true]),
            (cut().on("WS"), [false, false, true]),
            (Rule::status("/responses", 500), [true, true, false]),
            (Rule::status("/responses", 500).on("WS"), [false, false, true]),
            (Rule::status("/responses", 500).on("GET"), [false, true, false]),
        ];
        for (rule, expected) in cases {
            let asked = [(Asked::Request, "POST"), (Asked::Upgrade, "GET"), (Asked::Message, "WS")];
            let mut rules = Rules::new(vec![rule.clone()]);
            let taken = asked.map(|(asked, method)| rules.take(asked, method, "/v1/responses").is_some());
            assert_eq!(taken, expected, "{rule:?}");
        }
    }
}
