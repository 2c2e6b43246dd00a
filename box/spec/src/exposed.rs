//! Exposed: a variable of the agent's environment that holds the stand-in of a service's credential.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One variable that the box sets for its agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Exposed {
    pub name: VariableName,
    /// Worth nothing outside; the same for all variables of one secret.
    pub value: String,
}

/// Names a variable that may hold a stand-in: upper-case letters, digits and `_`, no digit first, at most 128 bytes, and
/// none that a box, an agent, a loader or a tool gives another meaning.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VariableName(String);

/// Why a name is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VariableFault {
    Form,
    /// The launch sets or removes it.
    Launch,
    /// A model provider's credential or address.
    Provider,
    /// It steers the loader, a shell, an interpreter or a tool.
    Tool,
}

impl VariableName {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for VariableName {
    type Err = VariableFault;

    fn from_str(text: &str) -> Result<Self, VariableFault> {
        let upper = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
        let first = text.bytes().next().is_some_and(upper);
        if !first || text.len() > LONGEST || !text.bytes().all(|byte| upper(byte) || byte.is_ascii_digit()) {
            return Err(VariableFault::Form);
        }
        let begins = |starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
        let ends = |endings: &[&str]| endings.iter().any(|ending| text.ends_with(ending));
        if begins(&["BOXGATE_", "DISABLE_"]) || ends(&["_PROXY", "_CA_BUNDLE"]) || LAUNCH.contains(&text) {
            return Err(VariableFault::Launch);
        }
        if begins(PROVIDER_FAMILIES) || ends(&["_BASE_URL"]) || PROVIDERS.contains(&text) {
            return Err(VariableFault::Provider);
        }
        if begins(LOADER_FAMILIES) || TOOLS.contains(&text) || begins(TOOL_FAMILIES) && !ends(CREDENTIAL_ENDINGS) {
            return Err(VariableFault::Tool);
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for VariableName {
    type Error = VariableFault;

    fn try_from(text: String) -> Result<Self, VariableFault> {
        text.parse()
    }
}

impl From<VariableName> for String {
    fn from(name: VariableName) -> Self {
        name.0
    }
}

impl fmt::Display for VariableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for VariableFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "must be upper-case letters, digits and `_`, with no digit first: \"GH_TOKEN\"",
            Self::Launch => "is reserved: boxd sets or removes this variable itself",
            Self::Provider => "is reserved: a model provider's credential comes by a [[secret]] with `provider`",
            Self::Tool => "is reserved: this variable steers a loader, a shell, an interpreter or a tool",
        })
    }
}

impl std::error::Error for VariableFault {}

const LONGEST: usize = 128;

const LAUNCH: &[&str] = &[
    "HOME",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CARGO_HTTP_CAINFO",
    "WGETRC",
    "DO_NOT_TRACK",
    "IS_SANDBOX",
    "API_TIMEOUT_MS",
];

/// The agents' own settings, and those of their providers.
const PROVIDER_FAMILIES: &[&str] = &["ANTHROPIC_", "CLAUDE_", "OPENAI_", "AZURE_OPENAI_", "CODEX_", "PI_"];

