//! Routes that turn a credential into a durable one, at the models' providers and at services that agents use: refused
//! whatever a grant says.

use std::sync::LazyLock;

use http::Method;

use super::path::NormalPath;
use super::segments;

/// Whether this is a page or call that gives out keys, tokens or the right to them, in any reading of the path.
#[must_use]
pub fn makes_durable(host: &str, method: &Method, path: &NormalPath) -> bool {
    let labels: Vec<&str> = host.split('.').collect();
    let here: Vec<&Compiled> =
        COMPILED.iter().filter(|makers| makers.hosts.iter().any(|host| host.fits(&labels))).collect();
    if here.is_empty() {
        return false;
    }
    let makes = *method != Method::GET && *method != Method::HEAD;
    path.could_be(|reading| {
        let segments = plain_segments(reading);
        let is = |globs: &[Glob]| globs.iter().any(|glob| glob.fits(&segments));
        here.iter().any(|makers| is(&makers.always) || (makes && is(&makers.writes)))
    })
}

/// What makes durable credentials at some hosts. A host is patterned by its labels, a path by its segments: `*` stands for
/// one, `**` for any number of them, and a segment that ends with `*` for all that begin like it.
struct Makers {
    hosts: &'static [&'static str],
    /// By any method: a page is shown by GET, and some services read a query as they read a body.
    always: &'static [&'static str],
    /// By any method but GET and HEAD.
    writes: &'static [&'static str],
}

struct Compiled {
    hosts: Vec<Glob>,
    always: Vec<Glob>,
    writes: Vec<Glob>,
}

struct Glob(Vec<Part>);

