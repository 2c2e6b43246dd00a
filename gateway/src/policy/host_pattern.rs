//! Host patterns of a grant: one host, a suffix and all below it, or any host.

use std::fmt;

use crate::host::{Host, Name, TargetFault};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostPattern {
    Exact(Host),
    /// `*.suffix`: the suffix itself and every name below it.
    Below(Name),
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PatternFault {
    #[error(transparent)]
    Host(#[from] TargetFault),
    #[error("`*` stands alone or as the whole first label: \"*\", \"*.example.com\"")]
    Star,
    #[error("an address has no names below it")]
    BelowAddress,
}

impl HostPattern {
    pub fn parse(text: &str) -> Result<Self, PatternFault> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let (below, host) = text.strip_prefix("*.").map_or((false, text), |suffix| (true, suffix));
        if host.contains('*') {
            return Err(PatternFault::Star);
        }
        match (below, Host::parse(host)?) {
            (false, host) => Ok(Self::Exact(host)),
            (true, Host::Name(suffix)) => Ok(Self::Below(suffix)),
            (true, Host::Address(_)) => Err(PatternFault::BelowAddress),
        }
    }

    #[must_use]
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Exact(granted), asked) => granted == asked,
            (Self::Below(suffix), Host::Name(name)) => {
                name.strip_suffix(&**suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            (Self::Below(_), Host::Address(_)) => false,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => write!(f, "{host}"),
            Self::Below(suffix) => write!(f, "*.{suffix}"),
            Self::Any => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HostPattern, PatternFault};
    use crate::host::Host;

    #[test]
    fn a_pattern_matches_whole_labels_only() {
        for (pattern, host, matches) in [
            ("x.com", "x.com", true),
            ("x.com", "X.COM.", true),
            ("x.com", "a.x.com", false),
            ("*.x.com", "x.com", true),
            ("*.x.com", "a.x.com", true),
            ("*.x.com", "a.b.x.com", true),
            ("*.X.com.", "a.x.com", true),
            ("*.x.com", "ax.com", false),
            ("*.x.com", "x.com.evil.com", false),
            ("*.bücher.test", "a.xn--bcher-kva.test", true),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "::ffff:10.0.0.1", true),
            ("::1", "[::1]", true),
            ("*", "anything.test", true),
            ("*", "10.0.0.1", true),
        ] {
            let parsed = HostPattern::parse(pattern).expect("a pattern");
            let host = Host::parse(host).expect("a host");
            assert_eq!(parsed.matches(&host), matches, "{pattern} {host}");
        }
    }

    #[test]
    fn a_star_elsewhere_is_refused() {
        for bad in ["api*.x.com", "*x.com", "*.*.x.com", "x.*", "a.*.com"] {
            assert_eq!(HostPattern::parse(bad), Err(PatternFault::Star), "{bad}");
        }
        assert_eq!(HostPattern::parse("*.10.0.0.1"), Err(PatternFault::BelowAddress));
    }
}