/// Keys of providers that an agent would take up by itself, those of Bedrock among them: requests are signed with them.
const PROVIDERS: &[&str] = &[
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "OPENROUTER_API_KEY",
    "ZAI_API_KEY",
    "GROQ_API_KEY",
    "DEEPSEEK_API_KEY",
    "XAI_API_KEY",
    "MISTRAL_API_KEY",
    "CEREBRAS_API_KEY",
    "COPILOT_GITHUB_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];

const LOADER_FAMILIES: &[&str] = &["LD_", "DYLD_", "MALLOC_", "BASH_", "LC_", "XDG_"];

/// Of these, what ends as a credential does is one.
const TOOL_FAMILIES: &[&str] = &[
    "BUN_", "CARGO_", "CURL_", "DENO_", "GEM_", "GIT_", "GRADLE_", "JAVA_", "JDK_", "MAVEN_", "NODE_", "NPM_", "PERL",
    "PIP_", "PYTHON", "RUBY", "RUST", "SSH_", "SUDO_", "UV_", "YARN_",
];

const CREDENTIAL_ENDINGS: &[&str] = &["_TOKEN", "_PASSWORD", "_SECRET", "_PAT", "_API_KEY"];

const TOOLS: &[&str] = &[
    "BROWSER",
    "BUNDLE_GEMFILE",
    "BUNDLE_PATH",
    "CDPATH",
    "EDITOR",
    "ENV",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "GOENV",
    "GOFLAGS",
    "GOPATH",
    "GOPROXY",
    "GOROOT",
    "GOSUMDB",
    "GOTOOLCHAIN",
    "HOSTALIASES",
    "IFS",
    "LANG",
    "LANGUAGE",
    "LESSOPEN",
    "LOCALDOMAIN",
    "LOCPATH",
    "LOGNAME",
    "MAIL",
    "NLSPATH",
    "OLDPWD",
    "PAGER",
    "PATH",
    "PROMPT_COMMAND",
    "PS1",
    "PS4",
    "PWD",
    "RES_OPTIONS",
    "SHELL",
    "SHELLOPTS",
    "TEMP",
    "TERM",
    "TERMINFO",
    "TMP",
    "TZ",
    "TZDIR",
    "USER",
    "VISUAL",
];

#[cfg(test)]
mod tests {
    use super::{VariableFault, VariableName};

    #[test]
    fn a_name_is_upper_snake_and_steers_nothing() {
        for good in [
            "GH_TOKEN",
            "GITHUB_TOKEN",
            "NPM_TOKEN",
            "NODE_AUTH_TOKEN",
            "CARGO_REGISTRY_TOKEN",
            "TWINE_PASSWORD",
            "GITLAB_PAT",
            "HF_TOKEN",
            "VAULT_TOKEN",
            "SENTRY_AUTH_TOKEN",
            "_X",
            "A2",
            "GIT_TOKEN",
        ] {
            assert_eq!(good.parse::<VariableName>().map(String::from), Ok(good.to_owned()), "{good}");
        }
        for (bad, fault) in [
            ("", VariableFault::Form),
            ("2FA", VariableFault::Form),
            ("gh_token", VariableFault::Form),
            ("GH-TOKEN", VariableFault::Form),
            ("GH TOKEN", VariableFault::Form),
            ("GH_TOKEN=x", VariableFault::Form),
            ("GH_TOKEN\0", VariableFault::Form),
            ("GH_TÖKEN", VariableFault::Form),
            ("BOXGATE_DOOR", VariableFault::Launch),
            ("HTTPS_PROXY", VariableFault::Launch),
            ("SSL_CERT_FILE", VariableFault::Launch),
            ("HOME", VariableFault::Launch),
            ("ANTHROPIC_AUTH_TOKEN", VariableFault::Provider),
            ("CLAUDE_CODE_OAUTH_TOKEN", VariableFault::Provider),
            ("OPENAI_API_KEY", VariableFault::Provider),
            ("GEMINI_API_KEY", VariableFault::Provider),
            ("LD_PRELOAD", VariableFault::Tool),
            ("LD_X_TOKEN", VariableFault::Tool),
            ("PATH", VariableFault::Tool),
            ("NODE_OPTIONS", VariableFault::Tool),
            ("PYTHONPATH", VariableFault::Tool),
            ("GIT_SSH_COMMAND", VariableFault::Tool),
            ("BASH_ENV", VariableFault::Tool),
            ("NPM_CONFIG_REGISTRY", VariableFault::Tool),
            ("CARGO_BUILD_RUSTC_WRAPPER", VariableFault::Tool),
        ] {
            assert_eq!(bad.parse::<VariableName>(), Err(fault), "{bad}");
        }
        assert_eq!("A".repeat(129).parse::<VariableName>(), Err(VariableFault::Form));
        assert!(serde_json::from_str::<VariableName>("\"PATH\"").is_err(), "not even the house may set it");
    }
}
