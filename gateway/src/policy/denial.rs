//! Denials: a grant turned round. It refuses what it could mean in some reading, where a grant lets through what it means in
//! every one.

use super::{Ask, Grant, Missed, carriers};

impl Grant {
    /// What of an ask this denial does not mean, the farthest first; nothing where it holds. Box and host are meant already.
    pub(super) fn denial(&self, ask: &Ask<'_>) -> Option<Missed> {
        let matching = self.matching();
        if matching.ports.as_ref().is_some_and(|ports| !ports.contains(&ask.target.port())) {
            return Some(Missed::Port);
        }
        if matching.paths.as_ref().is_some_and(|patterns| !patterns.iter().any(|pattern| pattern.may_cover(ask.path))) {
            return Some(Missed::Path);
        }
        if !matching.takes(ask.method) {
            return Some(Missed::Method);
        }
        if matching.query.as_ref().is_some_and(|keys| !keys.may_be_in(ask.query)) {
            return Some(Missed::Query);
        }
        let has = |folded: &str| {
            ask.headers.is_some_and(|headers| headers.keys().any(|name| carriers::folded_header(name) == folded))
        };
        let names = &matching.headers;
        (!names.is_empty() && !names.iter().any(|name| has(&carriers::folded_header(name)))).then_some(Missed::Header)
    }

    /// Whether nothing at all is left of a host at this port.
    pub(super) fn denies_all_of(&self, port: u16) -> bool {
        let matching = self.matching();
        self.denies
            && !self.observes
            && matching.ports.as_ref().is_none_or(|ports| ports.contains(&port))
            && matching.methods.is_none()
            && matching.paths.is_none()
            && matching.query.is_none()
            && matching.headers.is_empty()
    }
}
