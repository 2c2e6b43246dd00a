//! The providers of the demo: which agents take them, and what the stand-in takes for a real credential.

/// A provider that the house serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Provider {
    Anthropic,
    /// ChatGPT, by login.
    OpenaiCodex,
    Openai,
}

impl Provider {
    pub(crate) const ALL: [Self; 3] = [Self::Anthropic, Self::OpenaiCodex, Self::Openai];

    /// As the house's configuration calls it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenaiCodex => "openai-codex",
            Self::Openai => "openai",
        }
    }

    /// The agents that take a credential of this provider's.
    pub(crate) const fn agents(self) -> [&'static str; 2] {
        match self {
            Self::Anthropic => ["claude", "pi"],
            Self::OpenaiCodex | Self::Openai => ["codex", "pi"],
        }
    }

    /// Whose credential this looks like. None where it could be more than one's.
    pub(crate) fn of(value: &str) -> Option<Self> {
        match value {
            _ if value.starts_with("sk-ant-") => Some(Self::Anthropic),
            _ if value.starts_with("sk-") => Some(Self::Openai),
            // A JSON web token: what ChatGPT gives at a login.
            _ if value.starts_with("eyJ") => Some(Self::OpenaiCodex),
            _ => None,
        }
    }

    /// The kind of a credential of this provider's, as the house's configuration calls it.
    pub(crate) fn kind_of(self, value: &str) -> &'static str {
        match self {
            Self::Anthropic if value.starts_with("sk-ant-api") => "api-key",
            Self::Anthropic | Self::OpenaiCodex => "login",
            Self::Openai => "api-key",
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        self.kind_of(self.secret())
    }

    /// What the stand-in takes for real. It must not be found in a box.
    pub(crate) const fn secret(self) -> &'static str {
        match self {
            Self::Anthropic => "sk-ant-oat01-the-real-one-that-never-enters-the-box",
            Self::OpenaiCodex => "chatgpt-login-the-real-one-that-never-enters-the-box",
            Self::Openai => "sk-proj-the-real-one-that-never-enters-the-box",
        }
    }

    /// The same as the stand-in's command line has it.
    pub(crate) fn made_up(self) -> String {
        match self {
            Self::OpenaiCodex => format!("{ACCOUNT}={}", self.secret()),
            Self::Anthropic | Self::Openai => self.secret().to_owned(),
        }
    }

    /// A login at ChatGPT belongs to an account; a real token names it by itself.
    pub(crate) const fn account_line(self) -> &'static str {
        match self {
            Self::OpenaiCodex => "account_id = \"account-of-the-demo\"\n",
            Self::Anthropic | Self::Openai => "",
        }
    }
}

const ACCOUNT: &str = "account-of-the-demo";

#[cfg(test)]
mod tests {
    use super::{ACCOUNT, Provider};

    #[test]
    fn a_credential_tells_whose_it_is() {
        for (value, provider, kind) in [
            ("sk-ant-oat01-x", Some(Provider::Anthropic), "login"),
            ("sk-ant-api03-x", Some(Provider::Anthropic), "api-key"),
            ("sk-proj-x", Some(Provider::Openai), "api-key"),
            ("eyJhbGciOi.x.y", Some(Provider::OpenaiCodex), "login"),
            ("something", None, ""),
        ] {
            assert_eq!(Provider::of(value), provider, "{value}");
            assert_eq!(provider.map_or("", |provider| provider.kind_of(value)), kind, "{value}");
        }
    }

    #[test]
    fn the_account_is_the_same_in_the_house_and_at_the_stand_in() {
        assert!(Provider::OpenaiCodex.account_line().contains(ACCOUNT));
        assert!(Provider::OpenaiCodex.made_up().starts_with(&format!("{ACCOUNT}=")));
    }
}
