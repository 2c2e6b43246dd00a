//! Rules: what goes wrong, for which requests, how often.

use std::time::Duration;

/// A fault for the requests that match. The first rule that matches and is not used up is taken.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Part of the request target, query included; the empty text matches all.
    pub path: String,
    /// Only this method.
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
    /// This answer, before the credential is looked at.
    Status { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// This answer as soon as the head was read, the body unread. Then the connection is closed as told.
    Early { status: u16, headers: Vec<(String, String)>, body: Vec<u8>, then: Then },
    /// These bytes as they stand, each piece after its pause.
    Raw { pieces: Vec<(Duration, Vec<u8>)>, then: Then },
    /// These bytes, then what would have been answered anyway (informational answers).
    Before(Vec<u8>),
    /// The streamed answer ends after so many events.
    CutAfter { events: usize, cut: Cut },
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
    /// The body is ended properly, though the events are not all there.
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
        let body = crate::events::error_body(status, "stand-in fault").into_bytes();
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self::new(path, Fault::Status { status, headers, body })
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

    fn fits(&self, method: &str, path: &str) -> bool {
        path.contains(&self.path) && self.method.as_deref().is_none_or(|wanted| wanted == method)
    }
}

impl Rules {
    pub(crate) fn new(list: Vec<Rule>) -> Self {
        Self { list: list.into_iter().map(|rule| (rule, 0)).collect() }
    }

    /// The rule for this request, which counts as used now.
    pub(crate) fn take(&mut self, method: &str, path: &str) -> Option<Rule> {
        for (rule, used) in self.list.iter_mut().filter(|(rule, _)| rule.fits(method, path)) {
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

#[cfg(test)]
mod tests {
    use super::{Fault, Rule, Rules};

    #[test]
    fn a_rule_spares_the_first_harms_the_next_and_is_used_up() {
        let mut rules = Rules::new(vec![Rule::new("/v1/", Fault::Reset).after(1).times(2)]);
        let taken: Vec<bool> = (0..5).map(|_| rules.take("POST", "/v1/messages?beta=true").is_some()).collect();
        assert_eq!(taken, [false, true, true, false, false]);
        assert!(rules.take("GET", "/other").is_none());
    }
}
