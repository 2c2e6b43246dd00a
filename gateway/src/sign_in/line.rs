//! Line: what the ledger says of a login that a person made.

use box_spec::{Agent, Provider};

use crate::ledger::{Entry, Kind};

/// The line, from what stands behind [`LOGINS`]: `PROVIDER/AGENT/NAME`. `None` where that is something else.
pub fn entry(asked: &str) -> Option<Entry> {
    let mut parts = asked.split('/');
    let (Some(provider), Some(agent), Some(name), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let (provider, agent) =
        (Provider::ALL.into_iter().find(|one| one.as_str() == provider)?, agent.parse::<Agent>().ok()?);
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > 63 || !name.bytes().all(is_name) {
        return None;
    }
    let entry = Entry::new(Kind::Login)
        .fact("provider", provider.as_str())
        .fact("kind", "login")
        .fact("login_of", agent.as_str());
    Some(if name == NAMELESS { entry } else { entry.fact("secret", name) })
}

/// Where the operator's socket takes it.
pub const LOGINS: &str = "/logins/";
/// For a login that the configuration has no place for yet: no name of a secret begins so.
pub const NAMELESS: &str = "-";

#[cfg(test)]
mod tests {
    use super::entry;

    #[test]
    fn what_is_asked_for_names_a_provider_an_agent_and_a_secret() {
        for good in ["anthropic/claude/mine", "openai-codex/codex/-", "anthropic/pi/a.b_c-1"] {
            assert!(entry(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "anthropic/claude",
            "nobody/claude/a",
            "anthropic/nobody/a",
            "anthropic/claude/",
            "anthropic/claude/A",
            "anthropic/claude/a/b",
            "anthropic/claude/a%0a",
        ] {
            assert!(entry(bad).is_none(), "{bad}");
        }
    }
}