enum Part {
    Many,
    Begins(&'static str),
    Is(&'static str),
}

static COMPILED: LazyLock<Vec<Compiled>> = LazyLock::new(|| {
    let all = |globs: &[&'static str], separator: char| globs.iter().map(|glob| Glob::new(glob, separator)).collect();
    let compiled = |makers: &Makers| Compiled {
        hosts: all(makers.hosts, '.'),
        always: all(makers.always, '/'),
        writes: all(makers.writes, '/'),
    };
    MAKERS.iter().map(compiled).collect()
});

impl Glob {
    fn new(text: &'static str, separator: char) -> Self {
        let part = |part: &'static str| match (part, part.strip_suffix('*')) {
            ("**", _) => Part::Many,
            (_, Some(start)) => Part::Begins(start),
            (_, None) => Part::Is(part),
        };
        Self(text.split(separator).map(part).collect())
    }

    fn fits(&self, found: &[&str]) -> bool {
        segments::fit(&self.0, found)
    }
}

impl segments::Part for Part {
    fn is_many(&self) -> bool {
        matches!(self, Self::Many)
    }

    fn is(&self, found: &str) -> bool {
        match self {
            Self::Many => true,
            Self::Begins(start) => found.starts_with(start),
            Self::Is(wanted) => found == *wanted,
        }
    }
}

/// Each segment without blanks around it and without a format behind it, and no empty one at the end: hosts are lax.
fn plain_segments(reading: &str) -> Vec<&str> {
    fn plain(segment: &str) -> &str {
        let segment = segment.trim();
        segment.strip_suffix(".json").unwrap_or(segment).trim_end()
    }
    let mut segments: Vec<&str> = reading.split('/').map(plain).collect();
    while segments.len() > 1 && segments.last().is_some_and(|last| last.is_empty()) {
        segments.pop();
    }
    segments
}

/// Paths are in lower case, as they are compared. A call that is answered locally never gets here.
const MAKERS: &[Makers] = &[
    // The models' providers: logins of further clients, agents' identities, remote control; keys; and calls whose answer holds
    // a key for a client elsewhere, though their path names none.
    Makers {
        hosts: &[
            "api.anthropic.com",
            "console.anthropic.com",
            "platform.claude.com",
            "claude.ai",
            "claude.com",
            "api.openai.com",
            "auth.openai.com",
            "auth.api.openai.org",
            "platform.openai.com",
            "chatgpt.com",
        ],
        always: &[
            "**/oauth/token",
            "**/oauth/authorize*/**",
            "**/oauth/device*/**",
            "**/deviceauth/*/**",
            "**/agent/register*/**",
            "**/remote/control/server*/**",
        ],
        writes: &[
            "**/create_api_key/**",
            "**/api_keys/**",
            "**/apikeys/**",
            "**/admin_api_keys/**",
            "**/service_accounts/**",
            "**/service_account_keys/**",
            "**/client_secrets/**",
            "**/realtime/sessions",
            "**/realtime/transcription_sessions",
            "**/chatkit/sessions",
        ],
    },
    // Also those of a GitHub Enterprise Server, where it is reached by such a name: its calls lie below /api/v3.
    Makers {
        hosts: &["api.github.com", "github.com", "github.*.**"],
        always: &[
            "**/login/oauth/**",
            "**/login/device/**",
            "/settings/tokens/**",
            "/settings/personal-access-tokens/**",
        ],
        writes: &[
            "**/user/keys/**",
            "**/user/gpg_keys/**",
            "**/user/ssh_signing_keys/**",
            "**/repos/*/*/keys/**",
            "**/repositories/*/keys/**",
            "**/repos/*/*/actions/runners/registration-token",
            "**/repos/*/*/actions/runners/remove-token",
            "**/repos/*/*/actions/runners/generate-jitconfig",
            "**/orgs/*/actions/runners/registration-token",
            "**/orgs/*/actions/runners/remove-token",
            "**/orgs/*/actions/runners/generate-jitconfig",
            "**/enterprises/*/actions/runners/**",
            "**/app/installations/*/access_tokens",
            "**/app-manifests/*/conversions",
            "**/applications/*/token/**",
            "**/authorizations/**",
            "**/scim/v2/**",
        ],
    },
    Makers {
        hosts: &["gitlab.com", "gitlab.*.**"],
        always: &["**/oauth/token", "**/oauth/authorize*/**", "**/-/user_settings/personal_access_tokens/**"],
        writes: &[
            "**/api/v4/**/access_tokens/**",
            "**/api/v4/**/personal_access_tokens/**",
            "**/api/v4/**/impersonation_tokens/**",
            "**/api/v4/**/deploy_tokens/**",
            "**/api/v4/**/deploy_keys/**",
            "**/api/v4/user/keys/**",
            "**/api/v4/users/*/keys/**",
            "**/api/v4/user/gpg_keys/**",
            "**/api/v4/users/*/gpg_keys/**",
            "**/api/v4/user/runners",
            "**/api/v4/runners/**",
            "**/api/v4/**/runners/reset_registration_token",
            "**/api/v4/**/triggers/**",
            "**/api/v4/job/allowed_agents",
        ],
    },
    // Package registries of npm, Python and Rust, whoever runs them: these paths are theirs alone.
    Makers {
        hosts: &["**"],
        always: &["/-/v1/login", "/-/v1/done", "/_/oidc/**"],
        writes: &[
            "**/-/npm/v1/tokens/**",
            "**/-/npm/v1/oidc/**",
            "**/-/user/org.couchdb.user:*",
            "/api/v1/me/tokens/**",
            "/api/v1/trusted_publishing/**",
        ],
    },
    Makers {
        hosts: &["huggingface.co"],
        always: &["/oauth/**", "/settings/tokens/**", "/login/**"],
        writes: &["/api/settings/tokens/**", "/api/settings/ssh-keys/**"],
    },
    // Services whose whole work it is.
    Makers {
        hosts: &[
            "sts.amazonaws.com",
            "sts.*.amazonaws.com",
            "sts.*.amazonaws.com.cn",
            "sts-fips.*.amazonaws.com",
            "iam.amazonaws.com",
            "portal.sso.*.amazonaws.com",
            "oidc.*.amazonaws.com",
            "oauth2.googleapis.com",
            "sts.googleapis.com",
            "iamcredentials.googleapis.com",
            "accounts.google.com",
            "login.microsoftonline.com",
            "login.windows.net",
        ],
        always: &["**"],
        writes: &[],
    },
];

#[cfg(test)]
mod tests;
