//! Refusals: why something was not let through, once for outside and once for inside.

pub mod answer;
mod reason;

use crate::host::Target;

pub use reason::Reason;

/// A "no". The outside sentence may be read by the box; the inside one is for the ledger and the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal(Box<Said>);

/// Behind a pointer: a refusal is rare, and every step's answer has room for one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Said {
    reason: Reason,
    outside: String,
    hint: String,
    inside: String,
    grant: Option<String>,
}

/// A refusal on its way to be heard: where the box wanted to go, and the "no".
/// There is nothing in it to inject or to relay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    pub target: Option<Target>,
    pub refusal: Refusal,
}

impl Refusal {
    /// `outside` is one sentence for the box, `inside` one for the operator; neither holds a credential.
    pub fn new(reason: Reason, outside: impl Into<String>, inside: impl Into<String>) -> Self {
        let hint = reason.hint().to_owned();
        Self(Box::new(Said { reason, outside: outside.into(), hint, inside: inside.into(), grant: None }))
    }

    /// The same, with a hint that fits the case better than the reason's own.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = hint.into();
        self
    }

    /// The same, naming the grant that decided or nearly matched.
    #[must_use]
    pub fn with_grant(mut self, grant: impl Into<String>) -> Self {
        self.0.grant = Some(grant.into());
        self
    }

    #[must_use]
    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    #[must_use]
    pub fn outside(&self) -> &str {
        &self.0.outside
    }

    #[must_use]
    pub fn hint(&self) -> &str {
        &self.0.hint
    }

    #[must_use]
    pub fn inside(&self) -> &str {
        &self.0.inside
    }

    #[must_use]
    pub fn grant(&self) -> Option<&str> {
        self.0.grant.as_deref()
    }
}

impl Told {
    #[must_use]
    pub const fn new(target: Option<Target>, refusal: Refusal) -> Self {
        Self { target, refusal }
    }
}

#[cfg(test)]
mod tests;
